"""Names in the spool: accounts and keys as directory names."""

from __future__ import annotations

from hashlib import blake2b
from urllib.parse import unquote

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

MAX_DIRECTORY = 150


def directory_of(account: str) -> str:
    """Name the directory of an account: reversible, ASCII, never hidden or nested.

    Every byte of the UTF-8 text outside ``A-Za-z0-9_-`` becomes ``%XX``, so a slash,
    an emoji, ``..`` or a trailing space can not leave the spool or meet another
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
    """Name the batch directory of an idempotency key; the same for ever."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16)
    return f"batch-{digest.hexdigest()}"
