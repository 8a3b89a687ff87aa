"""Answers and results on their way into the store: sealed like the entry they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from dispatcher.model import Entry
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

_KEYS: Final = select_columns(Entry.id, Entry.key_id).where(
    in_list(Entry.id, "entries")
)


def keys_of_entries(tx: Tx, entry_ids: Iterable[int]) -> dict[int, int | None]:
    """Ids of the data keys of entries; None for what is stored in clear."""
    wanted = sorted(set(entry_ids))
    found: dict[int, int | None] = dict(tx.execute(_KEYS, {"entries": wanted}).all())
    tx.vault.prepare(tx, found.values())
    return found


def sealed(
    tx: Tx,
    table: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    values: Sequence[str],
) -> Iterator[tuple[Any, ...]]:
    """Rows of a table about entries, their values sealed, with the key's id at the end.

    Parameters
    ----------
    tx : Tx
    table : str
    columns : sequence of str
        Columns of the rows: the row's id first, ``entry_id`` among them.
    rows : sequence of tuples
    values : sequence of str
        The columns that hold values.
    """
    at = columns.index("entry_id")
    keys = keys_of_entries(tx, [row[at] for row in rows])
    places = [(columns.index(name), f"{table}.{name}") for name in values]
    for row in rows:
        key_id = keys.get(row[at])
        kept = list(row)
        if key_id is not None:
            for place, column in places:
                if kept[place] is not None:
                    kept[place] = tx.vault.seal(tx, column, row[0], key_id, kept[place])
        yield (*kept, key_id)


def put_answers(
    tx: Tx, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, correct: bool
) -> None:
    """Write answers, one a task; ``correct``: one that is there is overwritten."""
    written = (*columns, "key_id")
    kept = list(sealed(tx, "answer", columns, rows, ("raw", "normal")))
    if correct:
        tx.upsert_many("answer", ["task_id"], written, kept)
    else:
        tx.insert_many("answer", written, kept)
