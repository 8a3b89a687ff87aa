"""Redaction: mask what the policy's `redact` names, before a text is shown.

In doubt it masks: a text that only looks like a phone number is masked too. Numbers
with a checksum are masked when it is valid, and also when their form alone identifies
them, since a mistyped card number is still somebody's. Every pattern is linear in the
length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from stdnum import iban, luhn
from stdnum.exceptions import ValidationError

_EMAIL = re.compile(
    r"""(?<![^\s@＠<>(){}\[\],;:"'|])[^\s@＠<>(){}\[\],;:"'|]+"""
    r"""(?:\s?[\[({]\s?at\s?[\])}]\s?|[@＠])[^\s@＠<>(){}\[\],;"'|]+""",
    re.IGNORECASE,
)
_IBAN = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}[ -]?\d{2}(?:[ -]?[A-Za-z0-9]){11,30}(?![A-Za-z0-9])"
)
_DIGITS = re.compile(r"(?<![\w.])\d(?:[ .\-–/]?\d){11,22}(?!\w)")
_PHONE = re.compile(
    r"(?<![\w])(?:[+＋]|00|\(?0\)?|\(|(?=\d))[\d(](?:[ .\-–/()\u00a0]{0,2}\d){5,16}\)?(?!\w)"
)
_ISO_DATE = re.compile(r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{4}")
_URL = re.compile(r"(?:\b[a-z][a-z0-9+.\-]{1,15}://|\bwww\.)[^\s<>\"']+", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:.])")
_DATE = re.compile(
    r"(?<!\d)(?:\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4})(?!\d)"
)
_NUMBER = re.compile(r"(?<!\w)\d[\d .\-–/]{2,60}\d(?!\w)")

_CARD_GROUPS = re.compile(
    r"\d{4}[ \-.]\d{4}[ \-.]\d{4}[ \-.]\d{4}|\d{4}[ -]\d{6}[ -]\d{5}"
)


def _always(_: str) -> bool:
    return True


def _is_iban(text: str) -> bool:
    """Whether it is a valid IBAN, or has the length of its country's IBANs."""
    compact = iban.compact(text)
    try:
        iban.validate(compact, check_country=False)
    except ValidationError:
        return len(compact) == IBAN_LENGTHS.get(compact[:2])
    return True


def _is_card(text: str) -> bool:
    digits = "".join(sign for sign in text if sign.isdecimal())
    if not 12 <= len(digits) <= 19:
        return False
    plain = "".join(str(int(sign)) for sign in digits)
    return luhn.is_valid(plain) or _CARD_GROUPS.fullmatch(text) is not None


def _is_phone(text: str) -> bool:
    digits = sum(sign.isdecimal() for sign in text)
    return 7 <= digits <= 17 and _ISO_DATE.fullmatch(text) is None


IBAN_LENGTHS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FI", "FO", "GL", "NL"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "LT", "LU", "XK"), 20),
    **dict.fromkeys(("CH", "HR", "LI", "LV"), 21),
    **dict.fromkeys(("BG", "BH", "CR", "DE", "GB", "GE", "IE", "ME", "RS", "VA"), 22),
    **dict.fromkeys(("AE", "GI", "IL", "IQ", "TL"), 23),
    **dict.fromkeys(("AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN"), 24),
    **dict.fromkeys(("PT", "ST"), 25),
    **dict.fromkeys(("IS", "TR"), 26),
    **dict.fromkeys(("FR", "GR", "IT", "MC", "MR", "SM"), 27),
    **dict.fromkeys(("AL", "AZ", "CY", "DO", "GT", "HU", "LB", "PL", "SV"), 28),
    **dict.fromkeys(("BR", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MU"), 30),
    **dict.fromkeys(("MT", "SC"), 31),
}

Tests = tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]

TAGS: Final[Mapping[str, Tests]] = {
    "email": ((_EMAIL, _always),),
    "url": ((_URL, _always),),
    "iban": ((_IBAN, _is_iban),),
    "card": ((_DIGITS, _is_card),),
    "ip": ((_IPV4, _always), (_IPV6, _always)),
    "date": ((_DATE, _always),),
    "phone": ((_PHONE, _is_phone),),
    "number": ((_NUMBER, _always),),
}
"""What can be masked, in the order of masking: the most specific form first."""


def redacted(text: str, tags: Iterable[str]) -> str:
    """Return the text with everything that the tags name replaced by ``[TAG]``.

    Parameters
    ----------
    text : str
    tags : Iterable of str
        Keys of :data:`TAGS`.

    Raises
    ------
    KeyError
        A tag is unknown: it must never be ignored silently.
    """
    wanted = set(tags)
    unknown = wanted - TAGS.keys()
    if unknown:
        raise KeyError(min(unknown))
    for tag, tests in TAGS.items():
        if tag in wanted:
            for pattern, test in tests:
                text = pattern.sub(_masked(tag, test), text)
    return text


def _masked(tag: str, test: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    def replace(found: re.Match[str]) -> str:
        return f"[{tag}]" if test(found.group()) else found.group()

    return replace
