"""Signed tokens: who a visitor of our own task page is, and until when.

Shape: ``v1.BODY.MAC``, both base64url without padding. BODY is compact JSON
``{"a": account, "t": ticket, "e": expiry in Unix seconds}``; MAC is HMAC-SHA-256 over
``v1.BODY``. Compared in constant time before anything of BODY is read.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from connectors.base import Arrival, Identity, Misconfigured, Rejected, Visit

MIN_KEY = 32
MAX_TOKEN = 4096


@dataclass(frozen=True)
class Ticket:
    """What a token says.

    Attributes
    ----------
    account : str
    id : str
        Of the token; revocation is asked by it, elsewhere.
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


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _mac(key: bytes, signed: str) -> bytes:
    if len(key) < MIN_KEY:
        raise ValueError(f"the key has {len(key)} bytes, expected >= {MIN_KEY}")
    return hmac.digest(key, signed.encode(), "sha256")


def sign(key: bytes, ticket: Ticket) -> str:
    """Make the token of a ticket; URL-safe.

    Raises
    ------
    ValueError
        The key is shorter than 32 bytes.
    """
    body = {
        "a": ticket.account,
        "t": ticket.id,
        "e": int(ticket.expires.timestamp()),
    }
    signed = f"v1.{_encode(json.dumps(body, separators=(',', ':')).encode())}"
    return f"{signed}.{_encode(_mac(key, signed))}"


def read(key: bytes, token: str, now: datetime) -> Ticket:
    """Check a token and give its ticket.

    Raises
    ------
    Rejected
        Forged, damaged or expired. One wording for forged and damaged.
    """
    signed, _, mac = token.rpartition(".")
    well_formed = len(token) <= MAX_TOKEN and token.isascii()
    expected = _encode(_mac(key, signed if well_formed else ""))
    if not well_formed or not hmac.compare_digest(expected, mac):
        raise Rejected(
            "the link is not valid",
            why="its signature does not fit",
            fix="ask for a new invitation",
        )
    ticket = _ticket(signed.removeprefix("v1."))
    if now >= ticket.expires:
        raise Rejected(
            "the link has expired",
            why=f"it was valid until {ticket.expires:%Y-%m-%d %H:%M} UTC",
            fix="ask for a new invitation",
        )
    return ticket


def check_key(key: bytes, fix: str) -> bytes:
    """Return a signing key that is long enough; `fix` says how to come by one.

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
    """Make a word of 32 hex digits that says nothing of its parts without the key."""
    return hmac.digest(key, "\0".join(parts).encode(), "sha256").hex()[:32]


def token_and_key(secret: bytes, kind: str) -> tuple[str, bytes]:
    """Read a secret of two lines: the outside's token, and a key of ours in hex.

    Raises
    ------
    Misconfigured
        It has another shape; nothing of it is told.
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

    A subclass has the key, of at least 32 bytes, and what is told to who comes without
    a link.
    """

    _key: bytes
    _why: ClassVar[str]
    _fix: ClassVar[str]

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Resolve a visitor by the signed token in parameter ``token``.

        Whether the token was revoked is asked elsewhere, by ``Arrival.ticket``.

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
        """Sign the code of a personal link; nothing of it goes to the market."""
        return sign(self._key, Ticket(account, ticket, expires))


def _ticket(body: str) -> Ticket:
    """Read what we signed ourselves; another version's body is refused."""
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        said = json.loads(raw)
        expires = datetime.fromtimestamp(int(said["e"]), UTC)
        return Ticket(str(said["a"]), str(said["t"]), expires)
    except (binascii.Error, ValueError, TypeError, LookupError, OverflowError):
        raise Rejected(
            "the link is of another version", fix="ask for a new invitation"
        ) from None
