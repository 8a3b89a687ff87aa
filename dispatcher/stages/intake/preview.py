"""Preview of a file, column by column, and a suggested first policy.

Memory is bounded whatever the file: distinct values are counted exactly while they are
few, and then by adaptive sampling (Wegman; Flajolet 1990): keep only the hashes whose
last `level` bits are zero, and count each for two to the `level`. Only the form of
values is examined; none is written to the policy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stdnum import iban, luhn

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import (
    DOUBLED,
    NO_KEY,
    ROW_KEY,
    Batch,
    Facts,
    Options,
    Rejected,
    Table,
)
from policies.answers.notation import DECIMALS
from policies.answers.validation import Valid, check
from policies.document import Column, starter
from policies.policy import Field

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
SAMPLED: Final = 5_000  # most values of a column whose form is examined
SAMPLES: Final = 200_000  # over all columns
HASHES: Final = 1_000_000  # over all columns
EXAMPLES: Final = 5
SHOWN_REJECTS: Final = 100
KEYS: Final = 2_000_000  # rows in which duplicate keys are searched
ENOUGH: Final = 0.9  # share of values that make a shape the column's
READINGS: Final = (
    Field("", ask="yes_no"),
    Field("", ask="number"),
    *(Field("", ask="number", decimal=sign) for sign in DECIMALS),
    Field("", ask="date"),
    *(Field("", ask="date", order=order) for order in ("dmy", "mdy")),
)
"""Candidate readings of a column; within a kind, those without a notation first."""


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


@dataclass(slots=True)
class ColumnFacts:
    """Facts of one column.

    Attributes
    ----------
    name : str
    kind : str
        text, integer, decimal, date, time or boolean.
    empty : int
    distinct : int
        Different values that are not empty.
    exact : bool
        Whether `distinct` was counted, not estimated.
    looks_like : str
    suggestion : str
    examples : list of str
        First values; to be shown only when asked for.
    ask : str
        What workers may be asked: ``date``, ``number`` or ``yes_no`` if every value of
        the column is valid for it; else ``text``.
    notation : tuple of (str, str)
        Keys of the field that say how its dates or numbers are written.
    """

    name: str
    kind: str
    empty: int
    distinct: int
    exact: bool
    looks_like: str
    suggestion: str
    examples: list[str]
    ask: str = "text"
    notation: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Preview:
    """The facts of a file.

    Attributes
    ----------
    file : Facts
    rows : int
        All rows, those that would be rejected included.
    columns : list of ColumnFacts
    rejected : list of Rejected
        The first hundred rows that would be rejected, by line.
    rejections : int
        How many there are.
    """

    file: Facts
    rows: int
    columns: list[ColumnFacts]
    rejected: list[Rejected]
    rejections: int


class Distinct:
    """Counts distinct texts in bounded memory.

    Parameters
    ----------
    capacity : int
        Up to this many the count is exact; then its error is about
        1.2 / sqrt(capacity).
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._level = 0
        self._kept: set[int] = set()

    def add(self, values: Iterator[str] | Sequence[str]) -> None:
        """Add values to the count."""
        if self._level == 0:
            self._kept.update(map(hash, values))
        else:
            mask = (1 << self._level) - 1
            self._kept.update(h for h in map(hash, values) if not h & mask)
        while len(self._kept) > self._capacity:
            self._level += 1
            mask = (1 << self._level) - 1
            self._kept = {h for h in self._kept if not h & mask}

    @property
    def count(self) -> int:
        """Number of distinct texts, estimated once there are many."""
        return len(self._kept) << self._level

    @property
    def exact(self) -> bool:
        """Whether the count is exact."""
        return self._level == 0


@dataclass(slots=True)
class _Column:
    name: str
    distinct: Distinct
    samples: int
    filled: int = 0
    sampled: int = 0
    zeros: int = 0  # sampled digits with a leading zero
    shapes: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    readings: list[Field] = field(default_factory=lambda: list(READINGS))

    def add(self, cells: Sequence[str]) -> None:
        values = [cell for cell in cells if cell and not cell.isspace()]
        self.filled += len(values)
        self.distinct.add(values)
        if len(self.examples) < EXAMPLES:
            self.examples.extend(values[: EXAMPLES - len(self.examples)])
        if self.readings:
            self._try(values)
        for value in values[: self.samples - self.sampled]:
            self.sampled += 1
            short = value[:200].strip()
            self.zeros += len(short) > 1 and short[0] == "0" and short.isdecimal()
            self.shapes.update(name for name, has in SHAPES.items() if has(short))

    def _try(self, values: Sequence[str]) -> None:
        """Keep the readings that accept every value of the column."""
        different = set(values)
        self.readings = [
            reading
            for reading in self.readings
            if all(isinstance(check(reading, value), Valid) for value in different)
        ]

    def reading(self) -> Field | None:
        """Return how all values are read as one kind; None if that is ambiguous.

        A reading without a notation is preferred. Of the others exactly one must fit:
        if two accept every value, the intended one is unknown.
        """
        if not self.filled or self.zeros:
            return None
        for kind in ("number", "date", "yes_no"):
            found = [reading for reading in self.readings if reading.ask == kind]
            if found and (len(found) == 1 or not _notation(found[0])):
                return found[0]
        return None

    def shape(self) -> tuple[str, float]:
        """The column's shape and the share that has it; empty if it has none."""
        for name in SHAPES:
            share = self.share(name)
            if share >= ENOUGH and not (name == "PERSON" and self._is_no_name()):
                return name, share
        return "", 0.0

    def share(self, name: str) -> float:
        """Share of the sampled values that have a shape."""
        return self.shapes[name] / self.sampled if self.sampled else 0.0

    def _is_no_name(self) -> bool:
        return SENSITIVE_NAME.search(self.name) is None


class _Keys:
    """Rows that a column would lose as the key: empty, or duplicate."""

    def __init__(self, column: int) -> None:
        self.column = column
        self.lost: list[tuple[int, str]] = []  # line and reason of the first ones
        self.doubled = 0
        self.empty = 0
        self._seen: set[int] = set()

    def add(self, batch: Batch) -> None:
        for line, row in zip(batch.lines, batch.rows, strict=True):
            value = row[self.column]
            number = hash(value)
            reason = ""
            if not value or value.isspace():
                self.empty += 1
                reason = NO_KEY
            elif number in self._seen:
                self.doubled += 1
                reason = DOUBLED
            elif len(self._seen) < KEYS:
                self._seen.add(number)
            if reason and len(self.lost) < SHOWN_REJECTS:
                self.lost.append((line, reason))


def preview(
    table: Table, screen: Callable[[Batch], list[Rejected]] | None = None
) -> Preview:
    """Read the whole table and return its preview.

    Parameters
    ----------
    table : Table
        Read to its end; not closed.
    screen : callable, optional
        Returns the rows of a batch that a load would reject, those of the batch
        included. None: by the form of the rows and the likeliest key alone.
    """
    columns: list[_Column] = []
    keys: list[_Keys] = []
    rows = unread = rejections = 0
    rejected: list[Rejected] = []
    for batch in table.batches:
        if not columns and not keys:
            keys = _candidates(batch.columns)
        _grow(columns, batch.columns)
        for column, cells in zip(columns, zip(*batch.rows, strict=True), strict=False):
            column.add(cells)
        for candidate in keys:
            candidate.add(batch)
        rows += len(batch.rows)
        unread += len(batch.rejected)
        refused = batch.rejected if screen is None else screen(batch)
        rejections += len(refused)
        rejected.extend(refused[: SHOWN_REJECTS - len(rejected)])
    _grow(columns, table.columns)
    key = _key(columns, keys, rows)
    if key and screen is None:
        name = columns[key.column].name
        rejections += key.doubled + key.empty
        rejected.extend(Rejected(line, name, reason) for line, reason in key.lost)
        rejected = sorted(rejected, key=lambda r: r.line)[:SHOWN_REJECTS]
    known = _known(columns, key, rows)
    return Preview(table.facts, rows + unread, known, rejected, rejections)


def _grow(columns: list[_Column], names: Sequence[str]) -> None:
    """Add new columns; JSON may have some late.

    Missing cells of earlier rows count as empty.
    """
    capacity = max(256, min(65_536, HASHES // max(1, len(names))))
    samples = max(20, min(SAMPLED, SAMPLES // max(1, len(names))))
    columns.extend(
        _Column(name, Distinct(capacity), samples) for name in names[len(columns) :]
    )


def _candidates(names: Sequence[str]) -> list[_Keys]:
    """The first column, and up to three whose names are those of keys."""
    named = [i for i, name in enumerate(names) if KEY_NAME.search(name)]
    return [_Keys(i) for i in dict.fromkeys([*named[:3], 0])] if names else []


def _key(columns: list[_Column], keys: list[_Keys], rows: int) -> _Keys | None:
    """The column that identifies rows: all or nearly all filled, and different."""
    for most in (0, rows // 100):
        for key in keys:
            if rows and key.doubled + key.empty <= most and columns[key.column].filled:
                return key
    return None


def _known(columns: list[_Column], key: _Keys | None, rows: int) -> list[ColumnFacts]:
    facts = []
    subject_found = False
    for index, column in enumerate(columns):
        is_key = key is not None and key.column == index
        shape, share = column.shape()
        suggestion = "key" if is_key else _suggestion(column, shape, subject_found)
        subject_found = subject_found or suggestion == "subject"
        kind = "text" if column.zeros else TYPES.get(shape, "text")
        reading = column.reading()
        looks = "unique key" if is_key else _looks(column, shape, share, suggestion)
        facts.append(
            ColumnFacts(
                column.name,
                kind,
                rows - column.filled,
                column.distinct.count,
                column.distinct.exact,
                looks,
                suggestion,
                column.examples,
                "text" if reading is None else reading.ask or "text",
                () if reading is None else _notation(reading),
            )
        )
    return facts


def _looks(column: _Column, shape: str, share: float, suggestion: str) -> str:
    if suggestion == "subject":
        person = column.share("PERSON")  # whatever the column is called
        return f"repeats  PERSON ({person:.2f})" if person >= ENOUGH else "repeats"
    words = shape if shape not in ("INTEGER", "DECIMAL", "BOOLEAN") else ""
    if words == "PERSON":
        words = f"PERSON ({share:.2f})"
    if column.zeros:
        more = "+" if column.sampled < column.filled else ""
        zeros = f"{column.zeros:,}{more} leading 0"
        words = f"{words}  {zeros}" if words else zeros
    return words or "-"


def _suggestion(column: _Column, shape: str, subject_found: bool) -> str:
    name = column.name
    repeats = column.distinct.count < column.filled
    text = "   keep as text" if column.zeros else ""
    telling = shape in ("EMAIL", "IBAN", "CARD", "PHONE", "PERSON")
    suggestions = (  # the first that applies
        (not column.filled, "leave out: it is empty"),
        (shape == "IMAGE", "image: a page to cut crops from"),
        (shape == "BOX", "box on the page, in pixels"),
        (not subject_found and repeats and _names_subject(name), "subject"),
        (
            shape == "TIME" or (shape == "DATE" and bool(TIME_NAME.search(name))),
            "field, or the entity's time",
        ),
        (bool(QUASI_NAME.search(name)), f"field, quasi-identifier{text}"),
        (telling or bool(SENSITIVE_NAME.search(name)), f"field, sensitive{text}"),
    )
    return next((keys for applies, keys in suggestions if applies), f"field{text}")


def _names_subject(name: str) -> bool:
    return bool(SUBJECT_NAME.search(name)) and bool(
        KEY_NAME.search(name) or re.fullmatch(SUBJECT_NAME, name)
    )


def suggest_policy(file: Path, options: Options | None = None) -> str:
    """Return the text of a policy for the records of a file.

    Parameters
    ----------
    file : Path
    options : Options, optional

    Raises
    ------
    Invalid
        The file is no table, or no column of it identifies its rows.
    """
    with open_table(file, options) as table:
        found = preview(table)
    key = next((c.name for c in found.columns if c.suggestion == "key"), None)
    if options is not None and options.numbered:
        key = ROW_KEY
    if key is None:
        raise Invalid(
            f"no column of {found.file.name} can be the key",
            why="a key is filled and different in every row",
            fix="add a column that numbers the rows, or let them be numbered as they "
            "stand in the file: --key row, here and with records load",
        )
    subject = next((c.name for c in found.columns if c.suggestion == "subject"), None)
    columns = [_column(c) for c in found.columns if c.name != key and _is_field(c)]
    if not columns or all(column.name == subject for column in columns):
        raise Invalid(
            f"{found.file.name} has no column besides its key and its subject",
            why="a policy needs a field that is asked for",
            fix="check the file",
        )
    return starter(_entity(found.file.name), key, subject, columns)


def _is_field(column: ColumnFacts) -> bool:
    return not column.suggestion.startswith(("leave out", "box", "image"))


def _notation(reading: Field) -> tuple[tuple[str, str], ...]:
    words = (("decimal", reading.decimal), ("order", reading.order))
    return tuple((key, word) for key, word in words if word is not None)


def _column(column: ColumnFacts) -> Column:
    return Column(
        column.name,
        column.ask,
        notation=column.notation,
        sensitive="sensitive" in column.suggestion,
        quasi="quasi-identifier" in column.suggestion,
    )


def _entity(name: str) -> str:
    """Name the kind of record after the file: ``scans-2026.csv`` gives scans-2026."""
    stem = re.sub(r"(?:\.\w{1,8}){1,2}$", "", name)
    return re.sub(r"[^\w-]+", "-", stem).strip("-") or "record"
