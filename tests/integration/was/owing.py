"""Payments as people look at them: what is open, and what they owe themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dispatcher.store.sql import Value
from dispatcher.store.transaction import Tx
from tests.integration.was.money import COLUMNS, PaymentRow


class ListedRow(NamedTuple):
    """A payment as it is listed; amounts in millionths."""

    kind: str
    about: int
    run: str
    account: str
    state: str
    currency: str
    amount: int
    fee: int
    at: int
    why: str | None


class OwedRow(NamedTuple):
    """What an account is owed that no market pays: millionths, and for how many."""

    run: str
    account: str
    currency: str
    amount: int
    payments: int


def listed(
    tx: Tx, states: Sequence[str], run: str | None, connector: str | None, limit: int
) -> list[ListedRow]:
    """Payments in some states, those that changed last first."""
    text = (
        "SELECT p.kind, p.about, u.name, p.connector || '/' || c.name, p.state,"
        " b.currency, p.amount, p.fee, p.at, p.why FROM payment p"
        " JOIN run u ON u.id = p.run_id JOIN account c ON c.id = p.account_id"
        " JOIN budget b ON b.run_id = p.run_id WHERE p.state = ANY(?)"
    )
    parameters: list[Value] = [list(states)]
    for column, wanted in (("u.name", run), ("p.connector", connector)):
        if wanted is not None:
            text += f" AND {column} = ?"
            parameters.append(wanted)
    text += " ORDER BY p.at DESC, p.kind, p.about LIMIT ?"
    return [ListedRow(*row) for row in tx.rows(text, [*parameters, limit])]


def owed(tx: Tx) -> list[OwedRow]:
    """What people have to pay: earned where no market pays, by run and account."""
    return [
        OwedRow(run, account, currency, int(amount), int(count))
        for run, account, currency, amount, count in tx.rows(
            "SELECT u.name, p.connector || '/' || c.name, b.currency, sum(p.amount),"
            " count(*) FROM payment p JOIN run u ON u.id = p.run_id"
            " JOIN account c ON c.id = p.account_id JOIN budget b ON b.run_id = p.run_id"
            " WHERE p.state = 'due' AND p.piece IS NULL"
            " GROUP BY u.name, p.connector, c.name, b.currency"
            " ORDER BY u.name, p.connector, c.name"
        )
    ]


def owed_to(tx: Tx, connector: str, account: str) -> list[PaymentRow]:
    """What one account is owed that no market pays, locked."""
    rows = tx.rows(
        f"SELECT {COLUMNS} FROM payment p JOIN account c ON c.id = p.account_id"
        " WHERE p.state = 'due' AND p.piece IS NULL AND p.connector = ?"
        " AND c.name = ? ORDER BY p.about FOR UPDATE OF p",
        [connector, account],
    )
    return [PaymentRow(*row) for row in rows]


def counts(tx: Tx) -> dict[str, int]:
    """How many payments are in each state."""
    text = "SELECT state, count(*) FROM payment GROUP BY state ORDER BY state"
    return {state: int(count) for state, count in tx.rows(text)}


def waiting_messages(tx: Tx, now: int) -> int:
    """Messages that were put off untried: there is no money for them."""
    text = (
        "SELECT count(*) FROM outbox WHERE kind IN ('offer', 'publish')"
        " AND state = 'ready' AND attempts = 0 AND created_at < due AND due > ?"
    )
    return int(tx.value(text, [now]))
