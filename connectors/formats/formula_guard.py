"""The formula guard for cells of CSV files that people open in spreadsheets.

A cell that begins with ``= + - @`` would be run as a formula; a ``'`` before it makes
it text. The same applies to other forms of these signs, which spreadsheets of East Asia
take for the ASCII ones (``＝``, ``－``), to a minus or a dash, and to blanks, controls
and invisible signs before such a sign, which programs drop; a tab, a line end or NUL is
guarded by itself. A cell that begins with ``'`` and then such a beginning gets one
more, so removing one restores every cell exactly.
"""

from __future__ import annotations

import re
from typing import Final

SIGNS: Final = (
    "=+\\-@"
    "\uff1d\uff0b\uff0d\uff20"  # full width
    "\ufe66\ufe62\ufe63\ufe6b"  # small
    "\u207c\u207a\u207b\u208c\u208a\u208b"  # raised and lowered
    "\u2212\u2010-\u2015\u2795\u2796"  # minus, dashes, heavy signs
)
DROPPED: Final = (
    r"\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
"""Blanks, controls and invisible signs."""
_BEGINNING: Final = rf"(?:[{DROPPED}]*[{SIGNS}]|[\t\r\n\0])"
_FORMULA = re.compile(rf"'*{_BEGINNING}")
_GUARDED = re.compile(rf"'+{_BEGINNING}")


def guard(cell: str) -> str:
    """Put ``'`` before a cell that a spreadsheet would run as a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """Undo :func:`guard` exactly: ``unguard(guard(cell)) == cell``."""
    return cell[1:] if _GUARDED.match(cell) else cell
