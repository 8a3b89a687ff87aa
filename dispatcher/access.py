"""Access to the console: one-time sign-in links, and the sessions that they open.

There is no password and no account yet: whoever may run commands on the store's machine
makes a link, and whoever opens it first, within ten minutes, is signed in. Link and
session are 256 random bits each; the store keeps only their SHA-256, so that a copy of
the store opens nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dispatcher.core.errors import DispatcherError
from dispatcher.core.log import get_logger
from dispatcher.store import Store
from dispatcher.store import access as rows

SECOND: Final = 1_000_000
LINK_SECONDS: Final = 600
IDLE_SECONDS: Final = 30 * 60
SESSION_SECONDS: Final = 12 * 3600
TOUCH_SECONDS: Final = 60
"""A session's last use is stored to the minute: not every request writes."""

_SECRET_BYTES: Final = 32
_LONGEST: Final = 64  # characters; ours have 43
_KEPT_SECONDS: Final = 30 * 86_400

_log = get_logger("access")


@dataclass(frozen=True)
class Operator:
    """A signed-in operator.

    Attributes
    ----------
    name : str
        For the audit log: ``console:`` and eight digits of the session's digest.
    form_token : str
        Token in the forms of this session (CSRF).
    ends_at : int
        Time at which the session ends in any case.
    """

    name: str
    form_token: str
    ends_at: int

    def sent(self, form_token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode())


def make_link(store: Store, now: int) -> str:
    """Create a secret that signs in once, within ten minutes."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    with store.write() as tx:
        rows.forget_before(tx, now - _KEPT_SECONDS * SECOND)
        rows.put_link(tx, _digest("link", secret), now, now + LINK_SECONDS * SECOND)
        rows.note(tx, now, "command", "console.link")
    return secret


def sign_in(store: Store, secret: str, now: int) -> str | None:
    """Consume a link and open a session.

    Parameters
    ----------
    store : Store
    secret : str
        The submitted secret of the link, unchecked.
    now : int

    Returns
    -------
    str or None
        The session's own secret, for its cookie; None if the link is invalid: unknown,
        expired, or used. The reason is not disclosed.
    """
    if not 0 < len(secret) <= _LONGEST:
        _log.warning("console.denied")
        return None
    session = secrets.token_urlsafe(_SECRET_BYTES)
    digest = _digest("session", session)
    with store.write() as tx:
        good = rows.use_link(tx, _digest("link", secret), now)
        if good:
            rows.open_session(tx, digest, now)
            rows.note(tx, now, _name(digest), "console.sign-in")
    if not good:
        _log.warning("console.denied")
        return None
    _log.info("console.sign-in", actor=_name(digest))
    return session


def sign_in_link(base: str, secret: str) -> str:
    """Return a sign-in link; the part after ``#`` reaches no server's log.

    Parameters
    ----------
    base : str
        URL of the console: ``http://127.0.0.1:8420``.
    secret : str
        From :func:`make_link`.
    """
    return f"{base.rstrip('/')}/login#k={secret}"


def operator(
    store: Store, secret: str, now: int, *, acting: bool = True
) -> Operator | None:
    """Return the operator of a session's secret.

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
        hours old. A clock that went back before its beginning ends it too.
    """
    if not 0 < len(secret) <= _LONGEST:
        return None
    digest = _digest("session", secret)
    with store.read() as tx:
        found = rows.session(tx, digest)
    if found is None or found.ended_at is not None:
        return None
    ends_at = found.opened_at + SESSION_SECONDS * SECOND
    idle_at = found.seen_at + IDLE_SECONDS * SECOND
    if not found.opened_at <= now < min(ends_at, idle_at):
        return None
    if acting and now - found.seen_at >= TOUCH_SECONDS * SECOND:
        with suppress(DispatcherError), store.write() as tx:  # busy: then next time
            rows.touch_session(tx, digest, now)
    return Operator(_name(digest), _digest("form", secret)[:32], ends_at)


def sign_out(store: Store, secret: str, now: int) -> None:
    """End the session of a secret; its cookie is invalid from now on."""
    digest = _digest("session", secret)
    with store.write() as tx:
        if rows.end_sessions(tx, now, digest):
            rows.note(tx, now, _name(digest), "console.sign-out")
            _log.info("console.sign-out", actor=_name(digest))


def sign_everybody_out(store: Store, now: int) -> int:
    """End all sessions, and all links that were not used; return how many sessions."""
    with store.write() as tx:
        rows.end_links(tx, now)
        ended = rows.end_sessions(tx, now)
        rows.note(tx, now, "command", "console.sign-out-all")
    return ended


def _digest(use: str, secret: str) -> str:
    text = f"console\0{use}\0{secret}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _name(digest: str) -> str:
    return f"console:{digest[:8]}"
