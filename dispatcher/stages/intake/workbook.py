"""Excel sheets: cells rendered as text, one way only.

The format of a cell is not part of its value: a number shown with leading zeros is
loaded without them unless the sheet holds it as text.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.source import IN_MEMORY, MAX_RATIO, RATIO_FREE, Source
from dispatcher.stages.intake.table import (
    Batch,
    Rejected,
    cell_fault,
    checked_header,
    plain_text,
)

MAX_MEMBERS: Final = 10_000
MAX_CELLS: Final = 20_000_000  # of the smallest rectangle around all cells of a sheet
REFERENCE: Final = 20  # bytes; no reference to a cell is longer

_CELL = re.compile(rb'\br="([A-Z]{1,3})([0-9]{1,7})"')


class WorkbookReader:
    """Batches of rows of the first sheet that has any.

    Raises
    ------
    Invalid
        The workbook is damaged, a bomb, empty, or its reader is not installed.
    """

    def __init__(self, source: Source, batch_rows: int) -> None:
        data = source.everything()
        if data.startswith(b"PK"):
            _no_bomb(data, source.name, source.max_bytes)
        self.sheet, self.others, self._rows = _first_sheet(data, source.name)
        self._batch_rows = batch_rows
        self.columns, self._line = self._header(source.name)

    def _header(self, name: str) -> tuple[tuple[str, ...], int]:
        for number, row in enumerate(self._rows, 1):
            if any(cell != "" for cell in row):
                names = [plain_text(cell) for cell in row]
                while not names[-1]:
                    names.pop()
                return checked_header(names, f"row {number}"), number
        raise Invalid(
            f"{name} has no header",
            why="every sheet of it is empty",
            fix="check the workbook: the first row must name the columns",
        )

    def batches(self) -> Iterator[Batch]:
        """Yield all rows that have a cell, once."""
        batch = Batch(self.columns)
        for line, cells in enumerate(self._rows, self._line + 1):
            row = [plain_text(cell) for cell in cells]
            if not any(row):
                continue
            self._add(row, line, batch)
            if len(batch.rows) + len(batch.rejected) >= self._batch_rows:
                yield batch
                batch = Batch(self.columns)
        if batch.rows or batch.rejected:
            yield batch

    def _add(self, row: list[str], line: int, batch: Batch) -> None:
        width = len(self.columns)
        if any(row[width:]):
            reason = f"a cell right of the last named column ({width:,})"
            batch.rejected.append(Rejected(line, "", reason))
            return
        row = row[:width] + [""] * (width - len(row))
        fault = cell_fault(row)
        if fault is None:
            batch.rows.append(row)
            batch.lines.append(line)
        else:
            batch.rejected.append(Rejected(line, self.columns[fault[0]], fault[1]))


def _first_sheet(
    data: bytes, name: str
) -> tuple[str, list[str], Iterator[Sequence[Any]]]:
    try:
        import python_calamine  # noqa: PLC0415 - an extra
    except ImportError:
        raise Invalid(
            f"{name} is a workbook, and the reader for workbooks is not installed",
            why="it is an extra",
            fix="pip install 'sparsi-dispatcher[excel]', or save the sheet as CSV",
        ) from None
    try:
        book = python_calamine.load_workbook(io.BytesIO(data))
        for title in book.sheet_names:
            sheet = book.get_sheet_by_name(title)
            if sheet.height:
                others = [other for other in book.sheet_names if other != title]
                return title, others, sheet.iter_rows()
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise Invalid(
            f"{name} cannot be read as a workbook",
            why=f"it is damaged, encrypted or of a kind not known "
            f"({type(error).__name__})",
            fix="open it in a spreadsheet program and save it as CSV",
        ) from None
    return "", [], iter(())


def _no_bomb(data: bytes, name: str, max_bytes: int) -> None:
    """Unpack every member once, counting, before anything trusts the claimed sizes."""
    limit = min(max_bytes, IN_MEMORY)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise _bomb(name, f"it has more than {MAX_MEMBERS:,} parts")
            _check_kind({member.filename for member in members}, name)
            total = 0
            for member in members:
                with archive.open(member) as part:
                    corner = _Corner(member.filename)
                    while block := part.read(1 << 20):
                        total += len(block)
                        _check_size(total, limit, len(data), name)
                        corner.look(block, name)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Invalid(
            f"{name} is broken",
            why=f"its parts cannot be unpacked ({type(error).__name__})",
            fix="save it anew, without a password",
        ) from None


def _check_kind(members: set[str], name: str) -> None:
    if "xl/workbook.xml" not in members and "[Content_Types].xml" in members:
        raise Invalid(
            f"{name} is no Excel workbook of a kind that can be loaded",
            why="of the zipped kinds only .xlsx and .xlsm can be checked before reading",
            fix="open it in a spreadsheet program and save it as .xlsx or CSV",
        )


def _check_size(total: int, limit: int, stored: int, name: str) -> None:
    if total > limit:
        raise _bomb(name, f"it unpacks to over {limit:,} bytes")
    if total > RATIO_FREE and total > MAX_RATIO * stored:
        raise _bomb(name, f"it unpacks to over {MAX_RATIO} times its size")


class _Corner:
    """The lowest and the rightmost cell of a sheet, as its bytes go by.

    The reader makes room for the whole rectangle of a sheet, so that one cell far off
    would fill the memory.
    """

    def __init__(self, member: str) -> None:
        self._is_sheet = member.startswith("xl/worksheets/")
        self._row = self._column = 0
        self._carry = b""

    def look(self, block: bytes, name: str) -> None:
        if not self._is_sheet:
            return
        text = self._carry + block
        self._carry = text[-REFERENCE:]
        for letters, digits in set(_CELL.findall(text)):
            self._row = max(self._row, int(digits))
            column = 0
            for letter in letters:
                column = column * 26 + letter - 64
            self._column = max(self._column, column)
        if self._row * self._column > MAX_CELLS:
            raise _bomb(
                name,
                f"one sheet spans {self._row:,} rows x {self._column:,} columns, "
                f"over {MAX_CELLS:,} cells",
            )


def _bomb(name: str, why: str) -> Invalid:
    return Invalid(
        f"{name} is refused",
        why=f"{why}; a small file that unpacks to a huge one can fill memory",
        fix="if it is genuine, save the sheet as CSV and load that",
    )
