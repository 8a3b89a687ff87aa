"""How good workers are, by made-up questions and by agreement, and how tests went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Row, bindparam, cast, func
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    FieldName,
    FieldTest,
    GoldQuestion,
    GoldTask,
    Qualification,
    Task,
)
from dispatcher.store.events import details
from dispatcher.store.statements import in_list, select_columns, sum_where
from dispatcher.store.transaction import Tx

_JUDGED_FROM: Final = func.coalesce(Account.judged_from, 0)


def _total(column: Any) -> Any:  # noqa: ANN401
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


_GOLD: Final = (
    select_columns(func.count().label("asked"), _total(GoldTask.correct).label("right"))
    .select_from(GoldTask)
    .join(GoldQuestion, col(GoldQuestion.id) == GoldTask.gold_question_id)
    .join(Account, col(Account.id) == GoldTask.account_id)
    .where(
        GoldTask.account_id == bindparam("account"),
        GoldQuestion.purpose == "gold",
        GoldTask.state == "answered",
        col(GoldTask.ended_at) > _JUDGED_FROM,
    )
)
_GOLD_BY_FIELD: Final = (
    select_columns(
        GoldTask.account_id,
        GoldQuestion.field_id,
        func.count(),
        _total(GoldTask.correct),
    )
    .select_from(GoldTask)
    .join(GoldQuestion, col(GoldQuestion.id) == GoldTask.gold_question_id)
    .join(Account, col(Account.id) == GoldTask.account_id)
    .where(
        GoldQuestion.purpose == "gold",
        GoldTask.state == "answered",
        col(GoldTask.ended_at) > _JUDGED_FROM,
    )
    .group_by(col(GoldTask.account_id), col(GoldQuestion.field_id))
)
_DOUBTED: Final = (
    select(Account.id, Account.quality)
    .where(
        Account.state == "active",
        Account.quality < bindparam("floor"),
        select(func.count())
        .select_from(Task)
        .where(
            col(Task.account_id) == Account.id,
            Task.state == "answered",
            col(Task.created_at) > _JUDGED_FROM,
        )
        .correlate(Account)
        .scalar_subquery()
        >= bindparam("answers"),
    )
    .order_by(col(Account.id))
)
_STOCK: Final = (
    select_columns(
        col(FieldName.name).label("field"),
        func.count(col(GoldQuestion.id).distinct()).label("questions"),
        sum_where(col(GoldTask.state) == "answered").label("answered"),
        _total(GoldTask.correct).label("right"),
    )
    .select_from(GoldQuestion)
    .join(FieldName, col(FieldName.id) == GoldQuestion.field_id)
    .outerjoin(GoldTask, col(GoldTask.gold_question_id) == GoldQuestion.id)
    .where(
        col(GoldQuestion.retired_at).is_(None),
        GoldQuestion.purpose == bindparam("of_purpose"),
    )
    .group_by(col(FieldName.name))
    .order_by(col(FieldName.name))
)
_GOLD_LEFT: Final = (
    select_columns(
        FieldName.name, FieldName.id, func.count(col(Account.adversary_id).distinct())
    )
    .select_from(GoldQuestion)
    .join(FieldName, col(FieldName.id) == GoldQuestion.field_id)
    .outerjoin(GoldTask, col(GoldTask.gold_question_id) == GoldQuestion.id)
    .outerjoin(Account, col(Account.id) == GoldTask.account_id)
    .where(col(GoldQuestion.retired_at).is_(None), GoldQuestion.purpose == "gold")
    .group_by(col(FieldName.name), col(FieldName.id), col(GoldQuestion.id))
)
_STANDINGS: Final = (
    select_columns(
        col(FieldName.name).label("field"),
        FieldTest.pass_share,
        *(
            sum_where(col(Qualification.state) == word).label(word)
            for word in ("passed", "failed", "open")
        ),
    )
    .select_from(FieldTest)
    .join(FieldName, col(FieldName.id) == FieldTest.field_id)
    .outerjoin(Qualification, col(Qualification.field_id) == FieldTest.field_id)
    .group_by(col(FieldName.name), col(FieldTest.pass_share))
    .order_by(col(FieldName.name))
)
_TRIED: Final = (
    select_columns(
        col(FieldName.name).label("field"),
        Qualification.state,
        Qualification.attempt,
        Qualification.asked,
        Qualification.correct,
        Qualification.ended_at,
    )
    .join(FieldName, col(FieldName.id) == Qualification.field_id)
    .where(in_list(Qualification.account_id, "accounts"))
    .order_by(col(FieldName.name))
)


GoldRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""Gold that an account answered since it is judged: asked, and how much of it right."""


def gold(tx: Tx, account_id: int) -> GoldRow:
    """How an account answered gold."""
    return tx.execute(_GOLD, {"account": account_id}).one()


def gold_by_field(tx: Tx) -> list[tuple[int, int, int, int]]:
    """Gold answered since accounts are judged: (account, field, asked, right)."""
    return [(row[0], row[1], row[2], row[3]) for row in tx.execute(_GOLD_BY_FIELD)]


def doubted(tx: Tx, floor: float, answers: int) -> list[tuple[int, float]]:
    """Active accounts whose agreement is below a floor, after so many answers.

    Returns
    -------
    list of (int, float)
        Account, and its estimated accuracy.
    """
    asked = {"floor": floor, "answers": answers}
    return [(number, quality) for number, quality in tx.execute(_DOUBTED, asked)]


@dataclass(frozen=True, slots=True)
class StopRow:
    """Why an account was stopped: by which measure, and how good it was, in percent."""

    at: int
    by: str
    percent: int


def stopped(tx: Tx, account_id: int) -> StopRow | None:
    """Why an account was stopped last."""
    for at, detail in details(tx, "account.stopped", newest_first=True):
        if detail["account"] == account_id:
            return StopRow(at, detail["by"], detail["percent"])
    return None


# -- for operators -----------------------------------------------------------------


StockRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A field's questions of one purpose: field, questions, how often answered, and right."""


def stock(tx: Tx, purpose: str) -> Sequence[StockRow]:
    """Questions of one purpose that are asked, by field."""
    return tx.execute(_STOCK, {"of_purpose": purpose}).all()


def gold_left(tx: Tx, showings: Mapping[int, int]) -> dict[str, int]:
    """Gold that somebody may still be asked, by field.

    Parameters
    ----------
    tx : Tx
    showings : Mapping of int to int
        By number of the field: how many adversaries a question is asked of, at most.
    """
    left: dict[str, int] = {}
    for name, field_id, asked in tx.execute(_GOLD_LEFT):
        left[name] = left.get(name, 0) + (asked < showings.get(field_id, 0))
    return left


StandRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A field's test: field, pass_share, and accounts that passed it, failed it, have it
open."""


def standings(tx: Tx) -> Sequence[StandRow]:
    """All fields that ask for a test."""
    return tx.execute(_STANDINGS).all()


TriedRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""How far one account is with a test: field, state, attempt, asked, correct, ended_at."""


def tried(tx: Tx, account_ids: Iterable[int]) -> Sequence[TriedRow]:
    """How accounts stand with the tests that they began."""
    return tx.execute(_TRIED, {"accounts": sorted(account_ids)}).all()
