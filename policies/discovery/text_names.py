"""Names and numbers of people inside free text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from policies.discovery.coded_table import CodedTable

READ: Final = 2_000
"""Rows whose text is read."""
READ_BY_PRESIDIO: Final = 200
LEAST_LETTERS: Final = 3
LEAST_SHARE: Final = 0.01

_TITLED: Final = re.compile(
    r"\b(?:Mrs?|Ms|Miss|Dr|Prof|Herrn?|Frau|Fr|Hr|Mme|Mlle|M|Sra?|Srta|Don|Dona|Doña|Mevr|Dhr|"
    r"Pan[ai]?|Shri|Smt|Kumari)\.? (?:[A-ZÀ-ÞŁŚŻŹĆ][\w'’-]+)"
)
_WRITTEN: Final = {
    "e-mail addresses": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"),
    "phone numbers": re.compile(r"(?<![\w.])(?:\+|00)\d[\d ()/-]{6,18}\d|\b0\d{2,4}[ /-]\d[\d -]{4,12}\d"),
    "bank accounts": re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}"),
}  # fmt: skip
_ENTITIES: Final = {
    "IBAN_CODE": "bank accounts",
    "CREDIT_CARD": "card numbers",
    "US_SSN": "national id numbers",
    "IP_ADDRESS": "network addresses",
}


@dataclass(frozen=True)
class NamesInText:
    """What of people is found inside a column of free text.

    Attributes
    ----------
    column : str
    what : str
        In words: names, e-mail addresses, ...
    share : float
        Share of the texts that were read.
    """

    column: str
    what: str
    share: float


def names_in_text(
    table: CodedTable, texts: Sequence[str], names: Sequence[str]
) -> list[NamesInText]:
    """Find names and numbers of people inside free text.

    A name is found where the text has a word of the columns of names of the same row, or
    a title before a word (``Frau Berg``). Numbers are found by their form, and with the
    extra ``pii`` by the patterns of presidio-analyzer, which need no model.

    Parameters
    ----------
    table : CodedTable
    texts : sequence of str
        Columns of free text.
    names : sequence of str
        Columns of names of people.
    """
    found: list[NamesInText] = []
    for column in texts:
        rows = [r for r in range(min(READ, table.rows)) if table[column].codes[r] >= 0]
        if not rows:
            continue
        hits: dict[str, int] = {}
        for row in rows:
            text = _value(table, column, row)
            for what in _found_in(text, [_value(table, n, row) for n in names]):
                hits[what] = hits.get(what, 0) + 1
        for what, share in _by_presidio(
            [_value(table, column, row) for row in rows[:READ_BY_PRESIDIO]]
        ):
            hits[what] = max(hits.get(what, 0), round(share * len(rows)))
        found += [
            NamesInText(column, what, count / len(rows))
            for what, count in hits.items()
            if count >= LEAST_SHARE * len(rows)
        ]
    return found


def _value(table: CodedTable, column: str, row: int) -> str:
    code = int(table[column].codes[row])
    return table[column].values[code] if code >= 0 else ""


def _found_in(text: str, names: Iterable[str]) -> list[str]:
    words = {word.casefold() for word in re.findall(r"\w+", text)}
    known = {
        word.casefold()
        for name in names
        for word in re.findall(r"[^\W\d_]+", name)
        if len(word) >= LEAST_LETTERS
    }
    found = ["names"] if words & known or _TITLED.search(text) else []
    return found + [what for what, form in _WRITTEN.items() if form.search(text)]


def _by_presidio(texts: Sequence[str]) -> list[tuple[str, float]]:
    counts: dict[str, int] = {}
    for text in texts:
        kinds = {
            _ENTITIES[hit.entity_type]
            for find in _recognizers()
            for hit in find(text)
            if hit.entity_type in _ENTITIES
        }
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + 1
    return [(kind, count / len(texts)) for kind, count in counts.items()]


@cache
def _recognizers() -> tuple[Callable[[str], list[Any]], ...]:
    """Return the recognizers of presidio-analyzer that need no model and no network."""
    try:
        from presidio_analyzer import predefined_recognizers as known
    except ImportError:
        return ()
    chosen = (
        known.IbanRecognizer(),
        known.CreditCardRecognizer(),
        known.UsSsnRecognizer(),
        known.IpRecognizer(),
    )
    return tuple(
        lambda text, one=one: one.analyze(text, one.supported_entities, None)
        for one in chosen
    )
