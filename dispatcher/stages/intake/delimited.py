"""CSV and TSV: find the delimiter, keep quoted line ends, reject broken rows singly.

The rules for quotes are strict: what RFC 4180 does not define is rejected, never
guessed, so that a loaded cell is exactly the written one.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Final

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.encoding import Lines
from dispatcher.stages.intake.table import (
    BATCH_CHARACTERS,
    MAX_CELL,
    RejectedRow,
    RowBatch,
    cell_fault,
    checked_header,
)

DELIMITERS: Final = (",", ";", "\t", "|")
SPOKEN: Final = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
UNUSUAL: Final = ("^", "~", "\u00a6", ":", "\x1f", "\x01")
SAMPLE_ROWS: Final = 200
RIVAL: Final = 0.9  # of the best one's share: counts as equally good
AGREEING: Final = 0.5  # share of rows with the width of the header: like a table
MAX_RETURNS: Final = 1_000  # most restarts of reading after a stray quote

_ALIGNED = re.compile(r"\S {2,}\S")

AGAIN: Final = "the header once more: were several files joined?"
SPACED: Final = "a space before a quote: it is uncertain whether it opens a cell"
UNCLOSED: Final = "a quote opens here and is never closed"


def find_delimiter(
    sample: str, *, whole: bool, prefer: str | None = None, surely: bool = True
) -> str:
    r"""Return the delimiter that cuts most rows to the width of the header.

    Of several such delimiters, one whose every occurrence may be punctuation inside a
    cell (a decimal comma, or a sign followed by a space) is ranked last.

    Parameters
    ----------
    sample : str
        The beginning of the text.
    whole : bool
        Whether that is the whole text, so that its last row is complete.
    prefer : str or None
        Wins a tie: a tab for ``.tsv``.
    surely : bool
        Whether the file is declared to be a table; else it must look like one.

    Raises
    ------
    Invalid
        Several delimiters fit equally well. The header contains a delimiter, but no
        delimiter gives rows of its width; or, if not `surely` a table, only few.
    """
    named = _sep_line(sample)
    if named is not None:
        return named
    scores = {d: _agreement(sample, d, whole=whole) for d in DELIMITERS}
    cutting = [d for d in DELIMITERS if scores[d][1] > 1]
    if not cutting:
        _refuse_other_shapes(sample, whole=whole)
        return prefer or ","  # one column
    best = max(cutting, key=lambda d: scores[d][0])
    share, width, other = scores[best]
    if not share or (share < AGREEING and not surely):
        raise Invalid(
            "the file is no table",
            why="whatever the delimiter (comma, semicolon, tab or bar), most rows have "
            "not as many columns as the first one: by "
            f"{SPOKEN[best]}s the first row has {width}, the next ones mostly {other}",
            fix="make the first line the header of the rows below it, or name the "
            "delimiter with --delimiter",
        )
    rivals = [d for d in cutting if scores[d][0] >= share * RIVAL]
    if prefer in rivals:
        return prefer
    cutters = [d for d in rivals if not _is_punctuation(sample, d)] or rivals
    if len(cutters) > 1:
        raise _tie(cutters, scores)
    return cutters[0]


def _refuse_other_shapes(sample: str, *, whole: bool) -> None:
    """Refuse a file with one column only because its first line is no header.

    Raises
    ------
    Invalid
        Lines precede the header, or another sign or spaces separate the columns.
    """
    lines = [line for line in sample.splitlines() if line.strip()]
    lines = lines[: SAMPLE_ROWS if whole else -1]
    below = lines[1:]
    for mark in (*DELIMITERS, *UNUSUAL):
        counts = Counter(line.count(mark) for line in below)
        usual, rows = counts.most_common(1)[0] if below else (0, 0)
        if not usual or rows < AGREEING * len(below):
            continue
        if mark in DELIMITERS and usual and rows > 1:
            raise Invalid(
                "the first line of the file does not name its columns",
                why=f"it has one column, and {rows:,} of the {len(below):,} lines looked "
                f"at below it have {usual + 1} by {SPOKEN[mark]}s",
                fix="take out the lines before the header",
            )
        if mark in UNUSUAL and lines[0].count(mark) == usual and rows == len(below):
            raise Invalid(
                "the delimiter of the file is uncertain",
                why="no comma, semicolon, tab or bar divides its lines, and another sign "
                "stands in each of them equally often",
                fix="if it divides columns, name it with --delimiter; else name the one "
                "column's end: --delimiter ','",
            )
    if below and all(_ALIGNED.search(line) for line in lines):
        raise Invalid(
            "the columns of the file are divided by spaces",
            why="each line has several spaces between words; where one column ends "
            "is uncertain",
            fix="save it as CSV",
        )


def _is_punctuation(sample: str, delimiter: str) -> bool:
    """Whether each occurrence may be part of a cell: ``1,50`` or ``Smith, Ann``."""
    mark = re.escape(delimiter)
    signs = len(re.findall(mark, sample))
    inside = len(re.findall(rf"(?<=\d){mark}(?=\d)|{mark}(?= )", sample))
    return delimiter != "\t" and inside == signs


def _tie(
    cutters: Sequence[str], scores: Mapping[str, tuple[float, int, int]]
) -> Invalid:
    ways = " and ".join(f"{SPOKEN[d]}s ({scores[d][1]} columns)" for d in cutters)
    return Invalid(
        "the delimiter of the file is uncertain",
        why=f"the rows can be cut equally well by {ways}",
        fix="name the delimiter, for example --delimiter ';'",
    )


def _sep_line(sample: str) -> str | None:
    """Spreadsheets may write ``sep=;`` on a line before the header."""
    line = "".join(sample[:10].splitlines()[:1]).strip('"')
    return line[4] if len(line) == 5 and line.lower().startswith("sep=") else None


def _agreement(sample: str, delimiter: str, *, whole: bool) -> tuple[float, int, int]:
    """Return the share of rows as wide as the header, that width, the usual width."""
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    with suppress(csv.Error):  # what was read so far is the sample
        rows.extend(row for row in islice(reader, SAMPLE_ROWS) if row)
    if not whole and 1 < len(rows) < SAMPLE_ROWS:
        rows.pop()  # it may be cut
    if not rows:
        return 0.0, 0, 0
    width = len(rows[0])
    if len(rows) == 1:
        return 1.0, width, width
    widths = Counter(len(row) for row in rows[1:])
    return widths[width] / len(rows[1:]), width, widths.most_common(1)[0][0]


class DelimitedReader:
    """Batches of rows from the lines of a delimited text.

    Parameters
    ----------
    lines : Lines
    delimiter : str
    batch_rows : int

    Raises
    ------
    Invalid
        There is no usable header.
    """

    def __init__(self, lines: Lines, delimiter: str, batch_rows: int) -> None:
        csv.field_size_limit(MAX_CELL)
        self._lines = lines
        self._source = iter(lines)
        self._delimiter = delimiter
        self._batch_rows = batch_rows
        self._start = 1  # line on which the next row begins
        self._returns = 0
        self._spaced = f'{delimiter} "'
        self.columns = self._header()
        self._names = list(self.columns)

    def _reader(self) -> Iterator[list[str]]:
        return csv.reader(self._source, delimiter=self._delimiter, strict=True)

    def _header(self) -> tuple[str, ...]:
        row: list[str] = []
        try:
            for row in self._reader():
                if row and not (
                    self._lines.number == 1 and _sep_line("".join(self._lines.held))
                ):
                    break
                self._lines.held.clear()
        except csv.Error:
            raise Invalid(
                "the header cannot be read",
                why="a quote in the first row is not closed, or a name is too long",
                fix="correct the first row of the file",
            ) from None
        if not row:
            raise Invalid(
                "the file has no header",
                why="every line of it is blank",
                fix="check the file: its first row must name the columns",
            )
        where = f"line {self._lines.number - len(self._lines.held) + 1}"
        self._lines.held.clear()
        self._start = self._lines.number + 1
        return checked_header(row, where)

    def batches(self) -> Iterator[RowBatch]:
        """Yield all rows, once; the last batch may be empty of rows.

        Raises
        ------
        Invalid
            A quoted cell exceeds the length limit, so that what follows cannot be read
            safely. Earlier batches stay valid.
        """
        while True:
            batch = RowBatch(self.columns)
            more = self._fill(batch)
            if batch.rows or batch.rejected:
                yield batch
            if not more:
                return

    def _fill(self, batch: RowBatch) -> bool:
        """Read rows into the batch; return whether there may be more."""
        lines, held = self._lines, self._lines.held
        width = len(self.columns)
        room = self._batch_rows
        characters = 0
        first_line = self._start
        reader = self._reader()
        while True:
            try:
                for row in reader:
                    start = self._start
                    self._start = start + len(held)
                    if len(held) > 1:
                        characters += sum(map(len, held))
                    else:
                        characters += len(held[0])
                    odd = self._spaced in held[0]
                    held.clear()
                    if (
                        len(row) == width
                        and start > lines.suspect_until
                        and not odd
                        and row != self._names
                    ):
                        batch.rows.append(row)
                        batch.lines.append(start)
                    else:
                        self._doubtful(row, start, batch)
                    room -= 1
                    if room <= 0 or characters >= BATCH_CHARACTERS:
                        return True
            except csv.Error as error:
                self._broken(error, batch)
                reader = self._reader()
                continue
            assert self._start >= first_line
            return False

    def _doubtful(self, row: list[str], start: int, batch: RowBatch) -> None:
        if not row:
            return  # a blank line is no row
        if len(row) != len(self.columns):
            reason = f"{len(row):,} columns, expected {len(self.columns):,}"
            batch.rejected.append(RejectedRow(start, "", reason))
            return
        if row == self._names:
            batch.rejected.append(RejectedRow(start, "", AGAIN))
            return
        spaced = [
            at for at, c in enumerate(row) if c[:1] == " " and c.lstrip()[:1] == '"'
        ]
        fault = (spaced[0], SPACED) if spaced else cell_fault(row)
        if fault is None:
            batch.rows.append(row)
            batch.lines.append(start)
        else:
            batch.rejected.append(RejectedRow(start, self.columns[fault[0]], fault[1]))

    def _broken(self, error: csv.Error, batch: RowBatch) -> None:
        """Reject the row that csv could not read, and continue after it."""
        start, held = self._start, list(self._lines.held)
        self._lines.held.clear()
        too_long = "field larger" in str(error)
        if self._lines.ended and "unexpected end" in str(error):
            # No quote closes it, so the lines after it are separate rows.
            self._returns += 1
            if self._returns > MAX_RETURNS:
                raise _beyond_repair(start)
            batch.rejected.append(RejectedRow(start, "", UNCLOSED))
            self._start = start + 1
            self._source = self._again(held[1:])
            return
        if too_long and len(held) > 1:
            raise _beyond_repair(start)
        reason = (
            f"a cell longer than {MAX_CELL:,} characters"
            if too_long
            else "a quote that does not open or close a cell"
        )
        if len(held) > 1:
            reason += f" (lines {start} to {start + len(held) - 1})"
        batch.rejected.append(RejectedRow(start, "", reason))
        self._start = start + len(held)

    def _again(self, lines: list[str]) -> Iterator[str]:
        """Yield lines again, retained as the first time."""

        def repeated() -> Iterator[str]:
            for line in lines:
                self._lines.held.append(line)
                yield line

        return chain(repeated(), self._source)


def _beyond_repair(line: int) -> Invalid:
    return Invalid(
        f"reading stopped at line {line}: a quote opens there and does not close",
        why=f"a cell of more than {MAX_CELL:,} characters is no cell; the rows before "
        "that line are read, none after it",
        fix="correct that line and load again: rows that are in already are skipped",
    )
