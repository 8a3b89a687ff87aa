"""Accounts and the adversaries that they belong to."""

from __future__ import annotations

from typing import NamedTuple

from dispatcher.store import ledger
from dispatcher.store.transaction import Tx


class Account(NamedTuple):
    """An account; ``groups`` is a JSON list, ``adversary_id`` 0 while it has none."""

    id: int
    connector: str
    name: str
    adversary_id: int
    groups: str
    state: str
    invite: int = 1
    quality: float = 0.8

    @property
    def text(self) -> str:
        """The whole account: ``CONNECTOR/NAME``."""
        return f"{self.connector}/{self.name}"


_COLUMNS = "id, connector, name, adversary_id, groups, state, invite, quality"


def all_accounts(tx: Tx) -> list[Account]:
    """Every account, in order of arrival."""
    found = tx.rows(f"SELECT {_COLUMNS} FROM account ORDER BY id")
    return [Account(*row) for row in found]


def find(tx: Tx, connector: str, name: str) -> Account | None:
    """Account of a connector by its name."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM account WHERE connector = ? AND name = ?",
        (connector, name),
    )
    return Account(*row) if row else None


def add_account(tx: Tx, account: Account, at: int) -> None:
    """Write a new account."""
    tx.execute(
        f"INSERT INTO account ({_COLUMNS}, added_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*account, at),
    )


def set_groups(tx: Tx, account_id: int, groups: str) -> None:
    """Keep an account's groups, a JSON list."""
    tx.execute("UPDATE account SET groups = ? WHERE id = ?", (groups, account_id))


def set_state(tx: Tx, account_id: int, before: str, after: str) -> bool:
    """Move an account from one state to another; False if it was not in the first."""
    return (
        tx.execute(
            "UPDATE account SET state = ? WHERE id = ? AND state = ?",
            (after, account_id, before),
        )
        == 1
    )


def raise_invite(tx: Tx, account_id: int) -> int:
    """Let no earlier invite count any more; return the number that does."""
    tx.execute("UPDATE account SET invite = invite + 1 WHERE id = ?", (account_id,))
    return int(tx.value("SELECT invite FROM account WHERE id = ?", (account_id,)))


def end_adversary(tx: Tx, ended: int, survivor: int) -> None:
    """Let an adversary go on as another, with all that is kept about it."""
    tx.execute(
        "UPDATE task SET adversary_id = ? WHERE account_id IN"
        " (SELECT id FROM account WHERE adversary_id = ?)",
        (survivor, ended),
    )
    ledger.end_chain(tx, ended, survivor)
    tx.execute(
        "UPDATE account SET adversary_id = ? WHERE adversary_id = ?", (survivor, ended)
    )
    tx.execute(
        "UPDATE assignment SET adversary_id = ? WHERE adversary_id = ?",
        (survivor, ended),
    )
    tx.execute(
        "INSERT INTO recusal (adversary_id, unit_id, at)"
        " SELECT CAST(? AS BIGINT), unit_id, at FROM recusal WHERE adversary_id = ?"
        " ON CONFLICT (adversary_id, unit_id) DO NOTHING",
        (survivor, ended),
    )
    for table in ("recusal", "holding", "visit", "disclosure_sum"):
        tx.execute(f"DELETE FROM {table} WHERE adversary_id = ?", (ended,))
