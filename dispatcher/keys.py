"""Names that say nothing: keyed pseudonyms, task tokens, invites. No SQL here.

* A **pseudonym** is what ledger and evidence call a record, an entry or a subject: an
  HMAC of its key, so that equal keys give equal names and nobody without the store's
  key can go back.
* A **task token** is what the world calls a task: one AES block over (id, zeros). It
  needs no index, two tokens can not be told to belong together, and a forged one does
  not decrypt to zeros (chance 2^-64).
* An **invite** lets one account into the task page until it expires or its number is
  raised.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES: Final = 32
"""Length of every secret of a store."""

_TOKEN_CHARS: Final = 32
_NAME_CHARS: Final = 24  # 96 bits: no collision to expect below 10^13 records
_INVITE: Final = struct.Struct(">QIQ")
_MAC_BYTES: Final = 16


@dataclass(frozen=True)
class Invite:
    """What a valid invite says.

    Attributes
    ----------
    account_id : int
    number : int
        Holds while it is the account's own invite number (else it was revoked).
    expires_at : int
        Microseconds UTC.
    """

    account_id: int
    number: int
    expires_at: int


def pseudonym(key: bytes, kind: str, value: str | bytes) -> str:
    """Keyed name of one thing.

    Parameters
    ----------
    key : bytes
        The store's pseudonym key.
    kind : str
        One letter, the sort of thing: ``r`` record, ``s`` subject, ``v`` place.
        The name begins with it, and equal values of two kinds get unrelated names.
    value : str or bytes
        The thing's own key, never shown.

    Returns
    -------
    str
        The kind and 24 hex digits.
    """
    return pseudonyms(key, kind, (value,))[0]


def pseudonyms(key: bytes, kind: str, values: Iterable[str | bytes]) -> list[str]:
    """Keyed names of many things of one kind, see :func:`pseudonym`."""
    own = hashlib.sha256(b"pseudonym\0" + kind.encode() + b"\0" + key).digest()
    mac = hmac.digest
    return [
        kind
        + mac(own, v if isinstance(v, bytes) else v.encode(), "sha256").hex()[
            :_NAME_CHARS
        ]
        for v in values
    ]


def entry_name(record: str, field_id: int) -> str:
    """Ledger name of an entry: its record's pseudonym and the field's number."""
    return f"{record}.{field_id}"


def _cipher(key: bytes) -> Cipher[modes.ECB]:
    # One block of distinct plaintext is a permutation: nothing for ECB to repeat.
    return Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305


def task_token(key: bytes, task_id: int) -> str:
    """Opaque public name of a task: 32 hex digits."""
    return task_tokens(key, (task_id,))[0]


def task_tokens(key: bytes, task_ids: Sequence[int]) -> list[str]:
    """Opaque public names of many tasks, in order, in one pass of the cipher."""
    words = [0] * (2 * len(task_ids))
    words[::2] = task_ids
    blocks = struct.pack(f">{len(words)}Q", *words)
    encryptor = _cipher(key).encryptor()
    text = (encryptor.update(blocks) + encryptor.finalize()).hex()
    return [text[i : i + _TOKEN_CHARS] for i in range(0, len(text), _TOKEN_CHARS)]


def task_id_of(key: bytes, token: str) -> int | None:
    """Task id behind a token; None if the token was not made with this key."""
    if len(token) != _TOKEN_CHARS or token != token.lower():
        return None
    try:
        block = bytes.fromhex(token)
    except ValueError:
        return None
    if len(block) != _TOKEN_CHARS // 2:
        return None
    decryptor = _cipher(key).decryptor()
    task_id, zeros = struct.unpack(">QQ", decryptor.update(block))
    return int(task_id) if zeros == 0 and task_id < 2**63 else None


def invite_token(key: bytes, invite: Invite) -> str:
    """Signed text of an invite, fit for a URL fragment or path."""
    body = _INVITE.pack(invite.account_id, invite.number, invite.expires_at)
    return base64.urlsafe_b64encode(body + _sign(key, body)).decode().rstrip("=")


def read_invite(key: bytes, token: str, *, now: int) -> Invite | None:
    """Read an invite; None if it was not signed with this key or has expired."""
    try:
        raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    except ValueError:  # not ASCII, or not base64
        return None
    body, sign = raw[: _INVITE.size], raw[_INVITE.size :]
    if len(body) != _INVITE.size or not hmac.compare_digest(sign, _sign(key, body)):
        return None
    if base64.urlsafe_b64encode(raw).decode().rstrip("=") != token:
        return None  # one invite has one spelling
    invite = Invite(*_INVITE.unpack(body))
    return invite if invite.expires_at > now else None


def _sign(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, b"invite\0" + body, "sha256")[:_MAC_BYTES]
