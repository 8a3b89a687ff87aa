"""What a file holds, column by column, before anything is loaded; and a first policy.

Memory is bounded whatever the file: distinct values are counted exactly while they are
few, and then by adaptive sampling (Wegman; Flajolet 1990): keep only the hashes whose
last `level` bits are zero, and count each for two to the `level`. Values are looked at
by their form alone; none is written to the policy.
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
    ROW_KEY,
    Batch,
    Facts,
    Options,
    Rejected,
    Table,
)
from policies.document import Column, starter

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
SAMPLED: Final = 5_000  # values of a column whose form is looked at, at most
SAMPLES: Final = 200_000  # over all columns
HASHES: Final = 1_000_000  # over all columns
EXAMPLES: Final = 5
SHOWN_REJECTS: Final = 100
KEYS: Final = 2_000_000  # rows in which doubled keys are looked for
ENOUGH: Final = 0.9  # share of values that make a shape the column's
KINDS: Final = {
    "date": "date",
    "integer": "number",
    "decimal": "number",
    "boolean": "yes_no",
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


@dataclass(slots=True)
class ColumnFacts:
    """What is known of one column.

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
    """

    name: str
    kind: str
    empty: int
    distinct: int
    exact: bool
    looks_like: str
    suggestion: str
    examples: list[str]


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
    """Counts different texts in bounded memory.

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
        """Count the values in."""
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
        """Different texts, estimated once there are many."""
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

    def add(self, cells: Sequence[str]) -> None:
        values = [cell for cell in cells if cell and not cell.isspace()]
        self.filled += len(values)
        self.distinct.add(values)
        if len(self.examples) < EXAMPLES:
            self.examples.extend(values[: EXAMPLES - len(self.examples)])
        for value in values[: self.samples - self.sampled]:
            self.sampled += 1
            short = value[:200].strip()
            self.zeros += len(short) > 1 and short[0] == "0" and short.isdecimal()
            self.shapes.update(name for name, has in SHAPES.items() if has(short))

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
    """Lines on which the value of a column that may be the key was met before."""

    def __init__(self, column: int) -> None:
        self.column = column
        self.lines: list[int] = []
        self.doubled = 0
        self._seen: set[int] = set()

    def add(self, batch: Batch) -> None:
        for line, row in zip(batch.lines, batch.rows, strict=True):
            number = hash(row[self.column])
            if number in self._seen:
                self.doubled += 1
                if len(self.lines) < SHOWN_REJECTS:
                    self.lines.append(line)
            elif len(self._seen) < KEYS:
                self._seen.add(number)


def preview(table: Table) -> Preview:
    """Read the whole table and tell what is in it.

    Parameters
    ----------
    table : Table
        Read to its end; not closed.
    """
    columns: list[_Column] = []
    keys: list[_Keys] = []
    rows = rejections = 0
    rejected: list[Rejected] = []
    names = table.columns
    for batch in table.batches:
        if not columns and not keys:
            keys = _candidates(batch.columns)
        _grow(columns, batch.columns, rows)
        for column, cells in zip(columns, zip(*batch.rows, strict=True), strict=False):
            column.add(cells)
        for candidate in keys:
            candidate.add(batch)
        rows += len(batch.rows)
        rejections += len(batch.rejected)
        rejected.extend(batch.rejected[: SHOWN_REJECTS - len(rejected)])
    _grow(columns, names, rows)
    key = _key(columns, keys, rows)
    if key and key.doubled:
        name, reason = columns[key.column].name, "the key stands on an earlier line"
        rejections += key.doubled
        rejected.extend(Rejected(line, name, reason) for line in key.lines)
        rejected = sorted(rejected, key=lambda r: r.line)[:SHOWN_REJECTS]
    known = _known(columns, key, rows)
    return Preview(
        table.facts, rows + _ragged(rejections, key), known, rejected, rejections
    )


def _ragged(rejections: int, key: _Keys | None) -> int:
    """Rejected rows that are not among the read ones."""
    return rejections - (key.doubled if key is not None else 0)


def _grow(columns: list[_Column], names: Sequence[str], rows: int) -> None:
    """Begin the columns that are new; JSON may bring some late."""
    del rows  # cells of earlier rows are empty, and empty is what is not filled
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
    """The column that identifies rows: all filled, and all or nearly all different."""
    full = [k for k in keys if rows and columns[k.column].filled == rows]
    for most in (0, rows // 100):
        for key in full:
            if key.doubled <= most:
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
            )
        )
    return facts


def _looks(column: _Column, shape: str, share: float, suggestion: str) -> str:
    if suggestion == "subject":
        person = column.share("PERSON")  # whatever the column is called
        return f"repeats  PERSON ({person:.2f})" if person >= ENOUGH else "repeats"
    told = shape if shape not in ("INTEGER", "DECIMAL", "BOOLEAN") else ""
    if told == "PERSON":
        told = f"PERSON ({share:.2f})"
    if column.zeros:
        more = "+" if column.sampled < column.filled else ""
        zeros = f"{column.zeros:,}{more} leading 0"
        told = f"{told}  {zeros}" if told else zeros
    return told or "-"


def _suggestion(column: _Column, shape: str, subject_found: bool) -> str:
    name = column.name
    repeats = column.distinct.count < column.filled
    text = "   keep as text" if column.zeros else ""
    telling = shape in ("EMAIL", "IBAN", "CARD", "PHONE", "PERSON")
    suggestions = (  # the first that holds
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
    return next((said for holds, said in suggestions if holds), f"field{text}")


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


def _column(column: ColumnFacts) -> Column:
    return Column(
        column.name,
        KINDS.get(column.kind, "text"),
        sensitive="sensitive" in column.suggestion,
        quasi="quasi-identifier" in column.suggestion,
    )


def _entity(name: str) -> str:
    """Name the kind of record after the file: ``scans-2026.csv`` holds a scans-2026."""
    stem = re.sub(r"(?:\.\w{1,8}){1,2}$", "", name)
    return re.sub(r"[^\w-]+", "-", stem).strip("-") or "record"
