"""What the booking stage reads and writes: planned pairs, tasks in hand, offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, bindparam, case, func, or_
from sqlalchemy.sql.elements import ColumnElement
from sqlmodel import col, select

from dispatcher.core.keys import SEAL_BYTES
from dispatcher.model import LIVE_TASK_STATES, Entry
from dispatcher.store.handing import add_outbox
from dispatcher.store.ledger import parts
from dispatcher.store.packed import Ints
from dispatcher.store.statements import DriverStatement, in_list
from dispatcher.store.transaction import Tx

HOUR: Final = 3_600_000_000

SHOWN_BYTES: Final[ColumnElement[int]] = func.length(
    Entry.shown, type_=BigInteger()
) - case((col(Entry.key_id).is_(None), 0), else_=SEAL_BYTES)
"""How long the shown form of an entry is when it is opened."""

_TO_SEND: Final = DriverStatement(
    select(Entry.id, Entry.field_id, SHOWN_BYTES)
    .where(
        in_list(Entry.id, "ids"),
        or_(bindparam("longer") < SHOWN_BYTES, in_list(Entry.field_id, "fields")),
    )
    .order_by(col(Entry.id))
)


class PlannedRow(NamedTuple):
    """What an applied plan still means for one account; ``entries`` is packed."""

    version: int
    plan_id: int
    account_id: int
    connector: str
    name: str
    entries: bytes

    @property
    def account(self) -> str:
        """The whole account: ``CONNECTOR/NAME``."""
        return f"{self.connector}/{self.name}"


class LoadRow(NamedTuple):
    """Tasks of an account: ever, in hand now, in the last day, in the last hour."""

    given: int
    live: int
    day: int
    hour: int


def planned(tx: Tx, connectors: Sequence[str], version: int) -> list[PlannedRow]:
    """Pairs not booked yet of the plans under the policy in force, oldest first."""
    return [
        PlannedRow(version, plan_id, account_id, connector, name, bytes(entries))
        for plan_id, account_id, connector, name, entries in tx.rows(
            "SELECT s.plan_id, s.account_id, a.connector, a.name, s.entries"
            " FROM assignment s JOIN plan p ON p.id = s.plan_id"
            " JOIN account a ON a.id = s.account_id"
            " WHERE p.state = 'applied' AND p.policy_version = ?"
            " AND a.state = 'active' AND a.connector = ANY(?) AND length(s.entries) > 0"
            " ORDER BY s.plan_id, s.account_id",
            [version, connectors],
        )
    ]


def loads(tx: Tx, account_ids: Sequence[int], now: int) -> dict[int, LoadRow]:
    """Tasks of accounts; an account without any is left out."""
    live = ", ".join(f"'{state}'" for state in LIVE_TASK_STATES)
    return {
        row[0]: LoadRow(*row[1:])
        for row in tx.rows(
            "SELECT account_id, count(*),"
            f" sum(CASE WHEN state IN ({live}) THEN 1 ELSE 0 END),"
            " sum(CASE WHEN created_at > ? THEN 1 ELSE 0 END),"
            " sum(CASE WHEN created_at > ? THEN 1 ELSE 0 END)"
            " FROM task WHERE account_id = ANY(?) GROUP BY account_id",
            [now - 24 * HOUR, now - HOUR, account_ids],
        )
    }


def to_send(
    tx: Tx, ids: Sequence[int], longer: int = -1, fields: Sequence[int] = ()
) -> Ints:
    """What is sent of entries, by ascending id: (id, field, bytes).

    Only of those that are longer than so many bytes, or of one of the fields.
    """
    given = {"longer": longer, "fields": list(fields)}
    asked = [(_TO_SEND, {"ids": list(part), **given}) for part in parts(ids)]
    return tx.driver_numbers(3, asked)


def without_offer(
    tx: Tx, connectors: Sequence[str], since: int
) -> list[tuple[int, str]]:
    """Accounts with planned work that were told of none since: (account, connector).

    Nor is one told again while an offer was put off and waits, or while a piece of work
    that a market pays for is open.
    """
    return [
        (row[0], row[1])
        for row in tx.rows(
            "SELECT DISTINCT a.id, a.connector FROM account a"
            " JOIN assignment s ON s.account_id = a.id"
            " JOIN plan p ON p.id = s.plan_id"
            " WHERE p.state = 'applied' AND length(s.entries) > 0"
            " AND a.state = 'active' AND a.connector = ANY(?) AND NOT EXISTS ("
            " SELECT 1 FROM outbox o WHERE o.account_id = a.id AND o.kind = 'offer'"
            " AND (o.created_at > ? OR o.state IN ('ready', 'leased')"
            " AND o.due > o.created_at))"
            " AND NOT EXISTS (SELECT 1 FROM payment m WHERE m.account_id = a.id"
            " AND m.kind = 'reward' AND m.state = 'reserved') ORDER BY a.id",
            [connectors, since],
        )
    ]


def add_offers(tx: Tx, accounts: Sequence[tuple[int, str]], now: int) -> None:
    """Tell accounts that there is work; no content, no exposure."""
    first = tx.reserve("outbox", len(accounts))
    add_outbox(
        tx,
        (
            (first + i, connector, account_id, "offer", now, now)
            for i, (account_id, connector) in enumerate(accounts)
        ),
    )
