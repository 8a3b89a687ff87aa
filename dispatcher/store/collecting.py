"""What comes from markets, beside answers: how far each was read, and its calls."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, delete, func
from sqlmodel import col, select

from dispatcher.model import Cursor, WebhookDelivery
from dispatcher.store.statements import insert
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


# -- their calls: each counts once, and wakes the collecting ------------------------------

KEPT: Final = 86_400 * 1_000_000
"""Microseconds that a call is remembered: far above the age at which it is refused."""

_FORGET_CALLS: Final = delete(WebhookDelivery).where(
    col(WebhookDelivery.at) < bindparam("before")
)
_ADD_CALL: Final = (
    insert(WebhookDelivery)
    .values(
        connector=bindparam("connector"), call=bindparam("call"), at=bindparam("at")
    )
    .on_conflict_do_nothing()
)
_LATEST_CALLS: Final = select(
    WebhookDelivery.connector, func.max(WebhookDelivery.at)
).group_by(col(WebhookDelivery.connector))


def note_call(tx: Tx, connector: str, call: str, now: int) -> bool:
    """Remember a call; False if it came before. What is old is forgotten.

    Parameters
    ----------
    tx : Tx
    connector : str
    call : str
        Id of the call, as the connector makes it.
    now : int
        Microseconds.
    """
    tx.execute(_FORGET_CALLS, {"before": now - KEPT})
    added = tx.execute(_ADD_CALL, {"connector": connector, "call": call, "at": now})
    return added.rowcount == 1


def latest_calls(tx: Tx) -> dict[str, int]:
    """When each connector was called last, in microseconds."""
    return dict(tx.execute(_LATEST_CALLS).all())
