"""Calls of markets that were checked: each counts once, and wakes the collecting."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, delete, func
from sqlmodel import col, select

from dispatcher.model import Hook
from dispatcher.store.statements import insert
from dispatcher.store.transaction import Tx

KEPT: Final = 86_400 * 1_000_000
"""Microseconds that a call is remembered: far above the age at which it is refused."""

_FORGET: Final = delete(Hook).where(col(Hook.at) < bindparam("before"))
_ADD: Final = (
    insert(Hook)
    .values(
        connector=bindparam("connector"), call=bindparam("call"), at=bindparam("at")
    )
    .on_conflict_do_nothing()
)
_LATEST: Final = select(Hook.connector, func.max(Hook.at)).group_by(col(Hook.connector))


def note(tx: Tx, connector: str, call: str, now: int) -> bool:
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
    tx.execute(_FORGET, {"before": now - KEPT})
    added = tx.execute(_ADD, {"connector": connector, "call": call, "at": now})
    return added.rowcount == 1


def latest(tx: Tx) -> dict[str, int]:
    """When each connector was called last, in microseconds."""
    return dict(tx.execute(_LATEST).all())
