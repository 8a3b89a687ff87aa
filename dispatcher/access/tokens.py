"""Tokens of the API: made once, kept as a digest, never more than their user may do."""

from __future__ import annotations

import hashlib
import hmac
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dispatcher.access.roles import (
    NOT_FOR_TOKENS,
    Principal,
    check_scopes,
    scopes_of,
)
from dispatcher.access.users import check_name, no_user
from dispatcher.core.errors import Conflict, DispatcherError, Invalid, NotFound
from dispatcher.core.log import get_logger
from dispatcher.model import ApiToken
from dispatcher.store import Store, people

DAY: Final = 86_400_000_000
MOST_DAYS: Final = 366
TOUCH: Final = 60_000_000
"""A token's last use is stored to the minute: not every request writes."""

BEGINNING: Final = "dsp_live_"
_SECRET_BYTES: Final = 32
_CHECK: Final = 8  # hex digits of the CRC at its end, for scanners of secrets
_CHARS: Final = len(BEGINNING) + 2 * _SECRET_BYTES + _CHECK
_SHOWN: Final = len(BEGINNING) + 6

_log = get_logger("access")


@dataclass(frozen=True)
class NewToken:
    """A token that was just made; ``secret`` is shown once and kept nowhere."""

    id: int
    name: str
    secret: str
    prefix: str
    scopes: frozenset[str]
    ends_at: int


def make_token(
    store: Store,
    name: str,
    scopes: Collection[str],
    now: int,
    *,
    days: int,
    entropy: Callable[[int], bytes],
    user: str | None = None,
) -> NewToken:
    """Make a token.

    Parameters
    ----------
    store : Store
    name : str
        What it is for; stands in the audit log.
    scopes : collection of str
    now : int
    days : int
        It ends after so many.
    entropy : callable
        Random bytes, fit for secrets.
    user : str, optional
        Whose it is: it may never do what that user may not, and ends with them.

    Raises
    ------
    Invalid
        A scope, the name or the time is not one that a token may have.
    NotFound
        There is no such user.
    Conflict
        The user may not do all of it, or is disabled.
    """
    wanted = check_scopes(scopes)
    check_name(name)
    if not 1 <= days <= MOST_DAYS:
        raise Invalid(
            f"a token cannot be valid for {days} days",
            why="a secret that lies somewhere must end some day",
            fix=f"give 1 to {MOST_DAYS} days, and make another one then",
        )
    body = BEGINNING + entropy(_SECRET_BYTES).hex()
    secret = body + _checksum(body)
    ends_at = now + days * DAY
    with store.write() as tx:
        user_id = None
        if user is not None:
            owner = people.user_named(tx, user, lock=True)
            if owner is None:
                raise no_user(user)
            beyond = sorted(wanted - scopes_of(owner.roles.split()))
            if owner.disabled_at is not None or beyond:
                raise Conflict(
                    f"{user} cannot have such a token",
                    why=f"the user may not do {beyond[0]}"
                    if beyond
                    else "the user is disabled",
                    fix="leave that scope out, or give the user a role that has it",
                )
            user_id = owner.id
        number = people.add_token(
            tx,
            name=name,
            digest=_digest(secret),
            prefix=secret[:_SHOWN],
            user_id=user_id,
            scopes=" ".join(sorted(wanted)),
            made_at=now,
            ends_at=ends_at,
        )
    return NewToken(number, name, secret, secret[:_SHOWN], wanted, ends_at)


def authenticate_token(store: Store, secret: str, now: int) -> Principal | None:
    """Return whoever a token stands for.

    Parameters
    ----------
    store : Store
    secret : str
        As it was sent, unchecked.
    now : int

    Returns
    -------
    Principal or None
        None if it is unknown, expired, revoked, or its user is disabled; the reason is
        not disclosed.
    """
    if len(secret) != _CHARS or not secret.isascii():
        return None
    if not hmac.compare_digest(_checksum(secret[:-_CHECK]), secret[-_CHECK:]):
        return None
    with store.read() as tx:
        found = people.token(tx, _digest(secret))
    if found is None or not _is_valid(found, now):
        return None
    scopes = frozenset(found.scopes.split()) - NOT_FOR_TOKENS
    if found.user_id is not None:
        if found.roles is None or found.disabled_at is not None:
            return None
        scopes &= scopes_of(found.roles.split())
    if found.used_at is None or now - found.used_at >= TOUCH:
        with suppress(DispatcherError), store.write() as tx:  # busy: then next time
            people.touch_token(tx, found.id, now)
    return Principal(
        f"token:{found.id}/{found.name}", "token", frozenset(), scopes, found.user_id
    )


def list_tokens(store: Store) -> list[ApiToken]:
    """All tokens, in the order in which they were made."""
    with store.read() as tx:
        return people.tokens(tx)


def revoke_token(store: Store, prefix: str, now: int) -> ApiToken:
    """End a token, given by its first characters or its number.

    Raises
    ------
    NotFound
        It is none of those that are valid.
    Conflict
        Several begin so.
    """
    with store.write() as tx:
        meant = [
            one
            for one in people.tokens(tx)
            if prefix in (str(one.id), one.prefix) and one.revoked_at is None
        ]
        if not meant:
            raise NotFound(
                "there is no valid token of this beginning",
                why="it was revoked, or never made here",
                fix="see them: dispatcher tokens list",
            )
        if len(meant) > 1:
            raise Conflict(
                f"{len(meant)} tokens begin so",
                why="the first characters are not enough to tell them apart",
                fix="give the number in the first column of: dispatcher tokens list",
            )
        people.revoke_token(tx, meant[0].id, now)
    _log.info("token.revoked", token=meant[0].id)
    return meant[0]


def _is_valid(found: people.FoundToken, now: int) -> bool:
    return found.revoked_at is None and found.made_at <= now < found.ends_at


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


def _digest(secret: str) -> str:
    return hashlib.sha256(b"api-token\0" + secret.encode()).hexdigest()
