"""What the serving stage reads and writes: accounts at the page, their tasks, answers.

Selection must stay cheap with millions of entries: every query here is bounded by one
account, one plan row, or a list of candidates that the caller keeps short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    Row,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    union_all,
)
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Assignment,
    Budget,
    Entry,
    GoldQuestion,
    GoldTask,
    Pause,
    Payment,
    Plan,
    Qualification,
    Record,
    Result,
    Run,
    Task,
    TaskAnswer,
)
from dispatcher.store.column_blocks import Ints
from dispatcher.store.ledger import parts
from dispatcher.store.statements import (
    DriverStatement,
    in_list,
    in_words,
    select_columns,
    sum_where,
)
from dispatcher.store.transaction import Tx


class ServedAccount(NamedTuple):
    """One account; ``invite`` is the number of the invite that is valid now."""

    id: int
    adversary_id: int
    connector: str
    name: str
    state: str
    invite: int


class ShownRow(NamedTuple):
    """What may be shown of an entry, and where it belongs."""

    record_id: int
    subject_id: int | None
    field_id: int
    shown: bytes
    media: str


class CandidateEntry(NamedTuple):
    """Where a candidate belongs."""

    id: int
    record_id: int
    field_id: int
    run_id: int
    waiting: bool


class Standing(NamedTuple):
    """What became of one candidate so far.

    ``live`` counts tasks that may still bring an answer, ``valid`` the answers that
    count; ``accounts`` and ``adversaries`` are all that ever had a task on it;
    ``wanted`` is what consensus asks for by now (0: as the policy says); ``settled``
    when nothing more is wanted.
    """

    live: int
    valid: int
    wanted: int
    settled: bool
    accounts: frozenset[int]
    adversaries: frozenset[int]


NOTHING_YET: Final = Standing(0, 0, 0, False, frozenset(), frozenset())


class PlanRow(NamedTuple):
    """The plan in force."""

    id: int
    applied_at: int


_ACCOUNT: Final = select_columns(
    Account.id,
    Account.adversary_id,
    Account.connector,
    Account.name,
    Account.state,
    Account.invite,
)
_ACCOUNT_NAMED: Final = DriverStatement(
    _ACCOUNT.where(
        Account.connector == bindparam("connector"), Account.name == bindparam("name")
    )
)
_ACCOUNT_OF: Final = DriverStatement(_ACCOUNT.where(Account.id == bindparam("account")))
_SHOWN: Final = DriverStatement(
    select_columns(
        Entry.record_id,
        Entry.subject_id,
        Entry.field_id,
        Entry.shown,
        Entry.media,
        Entry.key_id,
    )
    .join(Record, col(Record.id) == Entry.record_id)
    .where(Entry.id == bindparam("entry"), col(Record.erased_at).is_(None))
)
_PAUSED: Final = DriverStatement(select(Pause.scope))
_RUNS: Final = DriverStatement(select(Run.id, Run.name, Run.state))


def account_named(tx: Tx, connector: str, name: str) -> ServedAccount | None:
    """Account of a connector by its name there."""
    row = tx.driver_one(_ACCOUNT_NAMED, {"connector": connector, "name": name})
    return None if row is None else ServedAccount(*row)


def account(tx: Tx, account_id: int) -> ServedAccount | None:
    """Account by id."""
    row = tx.driver_one(_ACCOUNT_OF, {"account": account_id})
    return None if row is None else ServedAccount(*row)


def shown_entry(tx: Tx, entry_id: int) -> ShownRow | None:
    """What may be shown of an entry; None where its values were erased."""
    row = tx.driver_one(_SHOWN, {"entry": entry_id})
    if row is None:
        return None
    shown = tx.vault.open(tx, "entry.shown", entry_id, row[5], row[3])
    return ShownRow(row[0], row[1], row[2], shown, row[4])


def paused(tx: Tx) -> frozenset[str]:
    """Scopes that are paused: ``all``, ``connector:NAME``, ``run:NAME``."""
    return frozenset(row[0] for row in tx.driver_rows(_PAUSED))


def idle_runs(tx: Tx, scopes: frozenset[str]) -> frozenset[int]:
    """Runs from which nothing is shown now."""
    return frozenset(
        run_id
        for run_id, name, state in tx.driver_rows(_RUNS)
        if state != "active" or f"run:{name}" in scopes
    )


# -- the plan and other places to look for work ------------------------------------

_IN_FORCE: Final = DriverStatement(
    select(Plan.id, Plan.applied_at)
    .where(Plan.state == "applied", Plan.policy_version == bindparam("version"))
    .order_by(col(Plan.id).desc())
    .limit(1)
)
_of_plan = Assignment.plan_id == bindparam("plan")
_PLANNED: Final = select(Assignment.account_id, Assignment.entries).where(_of_plan)
_PLANNED_FOR: Final = DriverStatement(
    select(Assignment.entries).where(
        _of_plan, Assignment.account_id == bindparam("account")
    )
)
_IDLE: Final = select(Account.id).where(Account.state != "active")


def plan_in_force(tx: Tx, version: int) -> PlanRow | None:
    """Return the plan that is applied, if it was made for this version of the policy."""
    row = tx.driver_one(_IN_FORCE, {"version": version})
    return None if row is None else PlanRow(row[0], row[1] or 0)


def planned_rows(tx: Tx, plan_id: int) -> list[tuple[int, bytes]]:
    """All rows of a plan: account and its packed entries."""
    found = tx.execute(_PLANNED, {"plan": plan_id})
    return [(account_id, packed) for account_id, packed in found]


def planned_entries(tx: Tx, plan_id: int, account_id: int) -> bytes:
    """Packed entries that a plan still means for an account, as they are now."""
    found = tx.driver_value(_PLANNED_FOR, {"plan": plan_id, "account": account_id})
    return bytes(found or b"")


def idle_accounts(tx: Tx) -> frozenset[int]:
    """Accounts that get nothing any more: what was planned for them is free."""
    return frozenset(tx.scalars(_IDLE))


# -- what is known of a few candidates ---------------------------------------------

_ENTRY_ROWS: Final = DriverStatement(
    select_columns(
        Entry.id,
        Entry.record_id,
        Entry.field_id,
        Record.run_id,
        col(Record.waits_since).is_not(None),
    )
    .join(Record, col(Record.id) == Entry.record_id)
    .where(in_list(Entry.id, "entries"))
)
_FIELDS_OF: Final = DriverStatement(
    select_columns(Entry.id, Entry.field_id).where(in_list(Entry.id, "entries"))
)
_TASKS_OF: Final = DriverStatement(
    select(Task.entry_id, Task.account_id, Task.adversary_id, Task.state).where(
        in_list(Task.entry_id, "entries")
    )
)
_VALID: Final = DriverStatement(
    select(TaskAnswer.entry_id, func.count())
    .where(in_list(TaskAnswer.entry_id, "entries"), TaskAnswer.valid == 1)
    .group_by(col(TaskAnswer.entry_id))
)
_RESULTS_OF: Final = DriverStatement(
    select(Result.entry_id, Result.wanted, Result.state).where(
        in_list(Result.entry_id, "entries")
    )
)


def entry_rows(tx: Tx, entry_ids: Sequence[int]) -> list[CandidateEntry]:
    """Where each of the entries belongs."""
    found = tx.driver_rows(_ENTRY_ROWS, {"entries": entry_ids})
    return [CandidateEntry(*row) for row in found]


def fields_of(tx: Tx, entry_ids: Sequence[int]) -> Ints:
    """Field of each of many entries: (entry, field)."""
    asked = [(_FIELDS_OF, {"entries": part}) for part in parts(entry_ids)]
    return tx.driver_numbers(2, asked)


def standings(
    tx: Tx, entry_ids: Sequence[int], live_states: Sequence[str]
) -> dict[int, Standing]:
    """What became so far of each of the entries."""
    asked = {"entries": entry_ids}
    tasks, answers, found = tx.driver_answers(
        [(_TASKS_OF, asked), (_VALID, asked), (_RESULTS_OF, asked)]
    )
    live: dict[int, int] = {}
    accounts: dict[int, set[int]] = {}
    adversaries: dict[int, set[int]] = {}
    for entry_id, account_id, adversary_id, state in tasks:
        accounts.setdefault(entry_id, set()).add(account_id)
        adversaries.setdefault(entry_id, set()).add(adversary_id)
        if state in live_states:
            live[entry_id] = live.get(entry_id, 0) + 1
    valid: dict[int, int] = dict(answers)
    results = {entry_id: (wanted, state != "open") for entry_id, wanted, state in found}
    return {
        entry_id: Standing(
            live.get(entry_id, 0),
            valid.get(entry_id, 0),
            *results.get(entry_id, (0, False)),
            frozenset(accounts.get(entry_id, ())),
            frozenset(adversaries.get(entry_id, ())),
        )
        for entry_id in {*accounts, *valid, *results}
    }


# -- what one worker may know of their own work: counts by day and kind, pay, tests ----

_DAY: Final = literal_column("86400000000", BigInteger())
"""Microseconds of a day; in the text, or PostgreSQL would not know the group again."""

_GIVEN: Final = union_all(
    select_columns(col(Task.created_at).label("at"), col(Entry.field_id).label("field"))
    .select_from(Task)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .where(
        Task.account_id == bindparam("account"),
        Task.state == "answered",
        Task.created_at >= bindparam("since"),
    ),
    select_columns(GoldTask.created_at, GoldQuestion.field_id)
    .join(GoldQuestion, col(GoldQuestion.id) == GoldTask.gold_question_id)
    .where(
        GoldTask.account_id == bindparam("account"),
        GoldTask.state == "answered",
        GoldTask.created_at >= bindparam("since"),
    ),
).subquery()
_TODAY: Final = (_GIVEN.c.at // _DAY).label("day")
_DONE: Final = (
    select_columns(
        _TODAY, _GIVEN.c.field.label("field_id"), func.count().label("tasks")
    )
    .group_by(_TODAY, _GIVEN.c.field)
    .order_by(_TODAY.desc(), _GIVEN.c.field)
)
_IS_EARNED: Final = or_(
    in_words(Payment.state, "due", "held", "unknown", "paid"),
    and_(
        col(Payment.state) == "reserved",
        or_(col(Task.state) == "answered", col(GoldTask.state) == "answered"),
    ),
)
_IS_FIELD: Final = col(Payment.kind) == "field"
_PAY: Final = (
    select_columns(
        Budget.currency,
        sum_where(_IS_EARNED, col(Payment.amount)).label("earned"),
        sum_where(col(Payment.state) == "paid", col(Payment.amount)).label("paid"),
    )
    .select_from(Payment)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .outerjoin(Task, and_(_IS_FIELD, col(Task.id) == Payment.about))
    .outerjoin(GoldTask, and_(_IS_FIELD, col(GoldTask.id) == Payment.about))
    .where(Payment.account_id == bindparam("account"))
    .group_by(col(Budget.currency))
    .order_by(col(Budget.currency))
)
_REWARD: Final = (
    select_columns(Payment.amount, Budget.currency)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .where(_IS_FIELD, Payment.about == bindparam("task"))
)
_LATEST: Final = 20
_TIMES: Final = (
    select_columns(Task.created_at, TaskAnswer.at)
    .join(TaskAnswer, col(TaskAnswer.task_id) == Task.id)
    .where(Task.account_id == bindparam("account"))
    .order_by(col(Task.created_at).desc())
    .limit(_LATEST)
)
_GOLD_TIMES: Final = (
    select_columns(GoldTask.created_at, GoldTask.ended_at)
    .where(GoldTask.account_id == bindparam("account"), GoldTask.state == "answered")
    .order_by(col(GoldTask.created_at).desc())
    .limit(_LATEST)
)
_TESTS: Final = (
    select_columns(
        Qualification.field_id,
        Qualification.state,
        Qualification.attempt,
        Qualification.ended_at,
    )
    .where(Qualification.account_id == bindparam("account"))
    .order_by(col(Qualification.field_id))
)
_ANY_LATEST: Final = 2048
_last = aliased(Task)
_TIMES_BY_FIELD: Final = (
    select_columns(Entry.field_id, Task.created_at, TaskAnswer.at)
    .select_from(Task)
    .join(TaskAnswer, col(TaskAnswer.task_id) == Task.id)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .where(Task.id > select(func.max(_last.id)).scalar_subquery() - _ANY_LATEST)
)
DoneRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""Tasks that were answered: day (days since 1970 UTC), field_id, tasks."""


PayRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""Pay in one currency, in its millionths: currency, earned (by all that was answered),
paid."""


TestRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""How a test went: field_id, state, attempt, ended_at."""


def done(tx: Tx, account_id: int, since: int) -> Sequence[DoneRow]:
    """Answered tasks by the day that they were given, the newest first.

    Made-up questions count: a list without them would reveal which they were.
    """
    asked = {"account": account_id, "since": since}
    return tx.execute(_DONE, asked).all()


def pay(tx: Tx, account_id: int) -> Sequence[PayRow]:
    """What an account has earned and was paid, by currency."""
    return tx.execute(_PAY, {"account": account_id}).all()


def reward(tx: Tx, task_id: int) -> PayRow | None:
    """What a task earns by itself: amount in millionths, currency; None for nothing."""
    return tx.execute(_REWARD, {"task": task_id}).first()


def answering_times(tx: Tx, account_id: int) -> list[int]:
    """Microseconds that an account took for each of its latest tasks, gold among them."""
    asked = {"account": account_id}
    rows = [*tx.execute(_TIMES, asked), *tx.execute(_GOLD_TIMES, asked)]
    latest = sorted(((began, ended) for began, ended in rows), reverse=True)[:_LATEST]
    return [ended - began for began, ended in latest]


def times_by_field(tx: Tx) -> dict[int, list[int]]:
    """Microseconds that the latest answers of anybody took, by field."""
    found: dict[int, list[int]] = {}
    for field_id, began, ended in tx.execute(_TIMES_BY_FIELD):
        found.setdefault(field_id, []).append(ended - began)
    return found


def tests(tx: Tx, account_id: int) -> Sequence[TestRow]:
    """How the tests that an account began went."""
    return tx.execute(_TESTS, {"account": account_id}).all()
