"""What one worker may know of their own work: counts by day and kind, pay, tests."""

from __future__ import annotations

from typing import Final, NamedTuple

from dispatcher.store.transaction import Tx

_DAY: Final = 86_400_000_000


class DoneRow(NamedTuple):
    """Tasks of one day (days since 1970 UTC) and field that were answered."""

    day: int
    field_id: int
    tasks: int


class PayRow(NamedTuple):
    """Pay in one currency, in its millionths: for all that was answered, and paid."""

    currency: str
    earned: int
    paid: int


class TestRow(NamedTuple):
    """How a test went."""

    field_id: int
    state: str
    attempt: int
    ended_at: int | None


def done(tx: Tx, account_id: int, since: int) -> list[DoneRow]:
    """Answered tasks by the day that they were given, the newest first.

    Made-up questions count: a list that left them out would tell which they were.
    """
    rows = tx.rows(
        f"SELECT d.at / {_DAY}, d.field_id, count(*) FROM ("
        "SELECT t.created_at AS at, e.field_id AS field_id FROM task t"
        " JOIN entry e ON e.id = t.entry_id"
        " WHERE t.account_id = ? AND t.state = 'answered' AND t.created_at >= ?"
        " UNION ALL SELECT g.created_at, p.field_id FROM probe_task g"
        " JOIN probe p ON p.id = g.probe_id"
        " WHERE g.account_id = ? AND g.state = 'answered' AND g.created_at >= ?) d"
        " GROUP BY 1, 2 ORDER BY 1 DESC, 2",
        [account_id, since, account_id, since],
    )
    return [DoneRow(*map(int, row)) for row in rows]


def pay(tx: Tx, account_id: int) -> list[PayRow]:
    """What an account has earned and was paid, by currency."""
    rows = tx.rows(
        "SELECT b.currency, sum(CASE WHEN p.state IN ('due', 'held', 'unknown', 'paid')"
        " OR (p.state = 'reserved' AND (t.state = 'answered' OR g.state = 'answered'))"
        " THEN p.amount ELSE 0 END),"
        " sum(CASE WHEN p.state = 'paid' THEN p.amount ELSE 0 END)"
        " FROM payment p JOIN budget b ON b.run_id = p.run_id"
        " LEFT JOIN task t ON p.kind = 'field' AND t.id = p.about"
        " LEFT JOIN probe_task g ON p.kind = 'field' AND g.id = p.about"
        " WHERE p.account_id = ? GROUP BY b.currency ORDER BY b.currency",
        [account_id],
    )
    return [PayRow(row[0], int(row[1]), int(row[2])) for row in rows]


def tests(tx: Tx, account_id: int) -> list[TestRow]:
    """How the tests that an account began went."""
    rows = tx.rows(
        "SELECT field_id, state, attempt, ended_at FROM qualification"
        " WHERE account_id = ? ORDER BY field_id",
        [account_id],
    )
    return [TestRow(*row) for row in rows]


def planned(tx: Tx, connector: str, version: int) -> int:
    """Tasks that wait for the workers of a connector, all together, about.

    Serving leaves the pairs that it booked in the plan: what was handed out since the
    plan was applied is taken off.
    """
    row = tx.one(
        "SELECT sum(length(s.entries)), min(p.applied_at) FROM assignment s"
        " JOIN plan p ON p.id = s.plan_id JOIN account a ON a.id = s.account_id"
        " WHERE p.state = 'applied' AND p.policy_version = ? AND a.connector = ?"
        " AND a.state = 'active'",
        [version, connector],
    )
    if row is None or row[0] is None:
        return 0
    handed = tx.value(
        "SELECT count(*) FROM account a JOIN task t ON t.account_id = a.id"
        " WHERE a.connector = ? AND a.state = 'active' AND t.created_at >= ?",
        [connector, row[1]],
    )
    return max(0, int(row[0]) // 8 - int(handed))


def end_tasks(tx: Tx, account_id: int, now: int) -> None:
    """Take all that an account has in hand out of its hands; the drafts go."""
    for table, more in (("task", ""), ("probe_task", ", ended_at = ?")):
        moment = [now] if more else []
        tx.execute(
            f"UPDATE {table} SET state = 'returned', leased_until = NULL, draft = NULL"
            f"{more} WHERE account_id = ? AND state IN ('shown', 'expired')",
            [*moment, account_id],
        )
