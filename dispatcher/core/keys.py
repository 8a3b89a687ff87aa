"""Opaque keyed names, and sealed values. No SQL here.

* A **pseudonym** is the name of a record, an entry or a subject in ledger and evidence:
  an HMAC of its key, so that equal keys give equal names and nobody can invert it
  without the store's key.
* A **task token** is the public name of a task: one AES block over (id, zeros). It
  needs no index, two tokens cannot be linked, and a forged one does not decrypt to
  zeros (chance 2^-64).
* An **offer key** is the public name of a message of the outbox, made in the same way
  under its own key: two stores that share a bucket, a folder or a market never use one
  key for two messages, and each knows its own from the other's.
* A **sealed value** is a value of a record as stored: AES-GCM under a data key of its
  subject, bound to its column and row.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
"""Length of every secret of a store."""

NONCE_BYTES: Final = 12
SEAL_BYTES: Final = NONCE_BYTES + 16
"""Overhead of a sealed value in bytes: the nonce, and GCM's tag."""
"""Length of the random number before each sealed value."""

_UNSEEN: Final = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")
_TOKEN_CHARS: Final = 32
_NAME_CHARS: Final = 24  # 96 bits: no collision to expect below 10^13 records
_PSEUDONYM: Final = re.compile(rf"[a-z][0-9a-f]{{{_NAME_CHARS}}}")


class BadSeal(Exception):
    """A sealed value cannot be opened: wrong key, wrong place, or it was changed."""


def pseudonym(key: bytes, kind: str, value: str | bytes) -> str:
    """Return the keyed name of one thing.

    Parameters
    ----------
    key : bytes
        The store's pseudonym key.
    kind : str
        One letter, the sort of thing: ``r`` record, ``s`` subject, ``v`` place,
        ``f`` functions of a version.
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
    """Return the keyed names of many things of one kind, see :func:`pseudonym`."""
    own = hashlib.sha256(b"pseudonym\0" + kind.encode() + b"\0" + key).digest()
    mac = hmac.digest
    return [
        kind
        + mac(own, v if isinstance(v, bytes) else v.encode(), "sha256").hex()[
            :_NAME_CHARS
        ]
        for v in values
    ]


def is_pseudonym(text: str) -> bool:
    """Whether a text has the form of a pseudonym."""
    return _PSEUDONYM.fullmatch(text) is not None


def folded(key: str) -> str:
    """Return the form that all spellings of a key have in common.

    It ignores case, spaces, invisible characters and leading zeros of numbers, and
    normalises Unicode.

    >>> folded(" RX-007") == folded("rx-7")
    True
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", key).casefold())
    seen = "".join(c for c in text if unicodedata.category(c) not in _UNSEEN)
    return _ZEROS.sub("", seen)


def spelled(key: bytes, kind: str, value: str) -> str:
    """Return the keyed name common to all spellings of a record's or subject's key.

    Begins with the kind in upper case; see :func:`pseudonym` and :func:`folded`.
    """
    return pseudonym(key, kind.upper(), folded(value))


def entry_name(record: str, field_id: int) -> str:
    """Ledger name of an entry: its record's pseudonym and the field's number."""
    return f"{record}.{field_id}"


def _cipher(key: bytes) -> Cipher[modes.ECB]:
    # One block of distinct plaintext is a permutation: ECB reveals no repetition.
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


def offer_key(key: bytes, message_id: int) -> str:
    """Return a message's idempotency key: 32 hex digits, unique to this store.

    A restored store has the same keys, and so finds what was sent before. Shorter than
    any market's limit (MTurk takes 64 characters).
    """
    return task_token(_for_offers(key), message_id)


def message_id_of(key: bytes, offer_key: str) -> int | None:
    """Return the outbox id behind an offer key; None for one of another store."""
    return task_id_of(_for_offers(key), offer_key)


def _for_offers(key: bytes) -> bytes:
    return hashlib.sha256(b"offer\0" + key).digest()


# -- values ------------------------------------------------------------------------


def data_cipher(key: bytes) -> AESGCM:
    """Cipher of a data key (32 bytes), for :func:`seal` and :func:`unseal`."""
    return AESGCM(key)


def place_of(column: str, row_id: int) -> bytes:
    """Return the associated data of a sealed value: its column and row id.

    Parameters
    ----------
    column : str
        ``TABLE.COLUMN``.
    row_id : int
        The row's own id, so that no value can be moved to another row unnoticed.
    """
    return f"{column}:{row_id}".encode()


def seal(cipher: AESGCM, place: bytes, value: bytes, nonce: bytes) -> bytes:
    """Encrypt one value: the nonce (12 bytes, never reused), then AES-GCM's output.

    :data:`SEAL_BYTES` longer than the value.
    """
    return nonce + cipher.encrypt(nonce, value, place)


def unseal(cipher: AESGCM, place: bytes, sealed: bytes) -> bytes:
    """Decrypt one value.

    Raises
    ------
    BadSeal
        It was sealed with another key or for another place, or it was changed.
    """
    try:
        return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place)
    except (InvalidTag, ValueError):
        raise BadSeal from None
