"""Preview of a file, column by column, with what it tells about people.

Memory is bounded whatever the file: distinct values are counted exactly while they are
few, and then by adaptive sampling (Wegman; Flajolet 1990): keep only the hashes whose
last `level` bits are zero, and count each for two to the `level`. Only the form of
values is examined; none is kept in what is returned, but for examples to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dispatcher.core import progress
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import (
    DOUBLED,
    NO_KEY,
    FileFacts,
    OpenedFile,
    Options,
    RejectedRow,
    RowBatch,
)
from policies.answers.notation import DECIMALS
from policies.answers.validation import Valid, check
from policies.discovery.coded_table import CodedTable, TableSampler
from policies.discovery.column_names import (
    FULL_NAME,
    GIVEN_NAME,
    PLAIN,
    POSTAL_CODE,
    SURNAME,
    language_of,
    meaning_of,
    names_key,
)
from policies.discovery.profile import ColumnProfile, Profile, profile
from policies.discovery.value_shapes import ENOUGH
from policies.policy import Field

TYPES: Final = {
    "DATE": "date",
    "TIME": "time",
    "BOOLEAN": "boolean",
    "INTEGER": "integer",
    "DECIMAL": "decimal",
}
"""Shape -> type that the preview names; all others are text."""
POSTAL_CODES: Final = {"en": "US_ZIP", "de": "DE_PLZ", "es": "ES_CP", "fr": "FR_CP"}
"""Language of the columns -> what five digits of a place are called there."""
MIB: Final = 2**20
HASHES: Final = 1_000_000  # over all columns
EXAMPLES: Final = 5
SHOWN_REJECTS: Final = 100
KEYS: Final = 2_000_000  # rows in which duplicate keys are searched
READ: Final = 5_000  # different values of a column that a reading must accept
READINGS: Final = (
    Field("", ask="yes_no"),
    Field("", ask="number"),
    *(Field("", ask="number", decimal=sign) for sign in DECIMALS),
    Field("", ask="date"),
    *(Field("", ask="date", order=order) for order in ("dmy", "mdy")),
)
"""Candidate readings of a column; within a kind, those without a notation first."""


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
        How the values can be read: ``date``, ``number`` or ``yes_no`` if every value
        of the column is valid for it; else ``text``.
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
class FilePreview:
    """The facts of a file.

    Attributes
    ----------
    file : FileFacts
    rows : int
        All rows, those that would be rejected included.
    columns : list of ColumnFacts
    rejected : list of RejectedRow
        The first hundred rows that would be rejected, by line.
    rejections : int
        How many there are.
    profile : Profile
        What the columns tell about people: measured on the rows, or on a sample of
        them.
    """

    file: FileFacts
    rows: int
    columns: list[ColumnFacts]
    rejected: list[RejectedRow]
    rejections: int
    profile: Profile


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
    distinct: Distinct
    filled: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, cells: Sequence[str]) -> None:
        values = [cell for cell in cells if cell and not cell.isspace()]
        self.filled += len(values)
        self.distinct.add(values)
        if len(self.examples) < EXAMPLES:
            self.examples.extend(values[: EXAMPLES - len(self.examples)])


class _Keys:
    """Rows that a column would lose as the key: empty, or duplicate."""

    def __init__(self, column: int) -> None:
        self.column = column
        self.lost: list[tuple[int, str]] = []  # line and reason of the first ones
        self.doubled = 0
        self.empty = 0
        self._seen: set[int] = set()

    def add(self, batch: RowBatch) -> None:
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
    table: OpenedFile, screen: Callable[[RowBatch], list[RejectedRow]] | None = None
) -> FilePreview:
    """Read the whole table and return its preview.

    Parameters
    ----------
    table : OpenedFile
        Read to its end; not closed.
    screen : callable, optional
        Returns the rows of a batch that a load would reject, those of the batch
        included. None: by the form of the rows and the likeliest key alone.
    """
    columns: list[_Column] = []
    keys: list[_Keys] = []
    sampler = TableSampler()
    rows = unread = rejections = 0
    rejected: list[RejectedRow] = []
    for batch in _reported(table):
        if not columns and not keys:
            keys = [_Keys(0)] if table.facts.numbered else _candidates(batch.columns)
        _grow(columns, batch.columns)
        for column, cells in zip(columns, zip(*batch.rows, strict=True), strict=False):
            column.add(cells)
        for candidate in keys:
            candidate.add(batch)
        sampler.add(batch.columns, batch.rows)
        rows += len(batch.rows)
        unread += len(batch.rejected)
        refused = batch.rejected if screen is None else screen(batch)
        rejections += len(refused)
        rejected.extend(refused[: SHOWN_REJECTS - len(rejected)])
    _grow(columns, table.columns)
    coded = sampler.finish(table.columns)
    key = _key(columns, keys, rows)
    name = coded.columns[key.column].name if key else None
    if key and name and screen is None:
        rejections += key.doubled + key.empty
        rejected.extend(RejectedRow(line, name, reason) for line, reason in key.lost)
        rejected = sorted(rejected, key=lambda r: r.line)[:SHOWN_REJECTS]
    measured = profile(coded, name)
    facts = [
        _facts(column, seen, measured, rows)
        for column, seen in zip(measured.columns, columns, strict=True)
    ]
    return FilePreview(
        table.facts, rows + unread, facts, rejected, rejections, measured
    )


def _reported(table: OpenedFile) -> Iterator[RowBatch]:
    """Yield the batches of a table, and say how much of the file is read."""
    size = None if table.size is None else table.size / MIB
    for batch in table.batches:
        yield batch
        progress.report(table.position() / MIB, size, "MiB")


def read_sample(file: Path, options: Options | None = None) -> CodedTable:
    """Read the columns of a file as numbers, or those of a sample of its rows.

    Raises
    ------
    Invalid
        The file is no table.
    """
    sampler = TableSampler()
    with open_table(file, options) as table:
        for batch in _reported(table):
            sampler.add(batch.columns, batch.rows)
        return sampler.finish(table.columns)


def _grow(columns: list[_Column], names: Sequence[str]) -> None:
    """Add new columns; JSON may have some late.

    Missing cells of earlier rows count as empty.
    """
    capacity = max(256, min(65_536, HASHES // max(1, len(names))))
    columns.extend(_Column(Distinct(capacity)) for _ in names[len(columns) :])


def _candidates(names: Sequence[str]) -> list[_Keys]:
    """Up to three columns whose names are those of keys, and the first column.

    The first column is none if its name says that it is about people.
    """
    named = [i for i, name in enumerate(names) if names_key(name)][:3]
    first = [0] if names and meaning_of(names[0]) is PLAIN else []
    return [_Keys(i) for i in dict.fromkeys([*named, *first])]


def _key(columns: list[_Column], keys: list[_Keys], rows: int) -> _Keys | None:
    """The column that identifies rows: all or nearly all filled, and different."""
    for most in (0, rows // 100):
        for key in keys:
            if rows and key.doubled + key.empty <= most and columns[key.column].filled:
                return key
    return None


def _facts(
    column: ColumnProfile, seen: _Column, measured: Profile, rows: int
) -> ColumnFacts:
    coded = measured.table[column.name]
    zeros = sum(
        int(count)
        for value, count in zip(coded.values, coded.counts, strict=True)
        if len(value) > 1 and value[0] == "0" and value.isdecimal()
    )
    reading = None if zeros else _reading(coded.values[:READ])
    exact = not measured.table.is_sample or seen.distinct.exact
    return ColumnFacts(
        column.name,
        "text" if zeros else TYPES.get(column.shape.name, "text"),
        rows - seen.filled,
        len(coded.values) if not measured.table.is_sample else seen.distinct.count,
        exact,
        _looks(column, measured, zeros),
        _suggestion(column, measured, zeros, filled=bool(seen.filled)),
        seen.examples,
        "text" if reading is None else reading.ask or "text",
        () if reading is None else _notation(reading),
    )


def _reading(values: Sequence[str]) -> Field | None:
    """Return how all values are read as one kind; None if that is ambiguous.

    A reading without a notation is preferred. Of the others exactly one must fit: if
    two accept every value, the intended one is unknown.
    """
    if not values:
        return None
    fitting = [
        reading
        for reading in READINGS
        if all(isinstance(check(reading, value), Valid) for value in values)
    ]
    for kind in ("number", "date", "yes_no"):
        found = [reading for reading in fitting if reading.ask == kind]
        if found and (len(found) == 1 or not _notation(found[0])):
            return found[0]
    return None


def _looks(column: ColumnProfile, measured: Profile, zeros: int) -> str:
    shape = column.shape
    if column.name == measured.key:
        return "unique key"
    if column.name == measured.person:
        person = shape.shares.get("PERSON", 0.0)  # whatever the column is called
        return f"repeats  PERSON ({person:.2f})" if person >= ENOUGH else "repeats"
    words = shape.name if shape.name not in ("INTEGER", "DECIMAL", "BOOLEAN") else ""
    if words == "PERSON":
        named = column.meaning in (FULL_NAME, GIVEN_NAME, SURNAME)
        words = f"PERSON ({shape.share:.2f})" if named else ""
    if words == "US_ZIP":  # five digits, in many countries
        names = [c.name for c in measured.columns]
        words = POSTAL_CODES.get(language_of(names), "POSTCODE")
        words = words if column.meaning is POSTAL_CODE else ""
    if zeros:
        more = "+" if measured.table.is_sample else ""
        leading = f"{zeros:,}{more} leading 0"
        words = f"{words}  {leading}" if words else leading
    return words or "-"


def _suggestion(
    column: ColumnProfile, measured: Profile, zeros: int, *, filled: bool
) -> str:
    meaning = column.meaning
    roles = [
        word
        for word, applies in (
            ("direct identifier", meaning.direct),
            ("quasi-identifier", meaning.quasi),
            ("sensitive", meaning.sensitive),
        )
        if applies
    ]
    text = "   keep as text" if zeros else ""
    label = f" ({meaning.label})" if roles else ""
    suggestions = (  # the first that applies
        (column.name == measured.key, "key"),
        (not filled, "leave out: it is empty"),
        (column.is_image, "image: a page to cut crops from"),
        (column.is_box, "box on the page, in pixels"),
        (column.name == measured.person, "subject"),
    )
    otherwise = f"{', '.join(['field', *roles])}{label}{text}"
    return next((word for applies, word in suggestions if applies), otherwise)


def _notation(reading: Field) -> tuple[tuple[str, str], ...]:
    words = (("decimal", reading.decimal), ("order", reading.order))
    return tuple((key, word) for key, word in words if word is not None)
