"""Links and sessions of the operators' console, by the digests of their secrets."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, bindparam, delete, or_, update
from sqlalchemy.types import String
from sqlmodel import col, select

from dispatcher.model import OperatorSession, SignInLink
from dispatcher.store import events
from dispatcher.store.statements import insert
from dispatcher.store.transaction import Tx

_PUT_LINK: Final = insert(SignInLink).values(
    digest=bindparam("link"),
    made_at=bindparam("made"),
    ends_at=bindparam("ends"),
    purpose=bindparam("purpose"),
    user_id=bindparam("user"),
)
_LINK: Final = select(SignInLink).where(
    SignInLink.digest == bindparam("link"),
    col(SignInLink.used_at).is_(None),
    SignInLink.made_at <= bindparam("now"),
    SignInLink.ends_at > bindparam("now"),
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
_USER: Final = bindparam("user", type_=BigInteger())
_END_LINKS: Final = (
    update(SignInLink)
    .where(
        col(SignInLink.used_at).is_(None),
        col(SignInLink.ends_at) > bindparam("now"),
        or_(_USER.is_(None), col(SignInLink.user_id) == _USER),
    )
    .values(used_at=bindparam("now"))
)
_OPEN: Final = insert(OperatorSession).values(
    digest=bindparam("cookie"),
    opened_at=bindparam("now"),
    seen_at=bindparam("now"),
    proven_at=bindparam("proven"),
    user_id=bindparam("user"),
)
_PROVE: Final = (
    update(OperatorSession)
    .where(
        col(OperatorSession.digest) == bindparam("cookie"),
        col(OperatorSession.ended_at).is_(None),
    )
    .values(proven_at=bindparam("now"))
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
        or_(
            _COOKIE.is_(None),
            col(OperatorSession.digest).startswith(_COOKIE, autoescape=False),
        ),
        or_(_USER.is_(None), col(OperatorSession.user_id) == _USER),
    )
    .values(ended_at=bindparam("now"))
)
_LIVE: Final = (
    select(OperatorSession)
    .where(
        col(OperatorSession.ended_at).is_(None),
        OperatorSession.opened_at > bindparam("opened"),
        OperatorSession.seen_at > bindparam("seen"),
    )
    .order_by(col(OperatorSession.opened_at), col(OperatorSession.digest))
)
_FORGET: Final = (
    delete(SignInLink).where(col(SignInLink.made_at) < bindparam("moment")),
    delete(OperatorSession).where(col(OperatorSession.opened_at) < bindparam("moment")),
)


def put_link(
    tx: Tx,
    digest: str,
    made_at: int,
    ends_at: int,
    *,
    purpose: str | None = None,
    user_id: int | None = None,
) -> None:
    """Store a link until it is used or expired; see :class:`.SignInLink`."""
    given = {"link": digest, "made": made_at, "ends": ends_at}
    tx.execute(_PUT_LINK, {**given, "purpose": purpose, "user": user_id})


def valid_link(tx: Tx, digest: str, now: int) -> SignInLink | None:
    """Return a link that may still be used."""
    return tx.model(_LINK, {"link": digest, "now": now})


def use_link(tx: Tx, digest: str, now: int) -> bool:
    """Consume a link; False if it is unknown, expired or used."""
    return tx.execute(_USE_LINK, {"link": digest, "now": now}).rowcount == 1


def open_session(
    tx: Tx, digest: str, now: int, proven_at: int, user_id: int | None = None
) -> None:
    """Store a new session, of a user or of whoever had a link."""
    given = {"cookie": digest, "now": now, "proven": proven_at, "user": user_id}
    tx.execute(_OPEN, given)


def live_sessions(tx: Tx, opened: int, seen: int) -> list[OperatorSession]:
    """Sessions not ended that were opened, and last seen, after these moments."""
    return tx.models(_LIVE, {"opened": opened, "seen": seen})


def session(tx: Tx, digest: str) -> OperatorSession | None:
    """One session, however old."""
    return tx.model(_SESSION, {"cookie": digest})


def touch_console_session(tx: Tx, digest: str, now: int) -> None:
    """Record that a valid session was used now."""
    tx.execute(_TOUCH, {"cookie": digest, "now": now})


def prove_session(tx: Tx, digest: str, now: int) -> None:
    """Record that whoever has a valid session gave again what opens one."""
    tx.execute(_PROVE, {"cookie": digest, "now": now})


def end_sessions(
    tx: Tx, now: int, digest: str | None = None, *, user_id: int | None = None
) -> int:
    """End sessions, all or those whose digest begins so, or of a user; say how many."""
    given = {"cookie": digest, "user": user_id, "now": now}
    return tx.execute(_END, given).rowcount


def end_links(tx: Tx, now: int, *, user_id: int | None = None) -> int:
    """Invalidate all unused links, or those of a user; return how many."""
    return tx.execute(_END_LINKS, {"now": now, "user": user_id}).rowcount


def forget_before(tx: Tx, moment: int) -> None:
    """Delete links and sessions that began before a time."""
    for forget in _FORGET:
        tx.execute(forget, {"moment": moment})


def note(tx: Tx, at: int, actor: str, action: str) -> None:
    """Note what happened."""
    events.add_event(tx, at, actor, action, {})
