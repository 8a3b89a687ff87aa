"""Text that can do nothing to a terminal, a log or a line of a table."""

from __future__ import annotations

import unicodedata
from typing import Final

LONGEST_LINE: Final = 600
_MOVING: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # they turn the direction of the text that follows them


def plain(text: str, *, lines: bool = False) -> str:
    """Write control characters, lone surrogates and turns of direction as escapes.

    Parameters
    ----------
    text : str
        Names of files, columns and keys may stand in it: any text at all.
    lines : bool
        Keep line ends, and tabs.
    """
    kept = "\n\t" if lines else ""
    return "".join(
        sign if sign in kept or sign.isprintable() else _escaped(sign) for sign in text
    )


def cut(text: str) -> str:
    """Leave out the middle of lines that are longer than a screen."""
    return "\n".join(
        line
        if len(line) <= LONGEST_LINE
        else f"{line[: LONGEST_LINE - 100]} ... {line[-100:]}"
        for line in text.split("\n")
    )


def _escaped(sign: str) -> str:
    if unicodedata.category(sign) in _MOVING or sign in _TURNING:
        return sign.encode("unicode_escape", "surrogatepass").decode("ascii")
    return sign
