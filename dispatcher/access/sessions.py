"""Sessions of the console, and the links that work once.

A link opens a session by itself, or lets a user choose a password (:mod:`.users`).
Whoever may run commands on the store's machine can make one. Link and session are 256
random bits each; the store keeps only their SHA-256, so that a copy of the store opens
nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dispatcher.access.roles import PROVEN, Principal, scopes_of
from dispatcher.core.errors import DispatcherError, NotFound
from dispatcher.core.log import get_logger
from dispatcher.store import Store, Tx, people
from dispatcher.store import access as rows
from dispatcher.store.audit_log import Act

if TYPE_CHECKING:
    from dispatcher.model import AppUser, OperatorSession

Entropy = Callable[[int], bytes]

SECOND: Final = 1_000_000
LINK_SECONDS: Final = 600
IDLE_SECONDS: Final = 30 * 60
SESSION_SECONDS: Final = 12 * 3600
PROVEN_SECONDS: Final = 5 * 60
"""For so long nobody is asked for password and code once more."""
TOUCH_SECONDS: Final = 60
"""A session's last use is stored to the minute: not every request writes."""

ENROL: Final = "enrol"
"""Purpose of a link with which a user chooses a password."""

FIRST_ADMIN: Final = "first-admin"
"""Purpose of the link with which the first of all users does."""

LINK_ROLES: Final = frozenset({"operator", "policy-admin"})
"""Roles of a session that a link opened: of nobody in particular, with no value seen."""

_SECRET_BYTES: Final = 32
_LONGEST: Final = 64  # characters; ours have 43
_KEPT_SECONDS: Final = 30 * 86_400
_ID_CHARS: Final = 12

_log = get_logger("access")


@dataclass(frozen=True)
class Operator:
    """Whoever is signed in to the console.

    Attributes
    ----------
    principal : Principal
    form_token : str
        Token in the forms of this session (CSRF).
    opened_at, ends_at : int
        When the session began, and when it ends in any case.
    proven_at : int
        When whoever has it last gave what opens one.
    by_provider : bool
        Whether an OpenID provider signs the user in.
    """

    principal: Principal
    form_token: str
    opened_at: int
    ends_at: int
    proven_at: int = 0
    by_provider: bool = False

    def must_prove(self, operation: str, now: int) -> bool:
        """Whether an operation asks for password and code once more."""
        fresh = 0 <= now - self.proven_at < PROVEN_SECONDS * SECOND
        return operation in PROVEN and not fresh

    @property
    def name(self) -> str:
        """For the audit log."""
        return self.principal.name

    def sent(self, form_token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode())


def make_link(
    store: Store,
    now: int,
    entropy: Entropy = os.urandom,
    *,
    purpose: str | None = None,
) -> str:
    """Create a secret that works once, within ten minutes.

    Parameters
    ----------
    store : Store
    now : int
    entropy : callable
    purpose : str, optional
        :data:`FIRST_ADMIN`; None: it signs in.
    """
    with store.write() as tx:
        rows.forget_before(tx, now - _KEPT_SECONDS * SECOND)
        secret = put_link(tx, now, entropy, purpose=purpose)
        rows.note(tx, now, "command", "console.link")
    return secret


def put_link(
    tx: Tx,
    now: int,
    entropy: Entropy,
    *,
    purpose: str | None,
    user_id: int | None = None,
    seconds: int = LINK_SECONDS,
) -> str:
    """Create a secret that works once, in a transaction."""
    secret = _drawn(entropy)
    ends_at = now + seconds * SECOND
    rows.put_link(
        tx, link_digest(secret), now, ends_at, purpose=purpose, user_id=user_id
    )
    return secret


def sign_in_by_link(
    store: Store, secret: str, now: int, entropy: Entropy = os.urandom
) -> str | None:
    """Consume a link and open a session.

    Parameters
    ----------
    store : Store
    secret : str
        The submitted secret of the link, unchecked.
    now : int
    entropy : callable

    Returns
    -------
    str or None
        The session's own secret, for its cookie; None if the link is invalid: unknown,
        expired, used, or for another purpose. The reason is not disclosed.
    """
    if not 0 < len(secret) <= _LONGEST:
        _log.warning("console.denied")
        return None
    session = None
    with store.write() as tx:
        found = rows.valid_link(tx, link_digest(secret), now)
        if (
            found is not None
            and found.purpose is None
            and rows.use_link(tx, found.digest, now)
        ):
            session = open_session(tx, now, entropy)
    if session is None:
        _log.warning("console.denied")
    return session


def open_session(
    tx: Tx,
    now: int,
    entropy: Entropy,
    user: AppUser | None = None,
    *,
    proven_at: int | None = None,
) -> str:
    """Open a session, of a user or of whoever had a link; return its secret.

    ``proven_at`` is when whoever has it gave what opens one; None: now.
    """
    secret = _drawn(entropy)
    digest = session_digest(secret)
    name = user.name if user else _name(digest)
    proven_at = now if proven_at is None else proven_at
    rows.open_session(tx, digest, now, proven_at, user.id if user else None)
    rows.note(tx, now, name, "console.sign-in")
    Act(name, "console", "console.sign-in", lambda: now).write(tx)
    _log.info("console.sign-in", actor=name)
    return secret


def prove_session(tx: Tx, secret: str, now: int) -> None:
    """Take what was given once more as given now."""
    rows.prove_session(tx, session_digest(secret), now)


def session_digest(secret: str) -> str:
    """Return what the store keeps of a session."""
    return _digest("session", secret)


def _drawn(entropy: Entropy) -> str:
    return urlsafe_b64encode(entropy(_SECRET_BYTES)).rstrip(b"=").decode()


def sign_in_link(base: str, secret: str, *, page: str = "login") -> str:
    """Return a link; the part after ``#`` reaches no server's log.

    Parameters
    ----------
    base : str
        URL of the console: ``http://127.0.0.1:8420``.
    secret : str
        From :func:`make_link`.
    page : str
        ``enrol`` where a password is chosen with it.
    """
    return f"{base.rstrip('/')}/{page}#k={secret}"


def authenticate_session(
    store: Store, secret: str, now: int, *, acting: bool = True
) -> Operator | None:
    """Return whoever a session's secret stands for.

    Parameters
    ----------
    store : Store
    secret : str
        From the cookie, unchecked.
    now : int
    acting : bool
        Whether a person acts. Automatic requests of a page keep no session alive.

    Returns
    -------
    Operator or None
        None if the session is unknown, was ended, was idle for 30 minutes or is 12
        hours old, or its user is disabled. A clock that went back before its beginning
        ends it too.
    """
    if not 0 < len(secret) <= _LONGEST:
        return None
    digest = session_digest(secret)
    with store.read() as tx:
        found = rows.session(tx, digest)
        if found is None or found.ended_at is not None:
            return None
        user = None if found.user_id is None else people.user(tx, found.user_id)
    if found.user_id is not None and (user is None or user.disabled_at is not None):
        return None
    ends_at = found.opened_at + SESSION_SECONDS * SECOND
    idle_at = found.seen_at + IDLE_SECONDS * SECOND
    if not found.opened_at <= now < min(ends_at, idle_at):
        return None
    if acting and now - found.seen_at >= TOUCH_SECONDS * SECOND:
        with suppress(DispatcherError), store.write() as tx:  # busy: then next time
            rows.touch_console_session(tx, digest, now)
    return Operator(
        _principal(digest, user),
        _digest("form", secret)[:32],
        found.opened_at,
        ends_at,
        found.proven_at or 0,
        user is not None and user.identity is not None,
    )


def _principal(digest: str, user: AppUser | None) -> Principal:
    if user is None:
        return Principal(_name(digest), "link", LINK_ROLES, scopes_of(LINK_ROLES))
    roles = frozenset(user.roles.split())
    return Principal(user.name, "user", roles, scopes_of(roles), user.id)


def list_sessions(store: Store, now: int) -> list[tuple[str, str, OperatorSession]]:
    """Sessions that are valid now: id, whose, and the row."""
    with store.read() as tx:
        names = {one.id: one.name for one in people.users(tx)}
        live = rows.live_sessions(
            tx, now - SESSION_SECONDS * SECOND, now - IDLE_SECONDS * SECOND
        )
    return [
        (
            one.digest[:_ID_CHARS],
            _name(one.digest) if one.user_id is None else names[one.user_id],
            one,
        )
        for one in live
    ]


def revoke_session(store: Store, session_id: str, now: int) -> None:
    """End a session by its id.

    Raises
    ------
    NotFound
        There is no valid session of that id.
    """
    known = len(session_id) == _ID_CHARS and session_id.isalnum()
    with store.write() as tx:
        if not known or not rows.end_sessions(tx, now, session_id):
            raise NotFound(
                "there is no valid session of this id",
                why="it has ended already, or never began",
                fix="see them: dispatcher sessions list",
            )


def sign_out(store: Store, secret: str, now: int) -> None:
    """End the session of a secret; its cookie is invalid from now on."""
    digest = session_digest(secret)
    with store.write() as tx:
        found = rows.session(tx, digest)
        if found is not None and rows.end_sessions(tx, now, digest):
            user = None if found.user_id is None else people.user(tx, found.user_id)
            name = _principal(digest, user).name
            rows.note(tx, now, name, "console.sign-out")
            _log.info("console.sign-out", actor=name)


def sign_everybody_out(store: Store, now: int) -> int:
    """End all sessions, and all links that were not used; return how many sessions."""
    with store.write() as tx:
        rows.end_links(tx, now)
        ended = rows.end_sessions(tx, now)
        rows.note(tx, now, "command", "console.sign-out-all")
    return ended


def link_digest(secret: str) -> str:
    """Return what the store keeps of a link."""
    return _digest("link", secret)


def _digest(use: str, secret: str) -> str:
    text = f"console\0{use}\0{secret}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _name(digest: str) -> str:
    return f"console:{digest[:8]}"
