"""The output of every reader: batches of rows, all cells as text, and rejects.

A reader is an iterator of :class:`RowBatch`; memory is bounded by the batch, whatever the
size of the file. Cells are exactly as written; numbers and dates of typed formats are
rendered canonically. No reason ever contains a cell's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from dispatcher.core.errors import Invalid

MAX_CELL: Final = 1 << 20  # characters
MAX_COLUMNS: Final = 16_384  # limit of spreadsheets
ROW_KEY: Final = "row"
"""The column that ``--key row`` adds: digest of the file, and line of the row."""
NO_KEY: Final = "the key is empty"
DOUBLED: Final = "the key is on an earlier line"
BATCH_ROWS: Final = 2_000
BATCH_CHARACTERS: Final = 8 << 20
DEFAULT_MAX_BYTES: Final = 2 << 30
BOM: Final = "\ufeff"
UNDECODED: Final = "\udcff"  # replaces undecodable bytes


class FileFormat(StrEnum):
    """The file formats that can be loaded."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    EXCEL = "excel"
    FOLDER = "folder"
    """A folder of scans: a row for each, with the columns ``file`` and ``scan``."""


@dataclass(frozen=True, slots=True)
class Options:
    """The operator's options for reading a file; None means: detect it.

    Attributes
    ----------
    format : FileFormat or None
    encoding : str or None
        A codec name of Python.
    delimiter : str or None
        One character.
    sheet : str or None
        Of a workbook.
    numbered : bool
        Whether to add the column :data:`ROW_KEY` before the others.
    max_bytes : int
        Most bytes that compressed or columnar input may decode to.
    batch_rows : int
        Most rows a batch; a batch also ends at about 8 Mi characters.
    guarded : bool or None
        CSV: whether a ``'`` before a formula's sign is a guard, to be removed. None:
        only in what ``records reassemble`` wrote.
    """

    format: FileFormat | None = None
    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | None = None
    numbered: bool = False
    max_bytes: int = DEFAULT_MAX_BYTES
    batch_rows: int = BATCH_ROWS
    guarded: bool | None = None


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A rejected row: where, and why; never its content.

    Attributes
    ----------
    line : int
        Line of the file on which the row starts, from 1; in workbooks and Parquet
        the row, the header being row 1.
    column : str
        Name of the column, or empty if the whole row is meant.
    reason : str
    """

    line: int
    column: str
    reason: str


@dataclass(slots=True)
class RowBatch:
    """Consecutive rows.

    Attributes
    ----------
    columns : tuple of str
        Names, in order of the file. JSON may bring new names later: a later batch then
        has more columns, the first ones unchanged.
    lines : list of int
        Where each row starts, shape (rows,).
    rows : list of sequence of str
        Shape (rows, columns).
    rejected : list of RejectedRow
    """

    columns: tuple[str, ...]
    lines: list[int] = field(default_factory=list)
    rows: list[Sequence[str]] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)


@dataclass(slots=True)
class FileFacts:
    """How the file was understood, for the operator to confirm or overrule.

    Attributes
    ----------
    name : str
    format : FileFormat
    compressed : bool
    encoding, encoding_reason : str
        Empty for formats that have none.
    delimiter : str
        Empty for formats that have none.
    sheet : str
        The sheet that is read, workbooks only.
    numbered : bool
        Whether the column :data:`ROW_KEY` was added.
    notes : list of str
    """

    name: str
    format: FileFormat
    compressed: bool = False
    encoding: str = ""
    encoding_reason: str = ""
    delimiter: str = ""
    sheet: str = ""
    numbered: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OpenedFile:
    """An opened file: iterate over :attr:`batches` once, then :meth:`close`.

    Attributes
    ----------
    facts : FileFacts
    columns : tuple of str
        Known so far; see :attr:`RowBatch.columns`.
    batches : Iterator of RowBatch
    size : int or None
        Bytes of the file as stored; None for a stream.
    position : Callable
        Bytes of the file read so far, for a progress bar.
    close : Callable
    """

    facts: FileFacts
    columns: tuple[str, ...]
    batches: Iterator[RowBatch]
    size: int | None
    position: Callable[[], int]
    close: Callable[[], None]

    def __enter__(self) -> OpenedFile:
        """Return the table itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


def checked_header(names: Sequence[str], where: str = "line 1") -> tuple[str, ...]:
    """Return the names of the columns, if they can name columns.

    Columns are named by number: a file without a header has values in its first row.

    Raises
    ------
    Invalid
        A name is empty, duplicate or has invalid characters; or there are too many
        columns.
    """
    if len(names) > MAX_COLUMNS:
        raise Invalid(
            f"{len(names):,} columns are too many",
            why=f"at most {MAX_COLUMNS:,} columns can be loaded",
            fix="drop the columns that the policy does not name",
        )
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise Invalid(
                f"column {number} has no name",
                why=f"the first row ({where}) must name every column",
                fix="give the column a name in the header, or remove the column",
            )
        if name in seen:
            raise Invalid(
                f"columns {seen[name]} and {number} have the same name",
                why="a cell could not be distinguished from the other of that name",
                fix=f"rename one of the two in the header ({where})",
            )
        if "\0" in name or not _is_text(name):
            raise Invalid(
                f"the name of column {number} has NUL or undecodable bytes",
                why=f"the first row ({where}) is not clean text",
                fix="correct the header, or name the encoding with --encoding",
            )
        seen[name] = number
    return tuple(names)


def cell_fault(row: Sequence[str]) -> tuple[int, str] | None:
    """Return (index, reason) of the first cell that is not allowed, if any."""
    whole = "".join(row)
    if len(whole) <= MAX_CELL and "\0" not in whole and _is_text(whole):
        if BOM in whole and row[0].startswith(BOM):
            return 0, "a byte order mark inside the file: were several files joined?"
        return None
    for index, cell in enumerate(row):
        reason = _why_no_cell(cell)
        if reason:
            return index, reason
    return None


def _why_no_cell(cell: str) -> str:
    if "\0" in cell:
        return "a NUL byte"
    if UNDECODED in cell:
        return "bytes that are not text in the file's encoding"
    if not _is_text(cell):
        return "half of a surrogate pair"
    too_long = len(cell) > MAX_CELL
    return f"a cell longer than {MAX_CELL:,} characters" if too_long else ""


def _is_text(cell: str) -> bool:
    """Whether the text can be encoded: it has no lone surrogate."""
    if cell.isascii():
        return True
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_text(value: object) -> str:
    """Render a typed value canonically: whole numbers without a point, ISO 8601.

    None is the empty cell; truth values are ``true`` and ``false``.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        exact = value.is_integer() and abs(value) < 1e16
        return str(int(value)) if exact else repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date | time):
        return value.isoformat()
    return _duration(value) if isinstance(value, timedelta) else str(value)


def _duration(value: timedelta) -> str:
    """Hours, minutes, seconds; hours may pass 24."""
    whole, rest = divmod(abs(value), timedelta(seconds=1))
    minutes, second = divmod(whole, 60)
    hour, minute = divmod(minutes, 60)
    sign = "-" if value < timedelta(0) else ""
    fraction = f".{rest.microseconds:06d}".rstrip("0") if rest else ""
    return f"{sign}{hour:02d}:{minute:02d}:{second:02d}{fraction}"
