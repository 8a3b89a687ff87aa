"""What intake reads and writes: runs, loads, subjects, records, entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from dispatcher.store.transaction import Tx

RECORD: Final = ("id", "run_id", "load_id", "pseudonym", "key", "columns")
"""Columns that every record has; ``subject_id`` may follow."""

ENTRY: Final = ("id", "record_id", "field_id", "media", "shown")
"""Columns that every entry has; facts that rules need may follow."""


class RunRow(NamedTuple):
    """A run."""

    id: int
    state: str


class LoadRow(NamedTuple):
    """A load: its columns as JSON."""

    id: int
    columns: str


class RecordRow(NamedTuple):
    """A record that is in the store: its cells as JSON, in its load's order."""

    id: int
    load_id: int
    columns: bytes


def run(tx: Tx, name: str, now: int) -> RunRow:
    """Return the run of that name, made if there is none."""
    found = tx.one("SELECT id, state FROM run WHERE name = ?", [name])
    if found is None:
        number = tx.reserve("run")
        tx.insert_new(
            "run",
            ["name"],
            ["id", "name", "state", "created_at"],
            [(number, name, "active", now)],
        )
        found = tx.one("SELECT id, state FROM run WHERE name = ?", [name])
        assert found is not None
    return RunRow(*found)


def loads_of(tx: Tx, run_id: int, source: str) -> list[LoadRow]:
    """Loads of files of that name into the run, the first one first."""
    found = tx.rows(
        "SELECT id, columns FROM load WHERE run_id = ? AND source = ? ORDER BY id",
        [run_id, source],
    )
    return [LoadRow(*row) for row in found]


def begin_load(tx: Tx, run_id: int, source: str, columns: str, now: int) -> int:
    """Note that a file is being loaded; return the load's id."""
    number = tx.reserve("load")
    tx.insert_many(
        "load",
        ["id", "run_id", "source", "columns", "records", "rejected", "state",
         "started_at", "finished_at"],
        [(number, run_id, source, columns, 0, 0, "loading", now, None)],
    )  # fmt: skip
    return number


def begin_again(tx: Tx, load_id: int, now: int) -> None:
    """Note that the same file is being loaded once more."""
    tx.execute(
        "UPDATE load SET state = 'loading', rejected = 0, started_at = ?,"
        " finished_at = NULL WHERE id = ?",
        [now, load_id],
    )


def note_chunk(tx: Tx, load_id: int, columns: str, records: int) -> None:
    """Count in what one transaction of a load brought."""
    tx.execute(
        "UPDATE load SET columns = ?, records = records + ? WHERE id = ?",
        [columns, records, load_id],
    )


def end_load(tx: Tx, load_id: int, rejected: int, now: int) -> None:
    """Note that a file was read to its end."""
    tx.execute(
        "UPDATE load SET state = 'done', rejected = ?, finished_at = ? WHERE id = ?",
        [rejected, now, load_id],
    )


def known_records(tx: Tx, pseudonyms: Sequence[str]) -> dict[str, RecordRow]:
    """Those of the records that are in the store, by pseudonym."""
    found = tx.rows(
        "SELECT pseudonym, id, load_id, columns FROM record WHERE pseudonym = ANY(?)",
        [list(pseudonyms)],
    )
    return {
        name: RecordRow(number, load_id, bytes(columns))
        for name, number, load_id, columns in found
    }


def columns_of_loads(tx: Tx, load_ids: Iterable[int]) -> dict[int, str]:
    """Columns of loads, as JSON."""
    return dict(
        tx.rows("SELECT id, columns FROM load WHERE id = ANY(?)", [sorted(load_ids)])
    )


def subject_ids(tx: Tx, values: Mapping[str, bytes]) -> dict[str, int]:
    """Return the ids of subjects, those that are new made.

    Parameters
    ----------
    tx : Tx
    values : Mapping of str to bytes
        By pseudonym, the text that names the subject in the file.
    """
    if not values:
        return {}
    known = _subjects(tx, list(values))
    new = [name for name in values if name not in known]
    if new:
        first = tx.reserve("subject", len(new))
        added = tx.insert_new(
            "subject",
            ["pseudonym"],
            ["id", "pseudonym", "value", "key_id"],
            [(first + i, name, values[name], None) for i, name in enumerate(new)],
        )
        if added == len(new):
            known.update((name, first + i) for i, name in enumerate(new))
        else:  # another load was faster with some
            known.update(_subjects(tx, new))
    return known


def _subjects(tx: Tx, pseudonyms: list[str]) -> dict[str, int]:
    return dict(
        tx.rows(
            "SELECT pseudonym, id FROM subject WHERE pseudonym = ANY(?)", [pseudonyms]
        )
    )


def add_records(
    tx: Tx, rows: Iterable[Sequence[object]], facts: Sequence[str] = ()
) -> int:
    """Insert records; columns as :data:`RECORD`, then the facts named.

    Raises
    ------
    Clash
        Another load brought one of them since it was looked up.
    """
    return tx.insert_many("record", (*RECORD, *facts), rows)


def add_entries(
    tx: Tx, rows: Iterable[Sequence[object]], facts: Sequence[str] = ()
) -> int:
    """Insert entries; columns as :data:`ENTRY`, then the facts named."""
    return tx.insert_many("entry", (*ENTRY, *facts), rows)
