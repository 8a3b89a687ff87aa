"""Canonical JSON and hash chains: what an auditor hashes again, byte for byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

NO_HASH: Final = "0" * 64
"""``prev`` of a chain's first line."""

_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False
)


def canonical(value: object) -> str:
    """Return canonical JSON: sorted keys, no spaces, Unicode unescaped."""
    return _ENCODER.encode(value)


def line_hash(prev: str, members: Mapping[str, object]) -> str:
    """Hash of a line.

    Parameters
    ----------
    prev : str
        Hash of the line before in the chain.
    members : Mapping[str, object]
        All members of the line but ``hash``; including ``prev``.

    Returns
    -------
    str
        SHA-256 of ``prev`` followed by the canonical form, in hex.
    """
    text = prev + canonical(members)
    return hashlib.sha256(text.encode()).hexdigest()
