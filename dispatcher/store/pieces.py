"""What a market tells of pieces of work, kept with their rewards."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeAlias

from sqlalchemy import Row, bindparam, func
from sqlmodel import col, select

from dispatcher.model import Account, Outbox, Payment
from dispatcher.store.money import lock_payments, move
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

_BY_REFERENCE: Final = (
    select_columns(
        Payment.reference,
        Payment.about,
        col(Account.name).label("account"),
        Payment.submission,
        Payment.progress,
    )
    .join(Account, col(Account.id) == Payment.account_id)
    .where(
        Payment.connector == bindparam("connector"),
        in_list(Payment.reference, "references"),
    )
    .order_by(col(Payment.about))
    .with_for_update(of=Payment)
)
_UNTOLD: Final = (
    select(Payment.about)
    .join(Outbox, col(Outbox.id) == Payment.about)
    .where(
        Payment.connector == bindparam("connector"),
        Payment.kind == "reward",
        Payment.state == "reserved",
        func.coalesce(Payment.progress, "open") == "open",
        Outbox.state == "sent",
        Outbox.due <= bindparam("before"),
    )
    .order_by(col(Payment.about))
)


ToldRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A reward by the market's name of its offer: about, account, submission, progress."""


def by_reference(
    tx: Tx, connector: str, references: Collection[str]
) -> dict[str, ToldRow]:
    """Rewards of a connector by the market's names of their offers, locked.

    Only rewards have such a name.
    """
    given = {"connector": connector, "references": sorted(set(references))}
    return {row.reference: row for row in tx.execute(_BY_REFERENCE, given)}


def untold(tx: Tx, connector: str, before: int) -> list[int]:
    """Messages of pieces of work that were sent long ago and are not known to end."""
    return tx.scalars(_UNTOLD, {"connector": connector, "before": before})


def hold(tx: Tx, about: int, why: str, now: int) -> bool:
    """Hold a reward for a person to look at; False if it was settled or held before."""
    row = lock_payments(tx, "reward", [about])[about]
    open_ = row.state in ("reserved", "due")
    move(tx, [row] if open_ else [], "held", now=now, why=why)
    return open_
