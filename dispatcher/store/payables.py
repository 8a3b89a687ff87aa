"""Payments as people look at them: what is open, what was done, what they owe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Row, Text, bindparam, cast, func, or_
from sqlmodel import col, select

from dispatcher.model import Account, Budget, Outbox, Payment, PaymentEvent, Run
from dispatcher.store.money import COLUMNS, PaymentRow
from dispatcher.store.statements import in_list, in_words, select_columns
from dispatcher.store.transaction import Tx

_ACCOUNT: Final = col(Payment.connector) + "/" + col(Account.name)
_RUN: Final = bindparam("run", type_=Text())
_CONNECTOR: Final = bindparam("connector", type_=Text())
_LISTED: Final = (
    select_columns(
        Payment.kind,
        Payment.about,
        col(Run.name).label("run"),
        _ACCOUNT.label("account"),
        Payment.state,
        Budget.currency,
        Payment.amount,
        Payment.fee,
        Payment.at,
        Payment.why,
    )
    .join(Run, col(Run.id) == Payment.run_id)
    .join(Account, col(Account.id) == Payment.account_id)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .where(
        in_list(Payment.state, "states"),
        or_(_RUN.is_(None), col(Run.name) == _RUN),
        or_(_CONNECTOR.is_(None), col(Payment.connector) == _CONNECTOR),
    )
    .order_by(col(Payment.at).desc(), col(Payment.kind), col(Payment.about))
    .limit(bindparam("most"))
)
_LISTED_OF: Final = _LISTED.where(Payment.account_id == bindparam("account"))
_OWED: Final = (
    select_columns(
        col(Run.name).label("run"),
        _ACCOUNT.label("account"),
        Budget.currency,
        cast(func.sum(Payment.amount), BigInteger).label("amount"),
        func.count().label("payments"),
    )
    .select_from(Payment)
    .join(Run, col(Run.id) == Payment.run_id)
    .join(Account, col(Account.id) == Payment.account_id)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .where(Payment.state == "due", col(Payment.piece).is_(None))
    .group_by(
        col(Run.name), col(Payment.connector), col(Account.name), col(Budget.currency)
    )
    .order_by(col(Run.name), col(Payment.connector), col(Account.name))
)
_OWED_TO: Final = (
    select_columns(*COLUMNS)
    .join(Account, col(Account.id) == Payment.account_id)
    .where(
        Payment.state == "due",
        col(Payment.piece).is_(None),
        Payment.connector == bindparam("of_connector"),
        Account.name == bindparam("called"),
    )
    .order_by(col(Payment.about))
    .with_for_update(of=Payment)
)
_COUNTS: Final = (
    select(Payment.state, func.count())
    .group_by(col(Payment.state))
    .order_by(col(Payment.state))
)
_EVENTS: Final = (
    select_columns(
        PaymentEvent.kind,
        PaymentEvent.about,
        PaymentEvent.at,
        PaymentEvent.state,
        Budget.currency,
        PaymentEvent.amount,
        PaymentEvent.fee,
        PaymentEvent.actor,
        PaymentEvent.why,
    )
    .join(Budget, col(Budget.run_id) == PaymentEvent.run_id)
    .where(
        PaymentEvent.kind == bindparam("kind"), PaymentEvent.about == bindparam("about")
    )
    .order_by(col(PaymentEvent.id))
)
_WAITING: Final = (
    select(func.count())
    .select_from(Outbox)
    .where(
        in_words(Outbox.kind, "offer", "publish"),
        Outbox.state == "ready",
        Outbox.attempts == 0,
        col(Outbox.created_at) < col(Outbox.due),
        Outbox.due > bindparam("now"),
    )
)


EventRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A change of a payment: kind, about, at, state, currency, amount, fee, actor, why."""


ListedRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A payment as it is listed: kind, about, run, account, state, currency, amount, fee
(millionths), at, why."""


OwedRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""What an account is owed that no market pays: run, account, currency, amount
(millionths), and for how many payments."""


def listed(
    tx: Tx, states: Sequence[str], run: str | None, connector: str | None, limit: int
) -> Sequence[ListedRow]:
    """Payments in some states, those that changed last first."""
    wanted = {"states": list(states), "run": run, "connector": connector}
    return tx.execute(_LISTED, {**wanted, "most": limit}).all()


def listed_of(
    tx: Tx, states: Sequence[str], account_id: int, limit: int
) -> Sequence[ListedRow]:
    """Payments of one account in some states, those that changed last first."""
    wanted = {"states": list(states), "run": None, "connector": None}
    return tx.execute(
        _LISTED_OF, {**wanted, "account": account_id, "most": limit}
    ).all()


def events(tx: Tx, kind: str, about: int) -> Sequence[EventRow]:
    """Every change of a payment, the first one first."""
    return tx.execute(_EVENTS, {"kind": kind, "about": about}).all()


def owed(tx: Tx) -> Sequence[OwedRow]:
    """What people have to pay: earned where no market pays, by run and account."""
    return tx.execute(_OWED).all()


def owed_to(tx: Tx, connector: str, account: str) -> list[PaymentRow]:
    """What one account is owed that no market pays, locked."""
    found = tx.execute(_OWED_TO, {"of_connector": connector, "called": account})
    return [PaymentRow(*row) for row in found]


def counts(tx: Tx) -> dict[str, int]:
    """How many payments are in each state."""
    return dict(tx.execute(_COUNTS).all())


def waiting_messages(tx: Tx, now: int) -> int:
    """Messages that were put off untried: there is no money for them."""
    return tx.scalar(_WAITING, {"now": now}) or 0
