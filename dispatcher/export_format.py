"""The format of exports: records with their answers, as CSV, JSON lines or Parquet.

First the loaded columns, then those of :data:`COLUMNS` for each asked field, in the order
of the policy. A column that is added there, with the next ``since``, is written, recognised
when the file is loaded again, and rewritten by an erasure; exports of earlier versions are
recognised still. Where its cell needs more than a :class:`Filled` has, the store reads that
too (``dispatcher.store.answers.FilledRow``).
"""

from __future__ import annotations

import csv
import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeVar

from connectors.formats.feed_files import json_line
from connectors.formats.formula_guard import guard, unguard
from dispatcher.core.errors import Invalid
from policies.answers.validation import Mark

FORMS: Final = ("csv", "jsonl", "parquet")
STREAMED: Final = FORMS[:2]
"""Formats that can be streamed."""

STATES: Final = ("answered", "illegible", "not_present", "conflict", "open", "empty")
"""States of an asked field; ``empty``: there was nothing to ask for."""

CONSENSUS: Final = "consensus"
OPERATOR: Final = "operator"
"""Who decided on an answer."""

Cell = str | float | None

_MARKED: Final = {f"[{mark.value}]".encode(): mark.value for mark in Mark}
_SAMPLE: Final = 100_000
"""Rows examined to find whether a file is guarded."""
_LONGEST: Final = 1 << 22
"""Characters of a cell of an export: more than a load takes."""


class Filled(Protocol):
    """State of one entry of a record."""

    @property
    def value(self) -> bytes | None:
        """The agreed answer, or the best guess in a conflict."""

    @property
    def confidence(self) -> float | None:
        """Its probability of being right."""

    @property
    def state(self) -> str | None:
        """State of the result; None: it has no answer."""

    @property
    def judged_by(self) -> str | None:
        """The operator who decided it; None: the consensus did."""


def state_of(entry: Filled | None) -> str:
    """State of an asked field, one of :data:`STATES`; None: the record has no entry."""
    if entry is None:
        return "empty"
    if entry.state is None or entry.value is None:
        return "open"
    if entry.state == "answered":
        return _MARKED.get(entry.value, "answered")
    return entry.state


def answer_of(entry: Filled | None) -> str:
    """Return the answer as text; empty if there is none, or the field is unreadable."""
    if state_of(entry) in ("empty", "open") or entry is None or entry.value is None:
        return ""
    return "" if entry.value in _MARKED else entry.value.decode("utf-8", "replace")


def confidence_of(entry: Filled | None) -> float | None:
    """Probability that the answer is right, to six digits; None where there is none.

    There is none of what an operator decided: it is no estimate.
    """
    if decided_by(entry) != CONSENSUS or entry is None:
        return None
    return None if entry.confidence is None else round(entry.confidence, 6)


def decided_by(entry: Filled | None) -> str:
    """Who decided on the answer: ``consensus`` or ``operator``; empty if there is none."""
    if state_of(entry) in ("empty", "open") or entry is None:
        return ""
    return CONSENSUS if entry.judged_by is None else OPERATOR


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column that each asked field gets: FIELD_SUFFIX.

    A cell is made of what there is of the field's entry (:class:`Filled`); what else it
    needs is read by ``store.answers.filled``.

    ``bare``: it is called FIELD alone where no loaded column has that name. ``since``: the
    layout that it came with; each layout has the columns of those before it.
    """

    suffix: str
    cell: Callable[[Filled | None], Cell]
    number: bool = False
    bare: bool = False
    since: int = 1


COLUMNS: Final = (
    ExportColumn("answer", answer_of, bare=True),
    ExportColumn("confidence", confidence_of, number=True),
    ExportColumn("state", state_of),
    ExportColumn("decided_by", decided_by, since=2),
)


@dataclass(frozen=True)
class Layout:
    """The columns of one export.

    Attributes
    ----------
    loaded : tuple of str
        Names of the loaded columns.
    added : tuple of tuple of str
        Names of :data:`COLUMNS` for each asked field; a name that is taken gets
        underscores behind it.
    """

    loaded: tuple[str, ...]
    added: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, loaded: Iterable[str], asked: Iterable[str]) -> Layout:
        """Lay out an export of some loaded columns and asked fields."""
        columns = tuple(dict.fromkeys(loaded))
        taken = set(columns)
        added = []
        for field in asked:
            names = []
            for column in COLUMNS:
                bare = column.bare and field not in columns
                name = field if bare else f"{field}_{column.suffix}"
                while name in taken:
                    name += "_"
                taken.add(name)
                names.append(name)
            added.append(tuple(names))
        return cls(columns, tuple(added))

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in order."""
        return (*self.loaded, *(name for names in self.added for name in names))

    @property
    def numbers(self) -> frozenset[str]:
        """Names of the columns with numbers."""
        return frozenset(
            name
            for names in self.added
            for name, column in zip(names, COLUMNS, strict=True)
            if column.number
        )

    def row(
        self, loaded: Sequence[Cell], entries: Iterable[Filled | None]
    ) -> list[Cell]:
        """Cells of a record: as they were loaded, then those of its asked fields."""
        return [*loaded, *(c.cell(entry) for entry in entries for c in COLUMNS)]


def write(
    stream: BinaryIO,
    form: str,
    names: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    guarded: bool = True,
) -> None:
    """Write an export to a stream.

    Parameters
    ----------
    stream : BinaryIO
    form : str
        One of :data:`STREAMED`.
    names : sequence of str
    rows : iterable of sequence of Cell
    guarded : bool
        CSV: put ``'`` before cells that a spreadsheet would run as a formula.

    Raises
    ------
    Invalid
        The form is none of these.
    """
    if form not in STREAMED:
        raise Invalid(
            f"records are streamed as {' or '.join(STREAMED)}, not as {form!r}",
            why="only these can be written from the first byte on",
            fix="use --format csv or jsonl, or name a file",
        )
    if form == "jsonl":
        for row in rows:
            stream.write(json_line(dict(zip(names, row, strict=True))))
        return
    safe: Callable[[str], str] = guard if guarded else str
    writer = csv.writer(_Encoded(stream))
    writer.writerow([safe(name) for name in names])
    for row in rows:
        writer.writerow(
            ["" if c is None else safe(c) if isinstance(c, str) else c for c in row]
        )


class _Encoded:
    """Text written to a stream as UTF-8.

    A text wrapper would close the stream when an error ends the writing, and the stream
    may be the program's own output.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text at once."""
        return self._stream.write(text.encode())


def load_polars() -> Any:  # noqa: ANN401 - a module of an optional package
    """Load the package that writes Parquet.

    Raises
    ------
    Invalid
        It is missing.
    """
    try:
        import polars  # noqa: PLC0415 - 175 MB that only Parquet needs
    except ImportError:
        raise Invalid(
            "Parquet cannot be written: the package polars is missing",
            why="it is installed with the extra `parquet` only",
            fix="run: pip install 'sparsi-dispatcher[parquet]'; or write CSV or JSONL",
        ) from None
    return polars


def write_parquet(path: Path, layout: Layout, lines: Path) -> None:
    """Write an export as Parquet from its JSON lines, so that memory stays small.

    Parameters
    ----------
    path : Path
        Where to.
    layout : Layout
    lines : Path
        The same export as ``jsonl``; it may be empty.

    Raises
    ------
    Invalid
        The package polars is missing.
    OSError
        The file cannot be written.
    """
    pl = load_polars()
    schema = {
        name: pl.Float64 if name in layout.numbers else pl.String
        for name in layout.names
    }
    try:
        if lines.stat().st_size:
            pl.scan_ndjson(lines, schema=schema).sink_parquet(path)
        else:
            pl.DataFrame(schema=schema).write_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise OSError(errno.EIO, "Parquet could not be written") from error


def is_export(columns: Sequence[str]) -> bool:
    """Whether columns end as those of an export do, guarded or not, of any layout so far.

    The last ones are the layout's columns of one field, each with underscores behind it
    where a loaded column had that name.
    """
    layouts = {column.since for column in COLUMNS}
    return any(
        _ends_with(columns, [c for c in COLUMNS if c.since <= layout])
        for layout in layouts
    )


def _ends_with(columns: Sequence[str], layout: Sequence[ExportColumn]) -> bool:
    if len(columns) < len(layout):
        return False
    names = [unguard(name).rstrip("_") for name in columns[-len(layout) :]]
    suffix = f"_{layout[-1].suffix}"
    field = names[-1].removesuffix(suffix)
    return field != names[-1] and all(
        name == f"{field}_{column.suffix}"
        or (column.bare and name == field.rstrip("_"))
        for name, column in zip(names, layout, strict=True)
    )


class ReadRows(Protocol):
    """Consecutive rows of a table that is read."""

    columns: tuple[str, ...]
    rows: list[Sequence[str]]


Batch = TypeVar("Batch", bound=ReadRows)


def unguarded(
    columns: Sequence[str], batches: Iterator[Batch]
) -> tuple[tuple[str, ...], Iterator[Batch]]:
    """Remove the formula guard from header and rows, restoring the original text."""
    names = tuple(unguard(name) for name in columns)

    def without() -> Iterator[Batch]:
        for batch in batches:
            batch.columns = names
            batch.rows = [
                # A guarded cell begins with ', so most rows are left as they are.
                [unguard(cell) for cell in row]
                if any(cell.startswith("'") for cell in row)
                else row
                for row in batch.rows
            ]
            yield batch

    return names, without()


@dataclass(frozen=True, slots=True)
class ExportForm:
    """How an export was written: its form, and for CSV whether formulas are guarded."""

    form: str
    guarded: bool


def how_written(path: Path) -> ExportForm:
    """Detect how an export was written, so that it can be rewritten alike.

    Raises
    ------
    OSError
        It cannot be read.
    """
    form = _form(path)
    if form != "csv":
        return ExportForm(form, guarded=False)
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
    with path.open(encoding="utf-8", errors="replace", newline="") as text:
        cells = (cell for row in islice(csv.reader(text), _SAMPLE) for cell in row)
        try:
            bare = any(guard(cell) != cell and unguard(cell) == cell for cell in cells)
        except csv.Error:  # it was edited; its values must go nevertheless
            bare = False
    return ExportForm(form, guarded=not bare)


def _form(path: Path) -> str:
    """Detect the format of an export by its bytes, whatever its name."""
    with path.open("rb") as file:
        head = file.read(4)
    if head.startswith(b"PAR1"):
        return "parquet"
    # Empty: no record, and no header. CSV puts a cell with a quote into quotes.
    return "jsonl" if not head or head.startswith(b'{"') else "csv"
