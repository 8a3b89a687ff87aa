"""Links and sessions of the operators' console, by the digests of their secrets."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, delete, or_, update
from sqlalchemy.types import String
from sqlmodel import col, select

from dispatcher.model import OperatorSession, SignInLink
from dispatcher.store import events
from dispatcher.store.statements import insert
from dispatcher.store.transaction import Tx

_PUT_LINK: Final = insert(SignInLink).values(
    digest=bindparam("link"), made_at=bindparam("made"), ends_at=bindparam("ends")
)
_USE_LINK: Final = (
    update(SignInLink)
    .where(
        col(SignInLink.digest) == bindparam("link"),
        col(SignInLink.used_at).is_(None),
        col(SignInLink.made_at) <= bindparam("now"),
        col(SignInLink.ends_at) > bindparam("now"),
    )
    .values(used_at=bindparam("now"))
)
_END_LINKS: Final = (
    update(SignInLink)
    .where(
        col(SignInLink.used_at).is_(None), col(SignInLink.ends_at) > bindparam("now")
    )
    .values(used_at=bindparam("now"))
)
_OPEN: Final = insert(OperatorSession).values(
    digest=bindparam("cookie"), opened_at=bindparam("now"), seen_at=bindparam("now")
)
_SESSION: Final = select(OperatorSession).where(
    OperatorSession.digest == bindparam("cookie")
)
_TOUCH: Final = (
    update(OperatorSession)
    .where(
        col(OperatorSession.digest) == bindparam("cookie"),
        col(OperatorSession.ended_at).is_(None),
        col(OperatorSession.seen_at) < bindparam("now"),
    )
    .values(seen_at=bindparam("now"))
)
_COOKIE: Final = bindparam("cookie", type_=String())
_END: Final = (
    update(OperatorSession)
    .where(
        col(OperatorSession.ended_at).is_(None),
        or_(_COOKIE.is_(None), col(OperatorSession.digest) == _COOKIE),
    )
    .values(ended_at=bindparam("now"))
)
_FORGET: Final = (
    delete(SignInLink).where(col(SignInLink.made_at) < bindparam("moment")),
    delete(OperatorSession).where(col(OperatorSession.opened_at) < bindparam("moment")),
)


def put_link(tx: Tx, digest: str, made_at: int, ends_at: int) -> None:
    """Store a link until it is used or expired."""
    tx.execute(_PUT_LINK, {"link": digest, "made": made_at, "ends": ends_at})


def use_link(tx: Tx, digest: str, now: int) -> bool:
    """Consume a link; False if it is unknown, expired or used."""
    return tx.execute(_USE_LINK, {"link": digest, "now": now}).rowcount == 1


def open_session(tx: Tx, digest: str, now: int) -> None:
    """Store a new session."""
    tx.execute(_OPEN, {"cookie": digest, "now": now})


def session(tx: Tx, digest: str) -> OperatorSession | None:
    """One session, however old."""
    return tx.model(_SESSION, {"cookie": digest})


def touch_session(tx: Tx, digest: str, now: int) -> None:
    """Record that a valid session was used now."""
    tx.execute(_TOUCH, {"cookie": digest, "now": now})


def end_sessions(tx: Tx, now: int, digest: str | None = None) -> int:
    """End one session, or all; return how many were still valid."""
    return tx.execute(_END, {"cookie": digest, "now": now}).rowcount


def end_links(tx: Tx, now: int) -> int:
    """Invalidate all unused links; return how many."""
    return tx.execute(_END_LINKS, {"now": now}).rowcount


def forget_before(tx: Tx, moment: int) -> None:
    """Delete links and sessions that began before a time."""
    for forget in _FORGET:
        tx.execute(forget, {"moment": moment})


def note(tx: Tx, at: int, actor: str, action: str) -> None:
    """Write a line of the audit log."""
    events.add_event(tx, at, actor, action, {})
