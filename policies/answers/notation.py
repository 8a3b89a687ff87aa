"""Read numbers, dates and text in the notations that people use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Final

MAX_DIGITS = 30


DECIMALS: Final[Mapping[str, str]] = {"comma": ",", "point": "."}
"""Decimal separators, by their names."""
IGNORED: Final = ("accents", "case", "punctuation", "width")
"""Differences between texts that a field may ignore."""


def agreed(text: str, ignore: Collection[str] = ()) -> str:
    """Return the form in which texts that agree are equal.

    Texts agree if they look the same: composed or not, with any spaces between their
    words and any invisible characters. Further differences to ignore are declared:
    ``10²`` is not ``102``, and ``Mg`` is not ``mg``.

    Parameters
    ----------
    text : str
    ignore : collection of str
        Names from :data:`IGNORED`.
    """
    if "width" in ignore:
        text = "".join(map(_narrow, text))
    if "case" in ignore:
        text = text.lower()
    if "accents" in ignore:
        apart = unicodedata.normalize("NFD", text)
        text = "".join(c for c in apart if unicodedata.category(c) != "Mn")
    if "punctuation" in ignore:
        text = "".join(c for c in text if unicodedata.category(c)[0] != "P")
    text = unicodedata.normalize("NFC", text)
    seen = "".join(c for c in text if c.isspace() or unicodedata.category(c) != "Cf")
    return " ".join(seen.split())


def fold(text: str) -> str:
    """Fold case and width of a known word (a choice, a month, yes)."""
    return agreed(text, ("case", "width"))


def _narrow(char: str) -> str:
    wide = unicodedata.decomposition(char).startswith(("<wide>", "<narrow>"))
    return unicodedata.normalize("NFKC", char) if wide else char


class Unreadable(str):
    """Why a text is no number or no date; it does not repeat the text."""

    __slots__ = ()


@dataclass(frozen=True)
class Notation:
    """How a language and region writes numbers and dates.

    Attributes
    ----------
    decimal, order : str or None
        Keys of :data:`DECIMALS` and :data:`ORDERS`. None: not fixed, so what could be
        two numbers or two days is refused.
    months : Mapping[str, int]
        Number by name, whole or short, folded.
    """

    decimal: str | None = None
    order: str | None = None
    months: Mapping[str, int] = dataclass_field(default_factory=dict)


ORDERS: Final = ("dmy", "mdy", "ymd")
"""Orders of day, month and year in a date written in numbers."""


@cache
def notation_of(locale: str) -> Notation:
    """Notation of a locale, as the Unicode Common Locale Data Repository has it.

    Parameters
    ----------
    locale : str
        A language, with a region where it matters: ``de``, ``de-CH``, ``es-MX``.

    Raises
    ------
    ValueError
        There is no such locale.
    """
    # most policies declare none, and the data of locales are slow to load
    from babel import Locale, UnknownLocaleError
    from babel.numbers import get_decimal_symbol

    try:
        known = Locale.parse(locale, sep="-")
    except (UnknownLocaleError, TypeError) as unknown:
        raise ValueError(str(unknown)) from unknown
    sign = get_decimal_symbol(known, numbering_system="latn")
    pattern = known.date_formats["short"].pattern
    places = {part: pattern.lower().find(part) for part in "dmy"}
    order = "".join(sorted(places, key=lambda part: places[part]))
    months = {
        _folded_name(name): number
        for context in ("format", "stand-alone")
        for width in ("wide", "abbreviated")
        for number, name in known.months[context][width].items()
    }
    return Notation(
        next((name for name, written in DECIMALS.items() if written == sign), None),
        order if order in ORDERS else None,
        months,
    )


def _folded_name(name: str) -> str:
    return agreed(name, ("accents", "case", "width")).strip(".")


_NUMBER = re.compile(r"([+-]?)([0-9]+(?:[.,' ][0-9]+)*|[.,][0-9]+)")
_DASHES = str.maketrans({"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-"})
_SPACES = str.maketrans(dict.fromkeys("\u2019\u02bc\u066c_", "'"))


def _digits(text: str) -> str:
    """Replace decimal digits of any script by 0 to 9, and dashes by plain ones."""
    plain = "".join(map(_narrow, text)).translate(_DASHES)
    plain = plain.translate(_SPACES).replace("\u066b", ".")
    return "".join(
        str(unicodedata.decimal(char)) if char.isdecimal() else char for char in plain
    )


def read_number(raw: str, decimal: str | None = None) -> Decimal | Unreadable:
    """Read a number as it is written; return the reason as text if it is not one.

    Decimals are kept as written (``12.50``), leading zeros are dropped.

    Parameters
    ----------
    raw : str
    decimal : str, optional
        The decimal separator, ``comma`` or ``point``; the other one groups thousands.
        None: the later of two kinds of separators is the decimal one, one that occurs
        twice groups thousands, and a single one before exactly three digits
        (``1,234``) is ambiguous and refused, unless nothing or zero precedes it.
    """
    found = _NUMBER.fullmatch(" ".join(_digits(raw).split()))
    if found is None:
        return Unreadable("not a number: write it with digits, as in -1234.5")
    sign = _decimal_sign(found[2]) if decimal is None else DECIMALS[decimal]
    if sign is None:
        return Unreadable(
            "thousands or decimals? Leave out the sign between thousands, or add a "
            "zero to the decimals"
        )
    split = _split_number(found[2], sign)
    if split is None:
        return Unreadable("not a number: its groups of digits do not fit")
    whole, decimals = split
    if len(whole) + len(decimals) > MAX_DIGITS:
        return Unreadable("more than 30 digits")
    value = Decimal(f"{whole}.{decimals}" if decimals else whole)
    return value.copy_negate() if found[1] == "-" and value else value


def _decimal_sign(text: str) -> str | None:
    """Return the decimal separator, empty if there are no decimals; None if ambiguous."""
    signs = [char for char in text if char in ",."]
    if not signs or (signs.count(signs[-1]) > 1):
        return ""
    before, _, after = text.rpartition(signs[-1])
    single = len(signs) == 1 and len(after) == 3 and before.isdigit()
    return None if single and 1 <= len(before.lstrip("0")) <= 3 else signs[-1]


def _split_number(text: str, decimal: str) -> tuple[str, str] | None:
    """Split into the integer part without leading zeros, and the decimals."""
    whole, decimals = text, ""
    if decimal and decimal in text:
        whole, _, decimals = text.rpartition(decimal)
    grouping = {char for char in whole if not char.isdigit()}
    if len(grouping) > 1 or decimal in grouping or not (decimals or "0").isdigit():
        return None
    if grouping:
        first, *rest = whole.split(grouping.pop())
        if not 1 <= len(first) <= 3 or any(len(group) != 3 for group in rest):
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
# a name is written in any script; behind a day may stand how it is counted
_D_NAME_Y = re.compile(
    r"(\d{1,2})(?:st|nd|rd|th|er|[ºª])?[-/. ]*([^\d\s.,/-]+)[-/., ]*(\d{4})"
)
_NAME_D_Y = re.compile(r"([^\d\s.,/-]+)[-/. ]*(\d{1,2})(?:st|nd|rd|th)?[-/., ]+(\d{4})")
_Y_NAME_D = re.compile(r"(\d{4})[-/. ]*([^\d\s.,/-]+)[-/. ]*(\d{1,2})")
_SHORT_YEAR = re.compile(r"\d{1,2}([-/. ])\d{1,2}\1\d{2}")
_CJK: Final = re.compile("[年月년월] ?")
_OF: Final = re.compile(" (?:of|de|del) ")


def read_date(
    raw: str, order: str | None = None, months: Mapping[str, int] | None = None
) -> date | Unreadable:
    """Read a date as it is written; return the reason as text if it is not one.

    ISO order and English names of months are always read.

    Parameters
    ----------
    raw : str
    order : str, optional
        Order of day, month and year in numbers: ``dmy``, ``mdy`` or ``ymd``. None: a
        dot means day first, and a number above 12 is a day; ``03/04/2026`` is ambiguous
        and refused.
    months : Mapping[str, int], optional
        Further names of months, as :class:`Notation` has them.
    """
    text = _CJK.sub("-", fold(_digits(raw)).rstrip("日일"))
    parts = _date_parts(_OF.sub(" ", text), order, months or {})
    if isinstance(parts, Unreadable):
        return parts
    try:
        return date(*parts)
    except ValueError:
        return Unreadable("there is no such day")


def _date_parts(
    text: str, order: str | None, months: Mapping[str, int]
) -> tuple[int, int, int] | Unreadable:
    unclear = Unreadable("not a date: write year-month-day, as in 2026-01-31")
    if found := _YMD.fullmatch(text):
        year, _, month, day = found.group(1, 2, 3, 4)
        if year is None:
            year, month, day = found.group(5, 6, 7)
        return int(year), int(month), int(day)
    if found := _DMY.fullmatch(text):
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        if order is not None:
            return (year, first, second) if order == "mdy" else (year, second, first)
        return _day_and_month(first, second, year, found[2])
    for pattern, places in ((_D_NAME_Y, "dny"), (_NAME_D_Y, "ndy"), (_Y_NAME_D, "ynd")):
        if found := pattern.fullmatch(text):
            by = dict(zip(places, found.groups(), strict=True))
            month_number = months.get(_folded_name(by["n"])) or _month(by["n"])
            if month_number is None:
                return unclear
            return int(by["y"]), month_number, int(by["d"])
    century = Unreadable("which century? Write the year with four digits")
    return century if _SHORT_YEAR.fullmatch(text) else unclear


def _day_and_month(
    first: int, second: int, year: int, separator: str
) -> tuple[int, int, int] | Unreadable:
    if separator == "." or first > 12 or first == second:
        return year, second, first
    if second > 12:
        return year, first, second
    return Unreadable("day or month first? Write year-month-day, as in 2026-01-31")


def _month(name: str) -> int | None:
    if name == "sept":
        return 9
    for number, full in enumerate(_MONTHS, start=1):
        if name in (full, full[:3]):
            return number
    return None
