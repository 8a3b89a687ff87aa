"""What the paying stage looks for: payments that have to move, and what is to be paid.

Every look is bounded by its limit, and by the payments that are under way; one that was
looked at and has to wait is looked at again later (``due``), so that none holds up
another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    BigInteger,
    Integer,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    not_,
    or_,
)
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    DAY,
    Account,
    Budget,
    GoldTask,
    Outbox,
    Payment,
    Result,
    Task,
    TaskAnswer,
)
from dispatcher.store import money
from dispatcher.store.money import COLUMNS, PaymentRow
from dispatcher.store.statements import (
    Columns,
    Parameters,
    in_list,
    in_words,
    select_columns,
    sum_where,
)
from dispatcher.store.transaction import Tx

PAGE: Final = 2000
ENDED: Final = "ended"
"""Cause of what is held: work that ended at its market, begun and not handed in."""

GIVEN_UP: Final = "given-up"
"""Cause of what is held: its offer was given up, and may be at the market."""

_LAST: Final = 2**63 - 1

_MOST: Final = bindparam("most", type_=Integer())


def _first(statement: Columns, *, order: bool = True) -> Columns:
    """Return the first so many payments, locked."""
    if order:
        statement = statement.order_by(col(Payment.about))
    return statement.limit(_MOST).with_for_update(of=Payment)


_PAYMENTS: Final = select_columns(*COLUMNS)
_FIELDS: Final = (
    _PAYMENTS.join(Task, col(Task.id) == Payment.about)
    .outerjoin(TaskAnswer, col(TaskAnswer.task_id) == Task.id)
    .where(Payment.kind == "field")
)
_LOST: Final = _first(
    _FIELDS.where(
        Payment.state == "reserved",
        or_(
            in_words(Task.state, "returned", "expired", "dead"),
            and_(col(Task.state) == "answered", col(TaskAnswer.valid) == 0),
        ),
    )
)
_PAGE_END: Final = (
    select(Payment.about)
    .where(
        Payment.state == "released",
        Payment.kind == "field",
        Payment.about > bindparam("after"),
    )
    .order_by(col(Payment.about))
    .limit(1)
    .offset(bindparam("page", type_=Integer()))
)
_LATE: Final = _first(
    _FIELDS.where(
        Payment.state == "released",
        Payment.about > bindparam("after"),
        Payment.about <= bindparam("end"),
        Payment.due <= bindparam("now"),
        Task.state == "answered",
        TaskAnswer.valid == 1,
    )
)
_EARNED: Final = _first(
    _FIELDS.outerjoin(Result, col(Result.entry_id) == Task.entry_id).where(
        Payment.state == "reserved",
        col(Payment.piece).is_(None),
        Payment.due <= bindparam("now"),
        Task.state == "answered",
        or_(
            col(TaskAnswer.valid).is_(None),
            and_(
                col(TaskAnswer.valid) == 1,
                or_(
                    col(Result.state) != "open",
                    col(TaskAnswer.at) <= bindparam("before"),
                ),
            ),
        ),
    )
)
_REWARD: Final = aliased(Payment)
_STRANDED: Final = _first(
    _PAYMENTS.join(Task, col(Task.id) == Payment.about)
    .join(
        _REWARD,
        and_(col(_REWARD.kind) == "reward", col(_REWARD.about) == Payment.piece),
    )
    .where(
        Payment.kind == "field",
        Payment.state == "reserved",
        Task.state == "answered",
        not_(in_words(_REWARD.state, "reserved", "held")),
    )
)
_BEGUN: Final = and_(
    col(Payment.state) == "held", func.coalesce(Payment.cause, "") == ENDED
)
_OPEN: Final = in_words(Payment.state, "reserved", "held", "unknown")
_ENDED: Final = (
    _PAYMENTS.where(
        Payment.kind == "reward",
        Payment.due <= bindparam("now"),
        # by the index
        in_words(Payment.state, "reserved", "released", "held", "unknown"),
        or_(
            and_(_OPEN, in_words(Payment.progress, "approved", "rejected")),
            and_(_OPEN, col(Payment.progress) == "gone", not_(_BEGUN)),
            and_(
                or_(col(Payment.state) == "reserved", _BEGUN),
                col(Payment.progress) == "submitted",
            ),
            and_(
                col(Payment.state) == "released",
                in_words(Payment.progress, "submitted", "approved"),
            ),
        ),
    )
    .order_by(col(Payment.due), col(Payment.about))
    .limit(_MOST)
    .with_for_update()
)
_UNSENT: Final = _first(
    select_columns(*COLUMNS, Outbox.attempts)
    .join(Outbox, col(Outbox.id) == Payment.about)
    .where(
        Payment.kind == "reward",
        Payment.state == "reserved",
        col(Payment.progress).is_(None),
        in_words(Outbox.state, "dead", "cancelled"),
    )
)
_IS_FOUND: Final = and_(
    col(Payment.kind) == "reward",
    col(Payment.state) == "held",
    col(Payment.cause) == GIVEN_UP,
    or_(col(Outbox.state) == "sent", col(Payment.progress).is_not(None)),
)
_OTHER: Final = aliased(Payment)
_FREE_TO_RETURN: Final = (
    select(Payment.account_id)
    .distinct()
    .join(Outbox, col(Outbox.id) == Payment.about)
    .where(
        _IS_FOUND,
        ~exists().where(
            col(_OTHER.account_id) == Payment.account_id,
            col(_OTHER.kind) == "reward",
            col(_OTHER.state) == "reserved",
        ),
    )
    .order_by(col(Payment.account_id))
    .limit(_MOST)
)
_CAME_LATE: Final = (
    select(Payment.account_id)
    .where(
        Payment.kind == "reward",
        Payment.state == "released",
        Payment.progress == "submitted",
        Payment.due <= bindparam("now"),
    )
    .order_by(col(Payment.due), col(Payment.about))
    .limit(_MOST)
)
_FOUND: Final = _first(
    _PAYMENTS.join(Outbox, col(Outbox.id) == Payment.about).where(
        _IS_FOUND, in_list(Payment.account_id, "accounts")
    )
)
_WORK_SINCE: Final = (
    select(Payment.about)
    .where(
        Payment.account_id == bindparam("account"),
        Payment.kind == "reward",
        Payment.about != bindparam("message"),
        Payment.created_at >= bindparam("since"),
    )
    .limit(1)
)


def _count(*conditions: object) -> object:
    """Count the rows of a group that meet a condition."""
    return func.coalesce(sum_where(and_(*conditions)), 0)  # type: ignore[arg-type]


_SINCE: Final = bindparam("since", type_=BigInteger())
_WELL_ANSWERED: Final = and_(
    col(Task.state) == "answered", func.coalesce(TaskAnswer.valid, 1) == 1
)
_WORK: Final = (
    select_columns(
        _count(col(Task.state) == "shown"),
        _count(_WELL_ANSWERED),
        select(func.count())
        .select_from(GoldTask)
        .where(
            GoldTask.account_id == bindparam("account"),
            GoldTask.state == "answered",
            GoldTask.created_at >= _SINCE,
        )
        .scalar_subquery(),
        _count(
            col(TaskAnswer.valid) == 1, func.coalesce(Result.state, "open") == "open"
        ),
    )
    .select_from(Task)
    .outerjoin(TaskAnswer, col(TaskAnswer.task_id) == Task.id)
    .outerjoin(Result, col(Result.entry_id) == Task.entry_id)
    .where(
        Task.account_id == bindparam("account"),
        Task.created_at >= bindparam("day_before"),
        or_(
            col(Task.created_at) >= _SINCE,
            col(Task.state) == "shown",
            col(TaskAnswer.at) >= _SINCE,
        ),
    )
)
_FIELDS_OF: Final = (
    select_columns(*COLUMNS, cast(case((_WELL_ANSWERED, 1), else_=0), Integer()))
    .join(Task, col(Task.id) == Payment.about)
    .outerjoin(TaskAnswer, col(TaskAnswer.task_id) == Task.id)
    .where(
        Payment.kind == "field",
        Payment.piece == bindparam("message"),
        in_words(Payment.state, "reserved", "due"),
        Task.state != "shown",
    )
    .order_by(col(Payment.about))
    .with_for_update(of=Payment)
)
_TO_MARKET: Final = (
    select_columns(
        Payment.about,
        Payment.run_id,
        Account.name,
        Payment.reference,
        Payment.submission,
        Budget.currency,
        Payment.amount,
        Payment.attempts,
    )
    .join(Account, col(Account.id) == Payment.account_id)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .where(
        Payment.kind == "reward",
        Payment.connector == bindparam("connector"),
        col(Payment.reference).is_not(None),
        col(Payment.submission).is_not(None),
    )
)
_DUE_REWARDS: Final = _first(
    _TO_MARKET.where(Payment.state == "due", Payment.due <= bindparam("now")).order_by(
        col(Payment.due), col(Payment.about)
    ),
    order=False,
)
_DUE_BONUSES: Final = _first(
    _TO_MARKET.where(
        Payment.state == "paid",
        col(Payment.about).in_(
            select(_OTHER.piece).where(
                _OTHER.state == "due",
                _OTHER.kind == "field",
                _OTHER.connector == bindparam("connector"),
                col(_OTHER.piece).is_not(None),
                _OTHER.due <= bindparam("now"),
            )
        ),
    )
)
_IN_STATE: Final = (
    _PAYMENTS.where(
        Payment.kind == "field",
        in_list(Payment.piece, "messages"),
        Payment.state == bindparam("wanted"),
    )
    .order_by(col(Payment.about))
    .with_for_update()
)
_OF_PIECE: Final = select(Payment.kind, Payment.about, Payment.state).where(
    Payment.piece == bindparam("message")
)


def _found(tx: Tx, statement: Columns, parameters: Parameters) -> list[PaymentRow]:
    return [PaymentRow(*row) for row in tx.execute(statement, parameters)]


def lost_fields(tx: Tx, limit: int) -> list[PaymentRow]:
    """Reserved for fields that came back unanswered, or with no valid answer."""
    return _found(tx, _LOST, {"most": limit})


def late_fields(
    tx: Tx, now: int, after: int, limit: int, *, page: int = PAGE
) -> tuple[list[PaymentRow], int]:
    """Released for fields that were answered after all, of the next page of them.

    What was released stays so for ever, mostly: all of it is looked at in turn.

    Parameters
    ----------
    tx : Tx
    now : int
    after : int
        Where the page before ended; 0 begins anew.
    limit : int
    page : int
        Released payments that are looked at.

    Returns
    -------
    list of PaymentRow
    int
        Where this page ends; 0 for the last.
    """
    last = tx.scalar(_PAGE_END, {"after": after, "page": page})
    end = _LAST if last is None else last
    found = _found(tx, _LATE, {"after": after, "end": end, "now": now, "most": limit})
    if len(found) == limit:
        end = found[-1].about
    return found, 0 if end == _LAST else end


def earned_fields(tx: Tx, now: int, before: int, limit: int) -> list[PaymentRow]:
    """Fields outside of pieces that are settled, or were answered before a moment.

    A field is settled when enough answers came, whether they agree or not. One whose
    person was erased has no answer any more: its work was done.
    """
    return _found(tx, _EARNED, {"now": now, "before": before, "most": limit})


def stranded_fields(tx: Tx, limit: int) -> list[PaymentRow]:
    """Answered fields of pieces of work that were settled without them."""
    return _found(tx, _STRANDED, {"most": limit})


def ended_pieces(tx: Tx, now: int, limit: int) -> list[PaymentRow]:
    """Rewards of pieces of work that have ended at the market and are not settled.

    One that is held because its work ended there waits for a person, or for the work to
    be handed in after all.
    """
    return _found(tx, _ENDED, {"now": now, "most": limit})


def unsent_pieces(tx: Tx, limit: int) -> list[tuple[PaymentRow, int]]:
    """Rewards whose offer will not leave any more, with how often it was tried."""
    rows = tx.execute(_UNSENT, {"most": limit})
    return [(PaymentRow(*row[:-1]), row[-1]) for row in rows]


def returning(tx: Tx, now: int, limit: int) -> list[int]:
    """Accounts of which a piece of work may be gone on with: found, or come in late."""
    return [
        *tx.scalars(_FREE_TO_RETURN, {"most": limit}),
        *tx.scalars(_CAME_LATE, {"now": now, "most": limit}),
    ]


def found_pieces(tx: Tx, free: Iterable[int], limit: int) -> list[PaymentRow]:
    """Held rewards of offers that were given up, and are at their market after all.

    The offer was found or sent since, or the market reports the state of its work. They
    are looked for of accounts that are locked and ``free`` of other work.
    """
    return _found(tx, _FOUND, {"accounts": sorted(free), "most": limit})


def begin_anew(tx: Tx, found: Iterable[PaymentRow], now: int) -> None:
    """Have pieces of work begin now: what was done before was not done in them."""
    money.set_column(tx, found, "created_at", now)


def had_work_since(tx: Tx, piece: PaymentRow) -> bool:
    """Whether an account began another piece of work after this one."""
    asked = {
        "account": piece.account_id,
        "message": piece.about,
        "since": piece.created_at,
    }
    return tx.scalar(_WORK_SINCE, asked) is not None


def look_later(tx: Tx, found: Iterable[PaymentRow], due: int) -> None:
    """Look at payments again at a moment."""
    money.set_column(tx, found, "due", due)


@dataclass(frozen=True, slots=True)
class Work:
    """What was done in a piece of work.

    ``live`` tasks are in the worker's hands, ``valid`` ones were answered well, and of
    those ``open`` ones still wait for others' answers.
    """

    live: int
    valid: int
    open: int


def work_in(tx: Tx, piece: PaymentRow) -> Work:
    """What an account did since a piece of work was offered to it.

    An account has one piece open at a time, so what it does then is done in it, also to
    a field that it was shown the day before. Made-up questions are work too: who was
    asked nothing else has done it.
    """
    since = piece.created_at
    asked = {"account": piece.account_id, "since": since, "day_before": since - DAY}
    live, answered, gold, open_ = map(int, tx.execute(_WORK, asked).one())
    return Work(live, answered + gold, open_)


def fields_of(tx: Tx, piece: int) -> list[tuple[PaymentRow, bool]]:
    """What is open of the fields of a piece of work; whether each was answered well."""
    rows = tx.execute(_FIELDS_OF, {"message": piece})
    return [(PaymentRow(*row[:-1]), bool(row[-1])) for row in rows]


# -- what is to be paid ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DuePayment:
    """One payment that a market is asked for: a reward, or the bonus of a piece.

    ``abouts`` are its payments: the message, or the tasks of all its fields.
    """

    kind: str
    piece: int
    run_id: int
    account: str
    reference: str
    submission: str
    currency: str
    amount: int
    attempts: int
    abouts: tuple[int, ...]


def due_rewards(tx: Tx, connector: str, now: int, limit: int) -> list[DuePayment]:
    """Rewards that a market is to pay now, locked."""
    given = {"connector": connector, "now": now, "most": limit}
    rows = tx.execute(_DUE_REWARDS, given)
    return [DuePayment(*("reward", *row, (row[0],))) for row in rows]


def due_bonuses(tx: Tx, connector: str, now: int, limit: int) -> list[DuePayment]:
    """Bonuses of pieces whose reward is paid, locked: what their fields earned."""
    found = []
    given = {"connector": connector, "now": now, "most": limit}
    for about, *rest, _, _ in tx.execute(_DUE_BONUSES, given).all():
        fields = fields_in_state(tx, [about], "due")
        total = sum(row.amount for row in fields)
        tries = max(row.attempts for row in fields)
        tasks = tuple(row.about for row in fields)
        found.append(DuePayment(*("field", about, *rest, total, tries, tasks)))
    return found


def put_off(
    tx: Tx, due: DuePayment, tries: int, until: int, why: str | None = None
) -> None:
    """Look at a payment again at a moment; say how often it was tried, and why not."""
    money.put_off(tx, due.kind, due.abouts, tries, until, why)


# -- what a person decides ---------------------------------------------------------------


def fields_in_state(tx: Tx, pieces: Sequence[int], state: str) -> list[PaymentRow]:
    """Fields of pieces of work that are in a state, locked."""
    return _found(tx, _IN_STATE, {"messages": pieces, "wanted": state})


def of_piece(tx: Tx, piece: int) -> list[tuple[str, int, str]]:
    """Return all payments of a piece of work: kind, number and state."""
    found = tx.execute(_OF_PIECE, {"message": piece})
    return [(kind, about, state) for kind, about, state in found]


def forget_tries(tx: Tx, found: Iterable[PaymentRow]) -> None:
    """Let payments be made as if they had never been tried: a person has looked."""
    money.set_column(tx, found, "attempts", 0)
