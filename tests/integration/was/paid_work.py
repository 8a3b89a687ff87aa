"""Work that money is asked for: what waits for an account, what was booked, whose it is."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.store.transaction import Tx
from tests.integration.was.money import FieldRow


def booked(tx: Tx, tasks: range) -> list[FieldRow]:
    """Tasks by their ids, which follow each other."""
    found = tx.rows(
        "SELECT t.id, r.run_id, t.account_id, t.connector, t.outbox_id FROM task t"
        " JOIN entry e ON e.id = t.entry_id JOIN record r ON r.id = e.record_id"
        " WHERE t.id >= ? AND t.id < ? ORDER BY t.id",
        [tasks.start, tasks.stop],
    )
    return [FieldRow(*row) for row in found]


def run_of_each(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """Run of each of the entries."""
    text = (
        "SELECT e.id, r.run_id FROM entry e JOIN record r ON r.id = e.record_id"
        " WHERE e.id = ANY(?)"
    )
    return dict(tx.rows(text, [entry_ids]))


def planned_for(tx: Tx, account_id: int) -> bytes:
    """Packed entries that the plan in force still means for an account."""
    found = tx.rows(
        "SELECT s.entries FROM assignment s JOIN plan p ON p.id = s.plan_id"
        " WHERE p.state = 'applied' AND s.account_id = ? ORDER BY s.plan_id",
        [account_id],
    )
    return b"".join(bytes(row[0]) for row in found)


def given_to(tx: Tx, account_id: int) -> list[int]:
    """Entries that an account was ever given a task on."""
    rows = tx.rows("SELECT entry_id FROM task WHERE account_id = ?", [account_id])
    return [row[0] for row in rows]


def open_runs_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """How many of the entries still miss answers, by run that is at work."""
    found = tx.rows(
        "SELECT r.run_id, count(*) FROM entry e JOIN record r ON r.id = e.record_id"
        " JOIN run u ON u.id = r.run_id LEFT JOIN result q ON q.entry_id = e.id"
        " WHERE e.id = ANY(?) AND u.state = 'active' AND r.erased_at IS NULL"
        " AND r.waits_since IS NULL"
        " AND coalesce(q.state, 'open') = 'open'"
        " AND NOT EXISTS (SELECT 1 FROM pause s WHERE s.scope = 'run:' || u.name)"
        " GROUP BY r.run_id",
        [entry_ids],
    )
    return {int(run_id): int(count) for run_id, count in found}


def runs_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """How many of the entries are of each run."""
    found = tx.rows(
        "SELECT r.run_id, count(*) FROM entry e JOIN record r ON r.id = e.record_id"
        " WHERE e.id = ANY(?) GROUP BY r.run_id",
        [entry_ids],
    )
    return {int(run_id): int(count) for run_id, count in found}


def accounts_of(tx: Tx, connectors: Sequence[str]) -> frozenset[int]:
    """Accounts of some connectors."""
    text = "SELECT id FROM account WHERE connector = ANY(?)"
    return frozenset(row[0] for row in tx.rows(text, [connectors]))
