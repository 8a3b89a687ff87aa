"""Cells of CSV files that people open in spreadsheets: the formula guard.

A cell that begins with ``= + - @``, a tab, a carriage return or NUL would be run as a
formula; a ``'`` before it makes it text. A cell that begins with ``'`` and then such a
sign gets one more, so taking one away gives every cell back exactly.
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r\0]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\0]")


def guard(cell: str) -> str:
    """Put ``'`` before a cell that a spreadsheet would run as a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """Undo :func:`guard` exactly: ``unguard(guard(cell)) == cell``."""
    return cell[1:] if _GUARDED.match(cell) else cell
