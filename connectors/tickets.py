"""Signed tokens that identify a visitor of our own task page, until they expire.

A token is a JSON Web Token signed by HMAC-SHA-256: ``sub`` is the account, ``jti`` the
ticket's id, ``exp`` its expiry in Unix seconds. Nothing in it is trusted before the
signature is verified.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from connectors.base import Arrival, Identity, Misconfigured, Rejected, Visit

MIN_KEY = 32
MAX_TOKEN = 4096


@dataclass(frozen=True)
class Ticket:
    """The claims of a token.

    Attributes
    ----------
    account : str
    id : str
        The token's id, by which it can be revoked (elsewhere).
    expires : datetime
        UTC, whole seconds.
    """

    account: str
    id: str
    expires: datetime

    def __post_init__(self) -> None:
        if not self.account or not self.id:
            raise ValueError("a ticket needs an account and an id")
        if self.expires.tzinfo is None:
            raise ValueError(f"expires is {self.expires}, expected a zone")


def sign_claims(key: bytes, claims: Mapping[str, Any]) -> str:
    """Return a JSON Web Token (HS256) with these claims; URL-safe.

    Raises
    ------
    ValueError
        If the key is shorter than 32 bytes.
    """
    if len(key) < MIN_KEY:
        raise ValueError(f"the key has {len(key)} bytes, expected >= {MIN_KEY}")
    import jwt  # noqa: PLC0415 - heavy, and most commands sign nothing

    return jwt.encode(dict(claims), key, algorithm="HS256")


def read_claims(key: bytes, token: str) -> dict[str, Any] | None:
    """Return the claims of our token; None if it is forged, damaged or respelled.

    The token is compared with what we would sign, because base64 has several spellings
    of the same bytes. Its expiry is for the caller to check.
    """
    if len(token) > MAX_TOKEN or not token.isascii():
        return None
    import jwt  # noqa: PLC0415 - as above

    try:
        claims: dict[str, Any] = jwt.decode(
            token, key, algorithms=["HS256"], options={"verify_exp": False}
        )
    except jwt.PyJWTError:
        return None
    ours = hmac.compare_digest(sign_claims(key, claims), token)
    return claims if ours else None


def sign(key: bytes, ticket: Ticket) -> str:
    """Return the token of a ticket.

    Raises
    ------
    ValueError
        If the key is shorter than 32 bytes.
    """
    expires = int(ticket.expires.timestamp())
    return sign_claims(key, {"sub": ticket.account, "jti": ticket.id, "exp": expires})


def read(key: bytes, token: str, now: datetime) -> Ticket:
    """Verify a token and return its ticket.

    Raises
    ------
    Rejected
        Forged, damaged or expired. One message for forged and damaged.
    """
    claims = read_claims(key, token) or {}
    try:
        expires = datetime.fromtimestamp(claims["exp"], UTC)
        ticket = Ticket(claims["sub"], claims["jti"], expires)
    except (LookupError, TypeError, ValueError, OverflowError):
        raise Rejected(
            "the link is not valid",
            why="its signature does not fit",
            fix="ask for a new invitation",
        ) from None
    if now >= ticket.expires:
        raise Rejected(
            "the link has expired",
            why=f"it was valid until {ticket.expires:%Y-%m-%d %H:%M} UTC",
            fix="ask for a new invitation",
        )
    return ticket


def check_key(key: bytes, fix: str) -> bytes:
    """Return a signing key of sufficient length; `fix` says how to get one.

    Raises
    ------
    Misconfigured
    """
    if len(key) < MIN_KEY:
        raise Misconfigured(
            f"the signing key has {len(key)} bytes, {MIN_KEY} are needed", fix=fix
        )
    return key


def opaque(key: bytes, *parts: str) -> str:
    """Return 32 hex digits derived from the parts, meaningless without the key."""
    return hmac.digest(key, "\0".join(parts).encode(), "sha256").hex()[:32]


def token_and_key(secret: bytes, kind: str) -> tuple[str, bytes]:
    """Return a secret of two lines: the server's token, and a key of ours in hex.

    Raises
    ------
    Misconfigured
        If it has another form; the message has nothing of it.
    """
    try:
        token, key = secret.decode("ascii").split()
        return token, bytes.fromhex(key)
    except ValueError:
        raise Misconfigured(
            f"the secret of {kind} is not two lines",
            why="the first is the API token, the second the signing key in hex",
            fix='make a key: python -c "import secrets; print(secrets.token_hex(32))"',
        ) from None


class Linked:
    """A market whose workers come by personal links that this connector signs.

    A subclass has the key, of at least 32 bytes, and the message for visitors without a
    link.
    """

    _key: bytes
    _why: ClassVar[str]
    _fix: ClassVar[str]

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Identify a visitor by the signed token in parameter ``token``.

        Whether the token was revoked is checked elsewhere, by ``Arrival.ticket``.

        Raises
        ------
        Rejected
            No token, or one that is forged, damaged or expired.
        """
        token = visit.parameters.get("token", "")
        if not token:
            raise Rejected("there is no token", why=self._why, fix=self._fix)
        ticket = read(self._key, token, now)
        return Arrival(
            account=ticket.account,
            identity=Identity.SIGNED,
            ticket=ticket.id,
            expires=ticket.expires,
        )

    def invite(self, account: str, ticket: str, expires: datetime) -> str:
        """Sign the code of a personal link; nothing of it is sent to the market."""
        return sign(self._key, Ticket(account, ticket, expires))
