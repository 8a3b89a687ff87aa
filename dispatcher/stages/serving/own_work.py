"""A worker's own page: what there is to do, what was done and earned; and leaving.

It contains nothing of a record or of another worker, and does not reveal whether an
answer was accepted, or which questions were made up. The amount of waiting work is
shown roughly: an exact number that falls would reveal a refusal. That nothing waits,
Start reveals as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from statistics import median
from typing import Final

from dispatcher import money
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.ledger.book import lock_adversaries
from dispatcher.stages.serving.values import DAY, SECOND, Present, out
from dispatcher.store import (
    Clock,
    Store,
    Tx,
    accounts,
    arrivals,
    events,
    gold_questions,
    serving,
)
from policies.policy import Field

DAYS: Final = 30
"""Days of history that are shown."""

KINDS: Final = {
    "transcribe": "texts",
    "choose": "choices",
    "number": "numbers",
    "date": "dates",
    "yes_no": "yes or no",
    "spans": "passages",
    "table": "tables",
}
"""What a field's task is called, by ``ask``."""

OTHER: Final = "other"

ROUGHLY: Final = (
    (1, "Nothing waits at the moment."),
    (10, "A few tasks wait for you."),
    (100, "Dozens of tasks wait for you."),
    (1000, "Hundreds of tasks wait for you."),
)
MANY: Final = "Thousands of tasks wait for you."


@dataclass(frozen=True)
class Done:
    """How many tasks of a kind were answered on a day (UTC)."""

    day: date
    kind: str
    tasks: int


@dataclass(frozen=True)
class Tested:
    """How a field's test went; ``again`` is when it may be tried once more, if ever."""

    field: Field
    state: str
    again: datetime | None = None


@dataclass(frozen=True)
class OwnWork:
    """What a worker is shown of their own work.

    Attributes
    ----------
    waiting : str
        Roughly how much there is to do.
    done : tuple of Done
        Of the last :data:`DAYS` days, the newest first.
    pay : tuple of (str, str)
        Earned and paid, an amount with its currency each.
    tests : tuple of Tested
    """

    waiting: str
    done: tuple[Done, ...] = ()
    pay: tuple[tuple[str, str], ...] = ()
    tests: tuple[Tested, ...] = ()


def own_work(store: Store, clock: Clock, who: Present, waiting: int) -> OwnWork:
    """Look up what a worker may know of their own work; about so many tasks wait."""
    now = clock()
    with store.read() as tx:
        account, force = serving.account(tx, who.account_id), current_policy(tx)
        if account is None or force is None:
            return OwnWork(ROUGHLY[0][1])
        done: dict[tuple[int, str], int] = {}
        for row in serving.done(tx, account.id, now // DAY * DAY - (DAYS - 1) * DAY):
            key = row.day, _kind(force, row.field_id)
            done[key] = done.get(key, 0) + row.tasks
        return OwnWork(
            waiting=next((words for top, words in ROUGHLY if waiting < top), MANY),
            done=tuple(
                Done(_moment(day * DAY).date(), kind, count)
                for (day, kind), count in done.items()
            ),
            pay=tuple(
                (amount_of(row.earned, row.currency), amount_of(row.paid, row.currency))
                for row in serving.pay(tx, account.id)
            ),
            tests=tuple(_tests(tx, force, account.id)),
        )


@dataclass(frozen=True)
class WorkSummary:
    """What a worker is told beside a task.

    Attributes
    ----------
    today : int
        Tasks answered since midnight UTC.
    pay : str
        What this one earns by itself; empty for nothing.
    seconds : float or None
        What the worker mostly takes for one; None before there are enough.
    """

    today: int
    pay: str = ""
    seconds: float | None = None


ENOUGH: Final = 3
"""Tasks after which a worker's time for one is told."""


def pace(store: Store, clock: Clock, who: Present, task_id: int) -> WorkSummary:
    """Look up what a worker is told beside a task, made up or not."""
    with store.read() as tx:
        done = serving.done(tx, who.account_id, clock() // DAY * DAY)
        reward = serving.reward(tx, task_id)
        times = serving.answering_times(tx, who.account_id)
    return WorkSummary(
        today=sum(row.tasks for row in done),
        pay="" if reward is None else amount_of(reward.amount, reward.currency),
        seconds=median(times) / SECOND if len(times) >= ENOUGH else None,
    )


def leave(store: Store, clock: Clock, who: Present) -> bool:
    """End a worker's account for good, by their own wish; only an operator reopens it.

    What is in hand goes back, and every link ends. What was seen stays in the ledger.

    Returns
    -------
    bool
        False: the worker was out already.
    """
    now = clock()
    with store.write() as tx:
        lock_adversaries(tx, [who.account_id])
        account = serving.account(tx, who.account_id)
        if account is None or out(account, who.number):
            return False
        accounts.set_state(tx, account.id, account.state, "left")
        accounts.raise_invite(tx, account.id)
        arrivals.end_sessions_of(tx, [account.id])
        withdrawn = accounts.end_work(tx, [account.id], now, in_hand=True)
        actor, detail = f"account:{account.id}", withdrawn._asdict()
        events.add_event(tx, now, actor, "account.left", detail)
    return True


def _tests(tx: Tx, force: ActivePolicy, account_id: int) -> list[Tested]:
    found = []
    for row in serving.tests(tx, account_id):
        field = force.fields.get(row.field_id)
        if field is None:
            continue  # of an earlier policy
        again = None
        if row.state == "failed" and row.attempt < gold_questions.ATTEMPTS:
            again = _moment((row.ended_at or 0) + DAY)
        found.append(Tested(force.policy.entity.fields[field.name], row.state, again))
    return found


def _kind(force: ActivePolicy, field_id: int) -> str:
    field = force.fields.get(field_id)
    if field is None:
        return OTHER
    return KINDS.get(force.policy.entity.fields[field.name].ask or "", OTHER)


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / SECOND, UTC)


def amount_of(parts: int, currency: str) -> str:
    """Write an amount, in millionths, with its currency."""
    return f"{currency} {money.money_of(parts, currency).amount}"
