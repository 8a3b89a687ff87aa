"""Names in the spool: accounts and keys as directory names."""

from __future__ import annotations

from hashlib import blake2b
from urllib.parse import unquote

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

MAX_DIRECTORY = 150
MAX_KEY = 40
_BATCH = "batch-"


def directory_of(account: str) -> str:
    """Name the directory of an account: reversible, ASCII, never hidden or nested.

    Every byte of the UTF-8 text outside ``A-Za-z0-9_-`` becomes ``%XX``, so a slash,
    an emoji, ``..`` or a trailing space cannot leave the spool or meet another
    account's directory.
    """
    return "".join(
        chr(byte) if byte in _SAFE else f"%{byte:02X}"
        for byte in account.encode("utf-8", "surrogatepass")
    )


def account_of(directory: str) -> str:
    """Give the account back that :func:`directory_of` encoded."""
    return unquote(directory, encoding="utf-8", errors="surrogatepass")


def batch_of(key: str) -> str:
    """Name the batch directory of an idempotency key; the same for ever.

    The key can be read from it, unless it is long; then a digest stands for it.
    """
    spelt = directory_of(key)
    if len(spelt) > MAX_KEY:
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16)
        spelt = f".{digest.hexdigest()}"
    return f"{_BATCH}{spelt}"


def key_of(batch: str) -> str:
    """Give the key back that :func:`batch_of` named; empty if it is none, or a digest."""
    spelt = batch.removeprefix(_BATCH)
    named = spelt != batch and not spelt.startswith(".")
    return account_of(spelt) if named else ""
