"""Names in the spool: accounts and keys as directory names."""

from __future__ import annotations

from hashlib import blake2b
from urllib.parse import unquote

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

MAX_DIRECTORY = 150
MAX_KEY = 40
_BATCH = "batch-"


def directory_of(account: str) -> str:
    """Return the directory name of an account: reversible, ASCII, not hidden or nested.

    Every byte of the UTF-8 text outside ``A-Za-z0-9_-`` becomes ``%XX``, so a slash,
    an emoji, ``..`` or a trailing space can neither leave the spool nor collide with
    another account's directory.
    """
    return "".join(
        chr(byte) if byte in _SAFE else f"%{byte:02X}"
        for byte in account.encode("utf-8", "surrogatepass")
    )


def account_of(directory: str) -> str:
    """Return the account that :func:`directory_of` encoded."""
    return unquote(directory, encoding="utf-8", errors="surrogatepass")


def batch_of(key: str) -> str:
    """Return the batch directory of an idempotency key; it never changes.

    It contains the key, or a digest of a long key.
    """
    spelt = directory_of(key)
    if len(spelt) > MAX_KEY:
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16)
        spelt = f".{digest.hexdigest()}"
    return f"{_BATCH}{spelt}"


def key_of(batch: str) -> str:
    """Return the key of a batch's name; empty for a digest, or if it is no batch."""
    spelt = batch.removeprefix(_BATCH)
    named = spelt != batch and not spelt.startswith(".")
    return account_of(spelt) if named else ""
