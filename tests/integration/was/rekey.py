"""Sealing what is in clear, and wrapping data keys anew: bounded pieces of one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dispatcher.core.keys import place_of
from dispatcher.store.settings import KEYS, setting
from dispatcher.store.transaction import Row, Tx
from dispatcher.store.vault import SEALING


class Plain(NamedTuple):
    """A table with values in clear.

    Attributes
    ----------
    table, number : str
        The table and its id column.
    values : tuple of str
        Columns of values.
    some : str
        What a row with a value in clear looks like.
    key : str
        The key that the row takes, in terms of its row ``x``; "" for a new one.
    """

    table: str
    number: str
    values: tuple[str, ...]
    some: str
    key: str


_OF_ENTRY: Final = "(SELECT e.key_id FROM entry e WHERE e.id = x.entry_id)"

TABLES: Final = (
    Plain("subject", "id", ("value",), "length(x.value) > 0", ""),
    Plain(
        "record",
        "id",
        ("key", "columns"),
        "x.erased_at IS NULL",
        "(SELECT s.key_id FROM subject s WHERE s.id = x.subject_id)",
    ),
    Plain(
        "entry",
        "id",
        ("shown",),
        "length(x.shown) > 0",
        "(SELECT r.key_id FROM record r WHERE r.id = x.record_id)",
    ),
    Plain("task", "id", ("draft",), "x.draft IS NOT NULL", _OF_ENTRY),
    Plain("answer", "task_id", ("raw", "normal"), "1 = 1", _OF_ENTRY),
    Plain("result", "entry_id", ("value",), "x.value IS NOT NULL", _OF_ENTRY),
    Plain("quarantine", "id", ("payload",), "length(x.payload) > 0", ""),
)
"""All tables with values, in an order in which keys are there before they are needed."""


def sealed_under(tx: Tx) -> str | None:
    """Id of the wrapping key that the store seals under; None: it is in clear."""
    found = setting(tx, SEALING)
    return None if found is None else found.decode("ascii", "replace")


def hold_sealing(tx: Tx) -> str | None:
    """Return the same, and let nobody change it, or make data keys, meanwhile."""
    tx.value("SELECT 1 FROM setting WHERE name = ? FOR UPDATE", [KEYS[0]])
    tx.value("SELECT 1 FROM setting WHERE name = ? FOR UPDATE", [SEALING])
    return sealed_under(tx)


def remaining(tx: Tx) -> dict[str, int]:
    """How many rows of each table hold a value in clear."""
    found = {}
    for one in TABLES:
        text = (
            f"SELECT count(*) FROM {one.table} x WHERE x.key_id IS NULL AND {one.some}"
        )
        found[one.table] = int(tx.value(text))
    return found


def seal_piece(tx: Tx, plain: Plain, after: int, limit: int) -> tuple[int, int | None]:
    """Seal some rows of a table that are in clear.

    Parameters
    ----------
    tx : Tx
        A write transaction of a store that seals.
    plain : Plain
    after : int
        Rows above this id.
    limit : int

    Returns
    -------
    tuple of (int, int or None)
        Rows sealed, and the id to go on after; None at the table's end.
    """
    found = tx.rows(
        f"SELECT x.{plain.number}, {plain.key or 'NULL'},"
        f" {', '.join('x.' + name for name in plain.values)} FROM {plain.table} x"
        f" WHERE x.key_id IS NULL AND {plain.some} AND x.{plain.number} > ?"
        f" ORDER BY x.{plain.number} LIMIT ? FOR UPDATE OF x",
        [after, limit],
    )
    if not found:
        return 0, None
    keys = _keys(tx, plain, found)
    changed = []
    for row, key_id in zip(found, keys, strict=True):
        if key_id is not None:
            values = _sealed(tx, plain, row, key_id)
            changed.append((row[0], *values, key_id))
    tx.update_many(plain.table, [plain.number], [*plain.values, "key_id"], changed)
    return len(changed), found[-1][0]


def _keys(tx: Tx, plain: Plain, found: Sequence[Row]) -> list[int | None]:
    """Keys of rows: their subject's or record's, new ones where there is none to take."""
    keys: list[int | None] = [row[1] for row in found]
    tx.vault.prepare(tx, keys)
    alone = plain.table in ("subject", "record", "quarantine")
    lacking = [place for place, key_id in enumerate(keys) if key_id is None]
    if alone and lacking:
        if plain.table == "record":
            lacking = _without_subject(tx, found, lacking)
        made = tx.vault.make(tx, len(lacking))
        for place, key_id in zip(lacking, made, strict=True):
            keys[place] = key_id
    return keys


def _without_subject(tx: Tx, found: Sequence[Row], places: list[int]) -> list[int]:
    """Leave out records whose subject is yet to get its key: the next pass has them."""
    ids = [found[place][0] for place in places]
    bound = {
        row[0]
        for row in tx.rows(
            "SELECT id FROM record WHERE id = ANY(?) AND subject_id IS NOT NULL", [ids]
        )
    }
    return [place for place in places if found[place][0] not in bound]


def _sealed(tx: Tx, plain: Plain, row: Row, key_id: int) -> list[bytes | None]:
    return [
        None
        if value is None
        else tx.vault.seal(tx, f"{plain.table}.{name}", row[0], key_id, bytes(value))
        for name, value in zip(plain.values, row[2:], strict=True)
    ]


def rewrap_piece(tx: Tx, kek: str, after: int, limit: int) -> tuple[int, int | None]:
    """Wrap some data keys under a wrapping key; returns as the above."""
    found = tx.rows(
        "SELECT id, kek, wrapped FROM value_key WHERE id > ? AND kek <> ?"
        " ORDER BY id LIMIT ? FOR UPDATE",
        [after, kek, limit],
    )
    if not found:
        return 0, None
    changed = []
    for number, old, wrapped in found:
        place = place_of("value_key", number)
        secret = tx.vault.unwrap(place, old, bytes(wrapped))
        changed.append((number, kek, tx.vault.wrap(kek, place, secret)))
    tx.update_many("value_key", ["id"], ["kek", "wrapped"], changed)
    return len(changed), found[-1][0]


def wrapping_keys(tx: Tx) -> dict[str, int]:
    """How many data keys each wrapping key holds."""
    return dict(tx.rows("SELECT kek, count(*) FROM value_key GROUP BY kek"))
