"""What one worker may know of their own work: counts by day and kind, pay, tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    Row,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    union_all,
)
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Assignment,
    Budget,
    Entry,
    GoldQuestion,
    GoldTask,
    Payment,
    Plan,
    Qualification,
    Task,
)
from dispatcher.store import gold_questions, tasks
from dispatcher.store.statements import in_words, select_columns
from dispatcher.store.transaction import Tx

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
    select_columns(_TODAY, _GIVEN.c.field, func.count())
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
        func.sum(case((_IS_EARNED, col(Payment.amount)), else_=0)),
        func.sum(case((col(Payment.state) == "paid", col(Payment.amount)), else_=0)),
    )
    .select_from(Payment)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .outerjoin(Task, and_(_IS_FIELD, col(Task.id) == Payment.about))
    .outerjoin(GoldTask, and_(_IS_FIELD, col(GoldTask.id) == Payment.about))
    .where(Payment.account_id == bindparam("account"))
    .group_by(col(Budget.currency))
    .order_by(col(Budget.currency))
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
_WORKS_THERE: Final = (
    col(Account.connector) == bindparam("connector"),
    col(Account.state) == "active",
)
_PLANNED: Final = (
    select_columns(func.sum(func.length(Assignment.entries)), func.min(Plan.applied_at))
    .select_from(Assignment)
    .join(Plan, col(Plan.id) == Assignment.plan_id)
    .join(Account, col(Account.id) == Assignment.account_id)
    .where(
        Plan.state == "applied",
        Plan.policy_version == bindparam("version"),
        *_WORKS_THERE,
    )
)
_HANDED: Final = (
    select(func.count())
    .select_from(Account)
    .join(Task, col(Task.account_id) == Account.id)
    .where(*_WORKS_THERE, Task.created_at >= bindparam("since"))
)


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


TestRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""How a test went: field_id, state, attempt, ended_at."""


def done(tx: Tx, account_id: int, since: int) -> list[DoneRow]:
    """Answered tasks by the day that they were given, the newest first.

    Made-up questions count: a list that left them out would tell which they were.
    """
    asked = {"account": account_id, "since": since}
    return [DoneRow(*map(int, row)) for row in tx.execute(_DONE, asked)]


def pay(tx: Tx, account_id: int) -> list[PayRow]:
    """What an account has earned and was paid, by currency."""
    rows = tx.execute(_PAY, {"account": account_id})
    return [PayRow(row[0], int(row[1]), int(row[2])) for row in rows]


def tests(tx: Tx, account_id: int) -> Sequence[TestRow]:
    """How the tests that an account began went."""
    return tx.execute(_TESTS, {"account": account_id}).all()


def planned(tx: Tx, connector: str, version: int) -> int:
    """Tasks that wait for the workers of a connector, all together, about.

    Serving leaves the pairs that it booked in the plan: what was handed out since the
    plan was applied is taken off.
    """
    asked = {"connector": connector, "version": version}
    length, applied = tx.execute(_PLANNED, asked).one()
    if length is None:
        return 0
    handed = tx.scalar(_HANDED, {"connector": connector, "since": applied}) or 0
    return max(0, int(length) // 8 - handed)


def end_tasks(tx: Tx, account_id: int, now: int) -> None:
    """Take all that an account has in hand out of its hands; the drafts go."""
    tasks.end_in_hand(tx, account_id)
    gold_questions.end_all(tx, account_id, now)
