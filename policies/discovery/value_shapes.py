"""What the values of a column look like: dates, names, numbers with check digits.

A column has a shape if nearly all of its values have it. Numbers are checked by
python-stdnum: nine digits at random pass a check digit once in ten times, so that a
column of them does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import unescape
from importlib import import_module
from typing import Final

import numpy as np

from policies.discovery.coded_table import CodedColumn
from policies.discovery.column_names import (
    BANK_ACCOUNT,
    CARD,
    DEVICE,
    EMAIL,
    NATIONAL_ID,
    PHONE,
    Meaning,
    words_of,
)

IMAGE_ENDINGS: Final = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".pdf")
EXAMINED: Final = 2_000
"""Most different values of a column that are examined."""
ENOUGH: Final = 0.9
"""Share of values that makes a shape the column's."""
_COMBINED: Final = 12  # names from which on their words show how they are made
_AGAIN: Final = 0.8  # share of the names of which both words come again
LEAST_DIFFERENT: Final = 5
"""Different values that a check digit needs, to be more than chance."""

_NAME: Final = r"(?:[dl]['’])?[A-ZÀ-ÞŁŚŻŹĆŠŽ][\w'’.\-]*"
_PARTICLE: Final = r"van|von|vom|zu|de|der|den|del|della|di|da|das|do|dos|du|la|le|el|al|bin|ibn|ter|ten|'t|y|e"
_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    "DATE": re.compile(
        r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2}"
        r"|(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
    ),
    "TIME": re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.{0,20}"),
    "EMAIL": re.compile(r"[^\s@]+@[^\s@]+\.[^\s@.]+"),
    "URL": re.compile(r"[a-z]{2,10}://\S+", re.IGNORECASE),
    "SSN": re.compile(r"(?!000|666)\d{3}-\d{2}-\d{4}"),
    "PHONE": re.compile(r"[+(]\d[\d ().\-/]{5,20}\d|0\d{1,4}[ \-/]\d[\d \-/]{3,14}\d"),
    "IP": re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|(?:[0-9a-fA-F]{0,4}:){4,7}[0-9a-fA-F]{1,4}"),
    "UUID": re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE),
    "BOX": re.compile(r"\d{1,6},\s?\d{1,6},\s?\d{1,6},\s?\d{1,6}"),
    "US_ZIP": re.compile(r"\d{5}(?:-\d{4})?"),
    "POSTCODE": re.compile(
        r"\d{4} ?[A-Z]{2}|\d{2}-\d{3}|\d{5}-\d{3}|\d{4}-\d{3}|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}"
    ),
    "BOOLEAN": re.compile(r"true|false|yes|no|y|n", re.IGNORECASE),
    "INTEGER": re.compile(r"[-+]?(?:0|[1-9]\d*)"),
    "DECIMAL": re.compile(r"[-+]?(?:0|[1-9]\d*)?[.,]\d+(?:[eE][-+]?\d+)?"),
    "TITLED": re.compile(
        r"(?:Mrs?|Ms|Miss|Dr|Prof|Herr|Frau|Hr|Fr|Mme|Mlle|M|Sra?|Srta|Don|Dona|Doña|Mevr|mw|"
        r"dhr|lek|Pani?|Shri|Smt|Kumari)\.? \S.*",
        re.IGNORECASE,
    ),
    "PERSON": re.compile(
        rf"(?:{_NAME}\s?,?\s(?:(?:{_PARTICLE}) )*)"
        rf"{{1,4}}{_NAME}|[A-Z]+(?: [A-Z]\.?)* [A-Z]+"
    ),
}  # fmt: skip
_NUMBERS: Final = {
    "ES_DNI": "es.dni",
    "ES_NIE": "es.nie",
    "IT_CODICEFISCALE": "it.codicefiscale",
    "IN_PAN": "in_.pan",
    "FR_NIR": "fr.nir",
    "DE_IDNR": "de.idnr",
    "PL_PESEL": "pl.pesel",
    "BR_CPF": "br.cpf",
    "NL_BSN": "nl.bsn",
    "PT_NIF": "pt.nif",
    "IN_AADHAAR": "in_.aadhaar",
    "GB_NHS": "gb.nhs",
    "ISBN": "isbn",
    "EAN": "ean",
}
"""Shape -> module of stdnum; the longer the check, the earlier."""
_WRITTEN_DATE: Final = re.compile(
    r"\d{1,2}(?:\.|er|st|nd|rd|th)? (?:de )?([^\W\d]+)\.?,? (?:de )?\d{4}"
    r"|([^\W\d]+)\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}"
)
_SEX: Final = frozenset(
    [
        "m",
        "f",
        "w",
        "d",
        "x",
        "male",
        "female",
        "man",
        "woman",
        "mann",
        "frau",
        "herr",
        "mr",
        "mrs",
        "ms",
        "maennlich",
        "mannlich",
        "weiblich",
        "divers",
        "homme",
        "femme",
        "h",
        "masculin",
        "feminin",
        "hombre",
        "mujer",
        "masculino",
        "feminino",
        "femenino",
        "homem",
        "mulher",
        "vrouw",
        "v",
        "mannelijk",
        "vrouwelijk",
        "mezczyzna",
        "kobieta",
        "k",
        "purush",
        "mahila",
        "stri",
    ]
)
_ORGANISATION: Final = re.compile(
    r"\b(inc|llc|ltd|gmbh|ag|kg|corp|corporation|company|clinic|hospital|center|centre|medical|"
    r"services?|group|university|bank|associates|pc|sa|sarl|bv|nv|sp|sdn|bhd|llp|plc|"
    r"department|republic|kingdom|islands?|federation|agency|school|college|church|park|house|museum|insurance|health)\b",
    re.IGNORECASE,
)
MEANINGS: Final[Mapping[str, Meaning]] = {
    "EMAIL": EMAIL,
    "IBAN": BANK_ACCOUNT,
    "CARD": CARD,
    "SSN": NATIONAL_ID,
    "PHONE": PHONE,
    "IP": DEVICE,
    **{name: NATIONAL_ID for name in _NUMBERS if name not in ("ISBN", "EAN")},
    "DE_KVNR": NATIONAL_ID,
}
"""Shape -> what it says about the column, whatever its name is."""


@dataclass(frozen=True)
class ValueShape:
    """What the values of a column look like.

    Attributes
    ----------
    name : str
        Empty if they are of no one shape.
    share : float
        Share of the rows with a value that have it.
    shares : Mapping[str, float]
        The same for every shape.
    words : float
        Mean number of words of a value.
    """

    name: str
    share: float
    shares: Mapping[str, float]
    words: float


def _matches(name: str) -> Callable[[str], bool]:
    pattern = _PATTERNS[name]
    return lambda value: pattern.fullmatch(value) is not None


def _is_image(value: str) -> bool:
    return value.lower().endswith(IMAGE_ENDINGS)


def _is_iban(value: str) -> bool:
    if not (value[:2].isalpha() and value[2:4].isdecimal()):
        return False
    return bool(_validator("iban")(value))


def _is_card(value: str) -> bool:
    if len(value) < 13 or not value[0].isdecimal():
        return False
    digits = re.sub(r"[ -]", "", value)
    fits = 13 <= len(digits) <= 19 and digits.isdecimal()
    return fits and bool(_validator("luhn")(digits))


def _is_german_health_insurance(value: str) -> bool:
    """Whether a value is a German Krankenversichertennummer, by its check digit."""
    if not re.fullmatch(r"[A-Z]\d{9}", value, re.ASCII):
        return False
    digits = f"{ord(value[0]) - ord('A') + 1:02}{value[1:9]}"
    products = (int(c) * (1 + n % 2) for n, c in enumerate(digits))
    return sum(p // 10 + p % 10 for p in products) % 10 == int(value[9])


def _validator(module: str) -> Callable[[str], bool]:
    valid: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
    return valid


def _is_date(value: str) -> bool:
    if _PATTERNS["DATE"].fullmatch(value):
        return True
    found = _WRITTEN_DATE.fullmatch(value)
    month = next(filter(None, found.groups()), "") if found else ""
    return bool(month) and words_of(month) in _months()


@cache
def _months() -> frozenset[str]:
    """Return the names of months in the languages of column names."""
    from babel.dates import get_month_names

    return frozenset(
        words_of(name)
        for language in ("en", "de", "fr", "es", "pt", "nl", "pl", "hi_Latn")
        for width in ("wide", "abbreviated")
        for context in ("format", "stand-alone")
        for name in get_month_names(width, context, language).values()
    )


def _is_number(module: str) -> Callable[[str], bool]:
    def valid(value: str) -> bool:
        digits = sum(c.isdecimal() for c in value)
        return digits >= 4 and len(value) <= 24 and _validator(module)(value)

    return valid


def is_sex(value: str) -> bool:
    """Whether a value is a word for a sex."""
    return words_of(value) in _SEX


SHAPES: Final[Mapping[str, Callable[[str], bool]]] = {
    "IMAGE": _is_image,
    "EMAIL": _matches("EMAIL"),
    "IBAN": _is_iban,
    "CARD": _is_card,
    "SSN": _matches("SSN"),
    "URL": _matches("URL"),
    "TIME": _matches("TIME"),
    "DATE": _is_date,
    "UUID": _matches("UUID"),
    "IP": _matches("IP"),
    "PHONE": _matches("PHONE"),
    "BOX": _matches("BOX"),
    **{name: _is_number(module) for name, module in _NUMBERS.items()},
    "DE_KVNR": _is_german_health_insurance,  # python-stdnum has none
    "US_ZIP": _matches("US_ZIP"),
    "POSTCODE": _matches("POSTCODE"),
    "SEX": is_sex,
    "BOOLEAN": _matches("BOOLEAN"),
    "INTEGER": _matches("INTEGER"),
    "DECIMAL": _matches("DECIMAL"),
    "PERSON": _matches("PERSON"),
    "TITLED": _matches("TITLED"),
}
"""Shape -> whether one value has it; the first that nearly all have is the column's."""


def shape_of(column: CodedColumn) -> ValueShape:
    """Return what the values of a column look like."""
    values = [unescape(value) for value in column.values[:EXAMINED]]
    weights = column.counts[: len(values)]
    whole = int(weights.sum())
    if not whole:
        return ValueShape("", 0.0, {}, 0.0)
    shares: dict[str, float] = {}
    for name, has in SHAPES.items():
        # A shape that none of the first values has is not the column's.
        tried = values if any(map(has, values[:20])) else []
        fits = np.fromiter(map(has, tried), bool, len(tried))
        share = float(weights[: len(tried)][fits].sum() / whole)
        if name in (*_NUMBERS, "DE_KVNR") and len(values) < LEAST_DIFFERENT:
            share = 0.0
        if share:
            shares[name] = share
    name = next((n for n in SHAPES if shares.get(n, 0.0) >= ENOUGH), "")
    words = float(np.dot([value.count(" ") + 1 for value in values], weights) / whole)
    return ValueShape(name, shares.get(name, 0.0), shares, words)


def is_organisation(values: Sequence[str]) -> bool:
    """Whether some of the values have words that only names of organisations have."""
    some = values[:EXAMINED]
    named = sum(_ORGANISATION.search(value) is not None for value in some)
    return named * 10 >= len(some) > 0


def are_combined_names(values: Sequence[str]) -> bool:
    """Whether values combine first and last words, as lists of people's names do.

    Anna Weiß, Anna Vogt and Uwe Vogt are names of people; New York and San Juan, of
    which hardly a word comes again, need not be.
    """
    pairs = {
        (words[0], words[-1])
        for value in values[:EXAMINED]
        if len(words := value.replace(",", " ").split()) > 1
    }
    firsts = Counter(first for first, _ in pairs)
    lasts = Counter(last for _, last in pairs)
    again = sum(firsts[first] > 1 and lasts[last] > 1 for first, last in pairs)
    return len(pairs) >= _COMBINED and again >= _AGAIN * len(pairs)
