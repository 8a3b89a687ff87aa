"""Fields by how often they were shown: those that t keeps from being shown again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dispatcher.model import LIVE_TASK_STATES
from dispatcher.store.ledger import parts, unburned
from dispatcher.store.settings import set_setting, setting
from dispatcher.store.transaction import Tx

_UNBURNT: Final = "unburnt"
_LIVE: Final = ", ".join(f"'{state}'" for state in LIVE_TASK_STATES)


class FieldRow(NamedTuple):
    """One entry: how often it was shown and what came of it."""

    entry_id: int
    record_id: int
    field_id: int
    run: str
    state: str
    wanted: int
    showings: int
    extra: int
    answers: int
    live: int


def often_shown(tx: Tx, least: int) -> list[int]:
    """Entries without a settled answer that had so many showings (grows with them)."""
    found = tx.rows(
        "SELECT s.entry_id FROM (SELECT entry_id, count(*) AS showings FROM ledger_line"
        " WHERE showing = 1 GROUP BY entry_id HAVING count(*) >= ?) s"
        " LEFT JOIN result q ON q.entry_id = s.entry_id"
        " WHERE COALESCE(q.state, 'open') <> 'answered' ORDER BY s.entry_id",
        [least],
    )
    return [int(row[0]) for row in found]


def in_state(tx: Tx, state: str | None, limit: int) -> list[int]:
    """Entries in a state of their answers (None: any), in the order of loading."""
    found = tx.rows(
        "SELECT e.id FROM entry e JOIN record r ON r.id = e.record_id"
        " LEFT JOIN result q ON q.entry_id = e.id WHERE r.erased_at IS NULL"
        " AND (CAST(? AS TEXT) IS NULL OR COALESCE(q.state, 'open') = ?)"
        " ORDER BY e.id LIMIT ?",
        [state, state, limit],
    )
    return [int(row[0]) for row in found]


def fields(tx: Tx, entry_ids: Sequence[int]) -> list[FieldRow]:
    """What became of entries, in order of id; those of erased records are left out."""
    found: list[FieldRow] = []
    for part in parts(sorted(set(entry_ids))):
        extra: dict[int, int] = {}
        for entry_id, body in tx.rows(
            "SELECT entry_id, body FROM ledger_line"
            " WHERE kind = 'unburn' AND entry_id = ANY(?)",
            [part],
        ):
            extra[entry_id] = extra.get(entry_id, 0) + unburned(body)
        for row in tx.rows(
            "SELECT e.id, e.record_id, e.field_id, u.name, COALESCE(q.state, 'open'),"
            " COALESCE(q.wanted, 0),"
            " (SELECT count(*) FROM ledger_line l WHERE l.entry_id = e.id"
            " AND l.showing = 1),"
            " (SELECT count(*) FROM answer a WHERE a.entry_id = e.id AND a.valid = 1),"
            " (SELECT count(*) FROM task t WHERE t.entry_id = e.id"
            f" AND t.state IN ({_LIVE}))"
            " FROM entry e JOIN record r ON r.id = e.record_id"
            " JOIN run u ON u.id = r.run_id LEFT JOIN result q ON q.entry_id = e.id"
            " WHERE r.erased_at IS NULL AND u.state <> 'cancelled' AND e.id = ANY(?)"
            " ORDER BY e.id",
            [part],
        ):
            entry_id, record, field, run, state, wanted, shown, answers, live = row
            more = extra.get(entry_id, 0)
            counts = (wanted, shown, more, answers, live)
            found.append(FieldRow(entry_id, record, field, run, state, *counts))
    return found


def reopen(tx: Tx, entry_id: int) -> None:
    """Let an entry in conflict wait for answers again; its own are counted anew."""
    reopened = tx.execute(
        "UPDATE result SET state = 'open' WHERE entry_id = ? AND state = 'conflict'",
        [entry_id],
    )
    if reopened:
        tx.execute("UPDATE answer SET counted = 0 WHERE entry_id = ?", [entry_id])


def granted(tx: Tx) -> int:
    """How many times extra showings were granted: there may be something to plan."""
    return int(setting(tx, _UNBURNT) or 0)


def note_granted(tx: Tx) -> None:
    """Count one more grant; chain ``system`` is locked."""
    set_setting(tx, _UNBURNT, str(granted(tx) + 1).encode())
