"""Events: what people, workers and the daemon did, with ids and numbers only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, Text, bindparam, func, or_
from sqlmodel import col, select

from dispatcher.model import NOTICES, Event
from dispatcher.store import notices
from dispatcher.store.transaction import Tx

_OF_ACTION: Final = select(Event.at, Event.detail).where(
    Event.action == bindparam("action")
)
_FIRST_TO_LAST: Final = _OF_ACTION.order_by(col(Event.id))
_LAST_TO_FIRST: Final = _OF_ACTION.order_by(col(Event.id).desc())
_ACTOR: Final = bindparam("by", type_=Text())
_ACTION: Final = bindparam("of_action", type_=Text())
_NEWEST: Final = (
    select(Event)
    .where(
        or_(_ACTOR.is_(None), col(Event.actor) == _ACTOR),
        or_(_ACTION.is_(None), col(Event.action) == _ACTION),
        col(Event.id) < bindparam("before", type_=BigInteger()),
    )
    .order_by(col(Event.id).desc())
    .limit(bindparam("most"))
)
_FOLLOWING: Final = (
    select(Event)
    .where(col(Event.id) > bindparam("after"))
    .order_by(col(Event.id))
    .limit(bindparam("most"))
)
_LAST: Final = select(func.coalesce(func.max(Event.id), 0))


def add_event(
    tx: Tx, at: int, actor: str, action: str, detail: Mapping[str, Any]
) -> int:
    """Write an event, and a notice where there is one of it; return its number."""
    number = tx.reserve("event")
    tx.insert_many(
        "event",
        ("id", "at", "actor", "action", "detail"),
        [(number, at, actor, action, json.dumps(detail, ensure_ascii=False))],
    )
    if action in NOTICES and NOTICES[action].source == "event":
        notices.add(tx, at, action, {"event": number})
    return number


def details(
    tx: Tx, action: str, *, newest_first: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Moments and details of all events of an action, as they stream in."""
    order = _LAST_TO_FIRST if newest_first else _FIRST_TO_LAST
    for at, detail in tx.stream(order, {"action": action}):
        yield at, json.loads(detail)


def newest(
    tx: Tx,
    actor: str | None,
    action: str | None,
    limit: int,
    before: int = 2**63 - 1,
) -> list[Event]:
    """Events below an id, the newest first; None: by anybody, of any action."""
    given = {"by": actor, "of_action": action, "most": limit, "before": before}
    return tx.models(_NEWEST, given)


def following(tx: Tx, after: int, limit: int) -> list[Event]:
    """Events above an id, the oldest first."""
    return tx.models(_FOLLOWING, {"after": after, "most": limit})


def last(tx: Tx) -> int:
    """Id of the newest event; 0: there is none."""
    return int(tx.scalar(_LAST) or 0)
