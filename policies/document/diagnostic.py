"""One diagnostic of a policy file: what is wrong, where, why, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

LONGEST_SHOWN: Final = 60
DECIMALS: Final = 6


class Severity(StrEnum):
    """Whether the file is refused (error) or only doubted (warning)."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, order=True)
class Span:
    """A place in the text: line and column from 1, in characters, and a length >= 1."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True)
class Diagnostic:
    """One diagnostic; its texts are ready to show (long values cut, controls escaped).

    Attributes
    ----------
    code : str
        ``POL`` and three digits, one documentation page each.
    severity : Severity
    message : str
        What is wrong.
    line, column : int
        From 1; columns in characters, a tab is one.
    mark : int
        Length of the mark in characters, >= 1.
    why, fix : str
        The reason, and how to mend it.
    """

    code: str
    severity: Severity
    message: str
    line: int
    column: int
    mark: int
    why: str
    fix: str


def escaped(text: str) -> str:
    """Return text on one line: control, format and line-breaking characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def shown(value: object) -> str:
    """Return a value or name of the file, escaped and cut to fit a line."""
    text = escaped(str(value))
    if len(text) <= LONGEST_SHOWN:
        return text
    return text[: LONGEST_SHOWN - 1] + "…"


def listed(names: object, most: int = 40) -> str:
    """Return names of the file as a list, cut after ``most``.

    Commas are between them, or semicolons where a name has a comma itself.
    """
    each = [shown(name) for name in names]  # type: ignore[attr-defined]
    if not each:
        return "none"
    between = "; " if any(", " in one for one in each[:most]) else ", "
    more = [f"… ({len(each) - most} more)"] if len(each) > most else []
    return between.join([*each[:most], *more])


def decimal(number: Fraction) -> str:
    """Return an exact decimal if it is short, else six rounded digits ("0.666667")."""
    for digits in range(DECIMALS + 1):
        scaled = number * 10**digits
        if scaled.denominator == 1:
            return _placed(scaled.numerator, digits)
    scaled_up = round(number * 10**DECIMALS)
    return _placed(scaled_up, DECIMALS) if scaled_up else f"{float(number):.3g}"


def _placed(scaled: int, digits: int) -> str:
    """Write ``scaled / 10 ** digits`` with that many digits after the point."""
    if not digits:
        return str(scaled)
    sign, text = "-" if scaled < 0 else "", str(abs(scaled)).rjust(digits + 1, "0")
    return f"{sign}{text[:-digits]}.{text[-digits:]}"
