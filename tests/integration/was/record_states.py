"""What ``dispatcher records list|show`` reads: keys and states, never a value."""

from __future__ import annotations

from typing import NamedTuple

from dispatcher.model import LIVE_TASK_STATES
from dispatcher.store.transaction import Tx


class RecordRow(NamedTuple):
    """One record: how many fields it has, and how many of them are settled."""

    key: str
    run: str
    state: str
    fields: int
    answered: int
    conflict: int


class FieldRow(NamedTuple):
    """One field of a record; ``held_back`` is the plan's reason, or empty."""

    field: str
    state: str
    tasks: int
    live: int
    answers: int
    held_back: str


def records(tx: Tx, run: str | None, state: str | None, limit: int) -> list[RecordRow]:
    """Records in the order of loading, of a run (None: any) and in a state."""
    found = tx.rows(
        "SELECT id, key, run, state, fields, answered, conflict, key_id, pseudonym"
        " FROM (SELECT c.*, CASE WHEN erased_at IS NOT NULL THEN 'erased'"
        " WHEN conflict > 0 THEN 'conflict'"
        " WHEN answered < fields THEN 'open' ELSE 'answered' END AS state FROM ("
        " SELECT r.id AS id, r.key AS key, r.key_id AS key_id, r.erased_at AS erased_at,"
        " r.pseudonym AS pseudonym, u.name AS run, count(e.id) AS fields,"
        " sum(CASE WHEN s.state = 'answered' THEN 1 ELSE 0 END) AS answered,"
        " sum(CASE WHEN s.state = 'conflict' THEN 1 ELSE 0 END) AS conflict"
        " FROM record r JOIN run u ON u.id = r.run_id"
        " LEFT JOIN entry e ON e.record_id = r.id"
        " LEFT JOIN result s ON s.entry_id = e.id"
        " WHERE CAST(? AS TEXT) IS NULL OR u.name = ?"
        " GROUP BY r.id, r.key, r.key_id, r.erased_at, r.pseudonym, u.name) c) d"
        " WHERE CAST(? AS TEXT) IS NULL OR state = ? ORDER BY id LIMIT ?",
        [run, run, state, state, limit],
    )
    return [
        RecordRow(
            _text(row[1]) or row[8], *row[2:4], *(int(number) for number in row[4:7])
        )
        for row in tx.vault.opened(tx, found, [(1, "record.key")], 7)
    ]


def fields(tx: Tx, pseudonym: str) -> list[FieldRow]:
    """Fields of the record with this pseudonym, in their order."""
    live = ", ".join(f"'{state}'" for state in LIVE_TASK_STATES)
    found = tx.rows(
        "SELECT f.name, COALESCE(s.state, 'open'),"
        " (SELECT count(*) FROM task t WHERE t.entry_id = e.id),"
        " (SELECT count(*) FROM task t WHERE t.entry_id = e.id"
        f" AND t.state IN ({live})),"
        " (SELECT count(*) FROM answer a WHERE a.entry_id = e.id AND a.valid = 1),"
        " COALESCE((SELECT max(h.reason) FROM held_back h WHERE h.entry_id = e.id), '')"
        " FROM entry e JOIN record r ON r.id = e.record_id"
        " JOIN field f ON f.id = e.field_id LEFT JOIN result s ON s.entry_id = e.id"
        " WHERE r.pseudonym = ? ORDER BY e.field_id",
        [pseudonym],
    )
    return [FieldRow(*row) for row in found]


def _text(key: bytes) -> str:
    """The key as a line can show it: what is not printable is marked."""
    text = bytes(key).decode("utf-8", errors="replace")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
