"""Whether an account may work at all, and whether it had enough for now."""

from __future__ import annotations

from typing import Final

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.store import Tx, probes
from dispatcher.store import tasks as task_rows
from dispatcher.store.serving import AccountRow
from dispatcher.store.tasks import TaskRow

SECOND: Final = 1_000_000
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR

IN: Final = frozenset({"active", "stopped"})
"""States of accounts that are let in: who is stopped may end what is in hand."""


def out(account: AccountRow | None, number: int) -> bool:
    """Whether an account is let in no more, or not by this invite."""
    return account is None or account.state not in IN or account.invite != number


def lapsed(task: TaskRow | None, now: int) -> bool:
    """Whether the lease of a task is over, and not long ago."""
    if task is None or task.leased_until is None or task.leased_until > now:
        return False
    return task.state in ("shown", "expired") and task.created_at > now - DAY


def full(
    tx: Tx, account: AccountRow, force: ActivePolicy, now: int, *, booked: int = 0
) -> bool:
    """Whether a capacity of the policy stops the account for now.

    ``booked``: how many of its tasks were booked in this transaction, to be judged.
    Gold counts in a day and an hour: the moment when room is again would tell of each
    task whether it was gold. In all it does not, for real fields are planned by that.
    """
    allowed = force.policy.capacity(f"{account.connector}/{account.name}")
    given = 0 if allowed.total is None else task_rows.tasks_since(tx, account.id, -1)
    day, hour = (
        0
        if limit is None
        else task_rows.tasks_since(tx, account.id, since)
        + probes.gold_since(tx, account.id, since)
        for limit, since in (
            (allowed.per_day, now - DAY),
            (allowed.per_hour, now - HOUR),
        )
    )
    # Nothing is in hand: whoever has a task in hand gets that one again.
    return allowed.room(given - booked, 0, day - booked, hour - booked) == 0
