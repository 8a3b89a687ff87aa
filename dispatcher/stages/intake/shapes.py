"""What the values of a column look like, told from their form alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from stdnum import iban, luhn

IMAGE_ENDINGS: Final = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")

_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    "DATE": re.compile(
        r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2}"
    ),
    "TIME": re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.{0,20}"),
    "EMAIL": re.compile(r"[^\s@]+@[^\s@]+\.[^\s@.]+"),
    "URL": re.compile(r"[a-z]{2,10}://\S+", re.IGNORECASE),
    "PHONE": re.compile(r"[+(]\d[\d ().\-/]{5,20}\d|0\d{1,4}[ \-/]\d[\d \-/]{3,14}\d"),
    "BOX": re.compile(r"\d{1,6},\s?\d{1,6},\s?\d{1,6},\s?\d{1,6}"),
    "US_ZIP": re.compile(r"\d{5}(?:-\d{4})?"),
    "BOOLEAN": re.compile(r"true|false|yes|no|y|n", re.IGNORECASE),
    "INTEGER": re.compile(r"[-+]?(?:0|[1-9]\d*)"),
    "DECIMAL": re.compile(r"[-+]?(?:0|[1-9]\d*)?[.,]\d+(?:[eE][-+]?\d+)?"),
    "PERSON": re.compile(
        r"(?:[A-ZÀ-ÞŠŽ][\w'’.\-]*\s?,?\s){1,4}[A-ZÀ-ÞŠŽ][\w'’.\-]*|[A-Z]+(?: [A-Z]\.?)* [A-Z]+"
    ),
}


def _matches(name: str) -> Callable[[str], bool]:
    pattern = _PATTERNS[name]
    return lambda value: pattern.fullmatch(value) is not None


def _is_image(value: str) -> bool:
    return value.lower().endswith(IMAGE_ENDINGS)


def _is_iban(value: str) -> bool:
    return value[:2].isalpha() and value[2:4].isdecimal() and iban.is_valid(value)


def _is_card(value: str) -> bool:
    if len(value) < 13 or not value[0].isdecimal():
        return False
    digits = re.sub(r"[ -]", "", value)
    return 13 <= len(digits) <= 19 and digits.isdecimal() and luhn.is_valid(digits)


SHAPES: Final[Mapping[str, Callable[[str], bool]]] = {
    "IMAGE": _is_image,
    "EMAIL": _matches("EMAIL"),
    "IBAN": _is_iban,
    "CARD": _is_card,
    "URL": _matches("URL"),
    "TIME": _matches("TIME"),
    "DATE": _matches("DATE"),
    "PHONE": _matches("PHONE"),
    "BOX": _matches("BOX"),
    "US_ZIP": _matches("US_ZIP"),
    "BOOLEAN": _matches("BOOLEAN"),
    "INTEGER": _matches("INTEGER"),
    "DECIMAL": _matches("DECIMAL"),
    "PERSON": _matches("PERSON"),
}
"""Shape -> whether one value has it; the first that nearly all have is the column's."""

TYPES: Final = {
    "DATE": "date",
    "TIME": "time",
    "BOOLEAN": "boolean",
    "INTEGER": "integer",
    "DECIMAL": "decimal",
}
"""Shape -> type that the preview names; all others are text."""

KEY_NAME: Final = re.compile(
    r"(?:^|[_\W])(?:id|key|no|nr|uuid|guid|number|code)$|^(?:id|uuid|guid)[_\W]|[a-z]Id$",
    re.IGNORECASE,
)
SUBJECT_NAME: Final = re.compile(
    r"patient|person|customer|client|subject|user|member|citizen|employee|owner|account",
    re.IGNORECASE,
)
TIME_NAME: Final = re.compile(r"time|stamp|_at$|^at$|moment|visited", re.IGNORECASE)
QUASI_NAME: Final = re.compile(
    r"zip|post_?(?:al)?_?code|birth|\bdob\b|gender|\bsex\b|\bage\b|city|town|county|race|"
    r"ethnic|marital|nation|religion|occupation|job|employer|doctor|provider|language",
    re.IGNORECASE,
)
SENSITIVE_NAME: Final = re.compile(
    r"name|\b(?:first|last|middle|maiden)\b|disease|diagnos|illness|condition|drug|medic|prescri|symptom|e-?mail|phone|"
    r"mobile|iban|card|address|street|ssn|soc_sec|social|passport|salary|income|account|reason|"
    r"allerg|result|company|merchant",
    re.IGNORECASE,
)
