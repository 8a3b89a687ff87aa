"""Queries of the booking stage: planned pairs, open tasks, offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Row, bindparam, case, func, or_
from sqlalchemy.sql.elements import ColumnElement
from sqlmodel import col, select

from dispatcher.core.keys import SEAL_BYTES
from dispatcher.model import (
    LIVE_TASK_STATES,
    Account,
    Assignment,
    Entry,
    Outbox,
    Payment,
    Plan,
    Task,
)
from dispatcher.store import outbox
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

HOUR: Final = 3_600_000_000

SHOWN_BYTES: Final[ColumnElement[int]] = func.length(
    Entry.shown, type_=BigInteger()
) - case((col(Entry.key_id).is_(None), 0), else_=SEAL_BYTES)
"""Length of an entry's decrypted shown form."""

_TO_SEND: Final = DriverStatement(
    select(Entry.id, Entry.field_id, SHOWN_BYTES)
    .where(
        in_list(Entry.id, "ids"),
        or_(bindparam("longer") < SHOWN_BYTES, in_list(Entry.field_id, "fields")),
    )
    .order_by(col(Entry.id))
)

_is_planned: Final = (
    Plan.state == "applied",
    Account.state == "active",
    in_list(Account.connector, "connectors"),
    func.length(Assignment.entries) > 0,
)
_PLANNED: Final = (
    select_columns(
        col(Plan.policy_version).label("version"),
        Assignment.plan_id,
        Assignment.account_id,
        Account.connector,
        (col(Account.connector) + "/" + col(Account.name)).label("account"),
        Assignment.entries,
    )
    .select_from(Assignment)
    .join(Plan, col(Plan.id) == col(Assignment.plan_id))
    .join(Account, col(Account.id) == col(Assignment.account_id))
    .where(*_is_planned, Plan.policy_version == bindparam("version"))
    .order_by(col(Assignment.plan_id), col(Assignment.account_id))
)


_TASKS: Final = (
    select_columns(
        Task.account_id,
        func.count(),
        sum_where(in_words(Task.state, *LIVE_TASK_STATES)),
        sum_where(col(Task.created_at) > bindparam("day")),
        sum_where(col(Task.created_at) > bindparam("hour")),
    )
    .where(in_list(Task.account_id, "accounts"))
    .group_by(col(Task.account_id))
)
_offered: Final = select(Outbox.id).where(
    Outbox.account_id == Account.id,
    Outbox.kind == "offer",
    or_(
        col(Outbox.created_at) > bindparam("since"),
        col(Outbox.state).in_(("ready", "leased"))
        & (col(Outbox.due) > col(Outbox.created_at)),
    ),
)
_paid_for: Final = select(Payment.account_id).where(
    Payment.account_id == Account.id,
    Payment.kind == "reward",
    Payment.state == "reserved",
)
_WITHOUT_OFFER: Final = (
    select(Account.id, Account.connector)
    .distinct()
    .join(Assignment, col(Assignment.account_id) == col(Account.id))
    .join(Plan, col(Plan.id) == col(Assignment.plan_id))
    .where(*_is_planned, ~_offered.exists(), ~_paid_for.exists())
    .order_by(col(Account.id))
)


PlannedRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""What an applied plan still means for one account: version (of the policy), plan_id,
account_id, connector, account (``CONNECTOR/NAME``), entries (packed)."""


LoadRow: TypeAlias = tuple[int, int, int, int]
"""Tasks of an account: ever, in hand now, in the last day, in the last hour."""


def planned(tx: Tx, connectors: Sequence[str], version: int) -> Sequence[PlannedRow]:
    """Return unbooked pairs of the plans under the policy in force, oldest first."""
    given = {"version": version, "connectors": list(connectors)}
    return tx.execute(_PLANNED, given).all()


def loads(tx: Tx, account_ids: Sequence[int], now: int) -> dict[int, LoadRow]:
    """Tasks of accounts; an account without any is left out."""
    given = {"day": now - 24 * HOUR, "hour": now - HOUR, "accounts": list(account_ids)}
    return {account: (*load,) for account, *load in tx.execute(_TASKS, given)}


def to_send(
    tx: Tx, ids: Sequence[int], longer: int = -1, fields: Sequence[int] = ()
) -> Ints:
    """Return what is sent of entries, by ascending id: (id, field, bytes).

    Only entries longer than so many bytes, or of one of the fields.
    """
    given = {"longer": longer, "fields": list(fields)}
    asked = [(_TO_SEND, {"ids": list(part), **given}) for part in parts(ids)]
    return tx.driver_numbers(3, asked)


def without_offer(
    tx: Tx, connectors: Sequence[str], since: int
) -> list[tuple[int, str]]:
    """Find accounts with planned work and no recent offer: (account, connector).

    Accounts with a postponed offer, or with an open piece of work that a market pays
    for, are left out.
    """
    given = {"connectors": list(connectors), "since": since}
    return [(row.id, row.connector) for row in tx.execute(_WITHOUT_OFFER, given)]


def add_offers(tx: Tx, accounts: Sequence[tuple[int, str]], now: int) -> None:
    """Offer work to accounts; no content, no exposure."""
    first = tx.reserve("outbox", len(accounts))
    outbox.add(
        tx,
        (
            (first + i, connector, account_id, "offer", now, now)
            for i, (account_id, connector) in enumerate(accounts)
        ),
    )
