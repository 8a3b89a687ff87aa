"""Whether an outsider's words quote what was to be shown, in whole or in part."""

from __future__ import annotations

from typing import Final

from connectors.errors import ConnectorError
from connectors.values import Offer

HEARD: Final = 500
"""Characters of an error that are kept."""

QUOTED: Final = 6
"""So many characters on end of a shown text, and words are taken to quote it."""


def heard(error: ConnectorError, offer: Offer | None) -> str:
    """Return a connector's words, or its error's type if they quote what was offered."""
    told = "".join(char if char.isprintable() else " " for char in error.what[:HEARD])
    for item in offer.items if offer is not None else ():
        if item.media_type.startswith("text/") and quotes(told, item.content or b""):
            return type(error).__name__
    return told


def quotes(words: str, content: bytes) -> bool:
    """Tell whether words hold a short text, or ``QUOTED`` characters of a long one.

    Letter case and how words are set apart make no difference. In doubt the answer is
    yes: words that are kept back can be looked up outside, a value cannot be unsaid.

    Parameters
    ----------
    words : str
        An error of a connector.
    content : bytes
        The shown form of a text, UTF-8.
    """
    said, shown = _folded(words), _folded(content.decode(errors="ignore"))
    if len(shown) <= QUOTED:
        return bool(shown) and shown in said
    return any(said[i : i + QUOTED] in shown for i in range(len(said) - QUOTED + 1))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
