"""How far each market was read."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam
from sqlmodel import select

from dispatcher.model import Cursor
from dispatcher.store.transaction import Tx

_CURSOR: Final = select(Cursor.value).where(Cursor.connector == bindparam("connector"))


def cursor(tx: Tx, connector: str) -> str:
    """Where collecting stands with a connector; empty at the beginning."""
    return tx.scalar(_CURSOR, {"connector": connector}) or ""


def save_cursor(tx: Tx, connector: str, value: str) -> None:
    """Remember where collecting stands, in the transaction of what was collected."""
    tx.upsert_many(
        "cursor", ["connector"], ["connector", "value"], [(connector, value)]
    )
