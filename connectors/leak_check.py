"""Check whether an outsider's message quotes the content of an offer, even in part."""

from __future__ import annotations

from typing import Final

from connectors.errors import ConnectorError
from connectors.values import Offer

HEARD: Final = 500
"""Characters of an error that are kept."""

QUOTED: Final = 6
"""Consecutive characters of a text from which a message counts as quoting it."""


def heard(error: ConnectorError, offer: Offer | None) -> str:
    """Return a connector's message, or only the error's type if it quotes the offer."""
    message = "".join(
        char if char.isprintable() else " " for char in error.what[:HEARD]
    )
    for item in offer.items if offer is not None else ():
        if item.media_type.startswith("text/") and quotes(message, item.content or b""):
            return type(error).__name__
    return message


def quotes(words: str, content: bytes) -> bool:
    """Whether a message contains a short text, or ``QUOTED`` characters of a long one.

    Case and separators between words are ignored. In doubt the result is True: a
    message that is suppressed can be looked up outside, a leaked value cannot be
    recalled.

    Parameters
    ----------
    words : str
        Error message of a connector.
    content : bytes
        The shown form of a text, UTF-8.
    """
    said, shown = _folded(words), _folded(content.decode(errors="ignore"))
    if len(shown) <= QUOTED:
        return bool(shown) and shown in said
    return any(said[i : i + QUOTED] in shown for i in range(len(said) - QUOTED + 1))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
