"""Who is at the page: a signed cookie, and the tokens that hang on it.

The cookie is a JSON Web Token with account, invite number, end and a random id; nothing
is stored here. Whether the account is still active and the invite number still valid is
asked of the store on every request, so a revoked worker is out at once.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
from dataclasses import asdict, dataclass
from typing import Final

from connectors.tickets import read_claims, sign_claims

_ID_BYTES: Final = 16  # 128 bits
ANONYMOUS: Final = 0


@dataclass(frozen=True)
class Session:
    """One browser.

    Attributes
    ----------
    account_id : int
        0 while nobody has arrived (such a session only guards the arrival form).
    number : int
        Invite number that it was opened with.
    ends_at : int
        Microseconds UTC.
    id : bytes
        16 random bytes, new at every arrival.
    """

    account_id: int
    number: int
    ends_at: int
    id: bytes

    @classmethod
    def open(cls, account_id: int, number: int, ends_at: int) -> Session:
        """Make a session with an id of its own."""
        return cls(account_id, number, ends_at, secrets.token_bytes(_ID_BYTES))


class Seals:
    """Signs sessions, form tokens and crop ids with keys derived from one secret."""

    def __init__(self, secret: bytes) -> None:
        self._keys = {
            use: hmac.digest(secret, b"taskpage\0" + use.encode(), "sha256")
            for use in ("session", "form", "crop")
        }

    def write(self, session: Session) -> str:
        """Cookie text of a session."""
        claims = {**asdict(session), "id": session.id.hex()}
        return sign_claims(self._keys["session"], claims)

    def read(self, cookie: str, now: int) -> Session | None:
        """Session of a cookie; None if it is forged, damaged or over."""
        claims = read_claims(self._keys["session"], cookie)
        if claims is None:
            return None
        session = Session(**{**claims, "id": bytes.fromhex(claims["id"])})
        return session if session.ends_at > now else None

    def form_token(self, session: Session) -> str:
        """What a form of this session carries."""
        return _text(self._mac("form", session.id)[:16])

    def form_fits(self, session: Session, token: str) -> bool:
        """Whether a form came from a page that this session was given."""
        expected = self.form_token(session)
        return hmac.compare_digest(expected.encode(), token.encode())

    def crop_id(self, session: Session, task_id: int) -> str:
        """Opaque name of a task's image, good for this session and task only."""
        body = struct.pack(">Q", task_id) + session.id
        return _text(self._mac("crop", body)[:18])

    def _mac(self, use: str, body: bytes) -> bytes:
        return hmac.digest(self._keys[use], body, "sha256")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
