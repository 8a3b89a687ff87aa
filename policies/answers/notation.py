"""Reading numbers, dates and text in the notations that people use."""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from decimal import Decimal

MAX_DIGITS = 30


def fold(text: str) -> str:
    """Normalise what does not change the meaning: NFKC, case, spaces, invisible signs."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFKC", folded)
    seen = "".join(c for c in folded if c.isspace() or unicodedata.category(c) != "Cf")
    return " ".join(seen.split())


_NUMBER = re.compile(r"([+-]?)([0-9]+(?:[.,' ][0-9]+)*|[.,][0-9]+)")
_DASHES = str.maketrans({"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-"})
_SPACES = str.maketrans(dict.fromkeys("\u2019\u02bc\u066c_", "'"))


def _digits(text: str) -> str:
    """Replace decimal digits of any script by 0 to 9, and dashes by plain ones."""
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES)
    plain = plain.translate(_SPACES).replace("\u066b", ".")
    return "".join(
        str(unicodedata.decimal(char)) if char.isdecimal() else char for char in plain
    )


def read_number(raw: str) -> Decimal | str:
    """Read a number in any common notation; return the reason as text if it is none.

    Of two kinds of separators the last is the decimal one; one that stands twice groups
    thousands. A single comma before exactly three digits groups (``1,234``), unless
    nothing or zero stands before it; a single point is always decimal. Decimals are
    kept as written (``12.50``), leading zeros are not.
    """
    found = _NUMBER.fullmatch(" ".join(_digits(raw).split()))
    if found is None:
        return "not a number: write digits only, as in -1234.5"
    split = _split_number(found[2])
    if split is None:
        return "not a number: its groups of digits do not fit"
    whole, decimals = split
    if len(whole) + len(decimals) > MAX_DIGITS:
        return f"more than {MAX_DIGITS} digits"
    value = Decimal(f"{whole}.{decimals}" if decimals else whole)
    return value.copy_negate() if found[1] == "-" and value else value


def _split_number(text: str) -> tuple[str, str] | None:
    """Split into the whole part without leading zeros and the decimals."""
    marks = [char for char in text if not char.isdigit()]
    kinds = set(marks)
    decimal = ""
    if kinds & set(".,"):
        last = marks[-1]
        alone = marks.count(last) == 1
        before, _, after = text.rpartition(last)
        groups = last == "," and len(kinds) == 1 and len(after) == 3
        groups = groups and before.lstrip("0") != "" and len(before) <= 3
        if last in ".," and alone and not groups:
            decimal = last
    whole, _, decimals = text.partition(decimal) if decimal else (text, "", "")
    grouping = [char for char in whole if not char.isdigit()]
    if len(set(grouping)) > 1:
        return None
    if grouping:
        first, *rest = whole.split(grouping[0])
        if len(first) > 3 or any(len(group) != 3 for group in rest):
            return None
        whole = first + "".join(rest)
    return whole.lstrip("0") or "0", decimals


_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_YMD = re.compile(r"(\d{4})([-/. ])(\d{1,2})\2(\d{1,2})|(\d{4})(\d\d)(\d\d)")
_DMY = re.compile(r"(\d{1,2})([-/. ])(\d{1,2})\2(\d{4})")
_D_NAME_Y = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[-/. ]*([a-z]+)[-/., ]*(\d{4})")
_NAME_D_Y = re.compile(r"([a-z]+)[-/. ]*(\d{1,2})(?:st|nd|rd|th)?[-/., ]+(\d{4})")
_Y_NAME_D = re.compile(r"(\d{4})[-/. ]*([a-z]+)[-/. ]*(\d{1,2})")


def read_date(raw: str) -> date | str:
    """Read a date; return the reason as text if it is none.

    ISO order, day first or month first where only one fits, English names of months.
    Day and month are told apart by a dot (day first), a name, or a number above 12;
    ``03/04/2026`` could be two days, so it is refused rather than guessed.
    """
    parts = _date_parts(fold(_digits(raw)).replace(" of ", " "))
    if isinstance(parts, str):
        return parts
    try:
        return date(*parts)
    except ValueError:
        return "there is no such day"


def _date_parts(text: str) -> tuple[int, int, int] | str:
    unclear = "not a date: write year-month-day, as in 2026-01-31"
    if found := _YMD.fullmatch(text):
        year, _, month, day = found.group(1, 2, 3, 4)
        if year is None:
            year, month, day = found.group(5, 6, 7)
        return int(year), int(month), int(day)
    if found := _DMY.fullmatch(text):
        return _day_and_month(int(found[1]), int(found[3]), int(found[4]), found[2])
    for pattern, order in ((_D_NAME_Y, "dny"), (_NAME_D_Y, "ndy"), (_Y_NAME_D, "ynd")):
        if found := pattern.fullmatch(text):
            by = dict(zip(order, found.groups(), strict=True))
            month_number = _month(by["n"])
            if month_number is None:
                return unclear
            return int(by["y"]), month_number, int(by["d"])
    return unclear


def _day_and_month(
    first: int, second: int, year: int, separator: str
) -> tuple[int, int, int] | str:
    if separator == "." or first > 12 or first == second:
        return year, second, first
    if second > 12:
        return year, first, second
    return "day or month first? Write year-month-day, as in 2026-01-31"


def _month(name: str) -> int | None:
    if name == "sept":
        return 9
    for number, full in enumerate(_MONTHS, start=1):
        if name in (full, full[:3]):
            return number
    return None
