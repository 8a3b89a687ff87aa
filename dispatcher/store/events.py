"""The audit log: who did what, with ids and numbers only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import bindparam
from sqlmodel import col, select

from dispatcher.model import Event
from dispatcher.store.transaction import Tx

_OF_ACTION: Final = select(Event.at, Event.detail).where(
    Event.action == bindparam("action")
)
_FIRST_TO_LAST: Final = _OF_ACTION.order_by(col(Event.id))
_LAST_TO_FIRST: Final = _OF_ACTION.order_by(col(Event.id).desc())


def add_event(
    tx: Tx, at: int, actor: str, action: str, detail: Mapping[str, Any]
) -> int:
    """Write a line of the audit log; return its number."""
    number = tx.reserve("event")
    tx.insert_many(
        "event",
        ("id", "at", "actor", "action", "detail"),
        [(number, at, actor, action, json.dumps(detail, ensure_ascii=False))],
    )
    return number


def details(
    tx: Tx, action: str, *, newest_first: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Moments and details of all lines about an action, as they stream in."""
    order = _LAST_TO_FIRST if newest_first else _FIRST_TO_LAST
    for at, detail in tx.stream(order, {"action": action}):
        yield at, json.loads(detail)
