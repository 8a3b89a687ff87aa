"""Excel sheets: cells rendered canonically as text.

Numbers are loaded as they are stored, not as they are shown, except for the digits of a
format of zeros alone: ``00000`` shows 1234 as 01234. A cell without a text (an error,
a formula whose value was never stored, a nonexistent day, a cell merged into another)
makes its row rejected. The
library that reads sheets returns an empty cell or a midnight for it, or refuses the
whole workbook, so such cells are marked in the sheet before the library reads it.
"""

from __future__ import annotations

import io
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from xml.etree import ElementTree
from xml.parsers import expat

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.source import IN_MEMORY, MAX_RATIO, RATIO_FREE, Source
from dispatcher.stages.intake.table import (
    RejectedRow,
    RowBatch,
    cell_fault,
    checked_header,
    plain_text,
)

MAX_MEMBERS: Final = 10_000
MAX_CELLS: Final = 20_000_000  # of the smallest rectangle around all cells of a sheet
MAX_ROW, MAX_COLUMN = 1_048_576, 16_384  # XFD1048576 is the last cell of a sheet
SHEET: Final = b"sheetData"  # a part that is read as a sheet, wherever it lies, has it
MARK: Final = "\ue000no text:"  # in place of a cell without a text, before the reason
DAYS_TO_9999: Final = {False: 2_958_466, True: 2_957_004}  # by whether days begin 1904
LEAP_DAY: Final = 60  # 29 February 1900, which never was

EXACT: Final = 10**15  # below it a spreadsheet keeps every digit of a number
LONGEST: Final = 999_999_998  # days that a length of time may have

NOT_CALCULATED: Final = (
    "a formula without a stored value: open the file in a spreadsheet program, and "
    "save it"
)
MERGED: Final = (
    "a cell merged into another one: whether that one's value is meant here is "
    "uncertain. Unmerge the cells, and write the value into each of its rows"
)
DAY, CLOCK, LENGTH = "day", "clock", "length"
BUILT_IN: Final[Mapping[int, str]] = {
    **dict.fromkeys((*range(14, 18), 22, *range(27, 32), 36, *range(50, 55)), DAY),
    **dict.fromkeys((*range(18, 22), *range(32, 36), 45, 47, 55, 56), CLOCK),
    **dict.fromkeys((57, 58), DAY),
    46: LENGTH,
}
"""Formats that every workbook has, by number: which of them show a moment, or how long."""
Merged = Mapping[int, Sequence[tuple[int, int]]]
"""By row, from 0: the first and last column of each piece of a merged area."""

TRUE: Final = ("1", "true")
_CELL = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_TYPE = re.compile(rb"""\bt=["'](\w+)["']""")
_LONG: Final = re.compile(rb"[-+]?\d{16,300}")
_STYLE = re.compile(rb"""\bs=["'](\d+)["']""")
_PLACE = re.compile(rb"""\br=["'][A-Z]{1,3}\d{1,7}["']""")
_TEXTS = re.compile(
    rb"""<(?:[^\s<>/!?:]+:)?sst\b(?:[^>"']|"[^"]*"|'[^']*')*>""", re.DOTALL
)
_COUNT = re.compile(rb"""\buniqueCount\s*=\s*["']([^"']*)""")
_FORMULA = re.compile(rb"\s*<(?:\w+:)?f\b")
_VALUE = re.compile(rb"<(?:\w+:)?v\b[^>]*(?:/>|>(.*?)</)", re.DOTALL)
_ERROR = re.compile(rb"#[A-Z0-9_/]{1,20}[!?]?")
_DIGITS = re.compile("[0 ()+-]*0[ ()+-]*0[0 ()+-]*")
_UNSHOWN = re.compile(r"\[[^\]]*\]|_.|\\(?=[^0])")
_NEVER_CALCULATED = re.compile(rb"""\bfullCalcOnLoad=["'](?:1|true)["']""")
_DATES_1904 = re.compile(rb"""\bdate1904=["'](?:1|true)["']""")
_NO_TOKENS = re.compile(
    r'"[^"]*"|\\.|[_*].|\[(?!h+\]|m+\]|s+\])[^\]]*\]|am/pm|a/p', re.IGNORECASE
)


class WorkbookReader:
    """Batches of rows of one sheet.

    Parameters
    ----------
    source : Source
    batch_rows : int
    wanted : str or None
        Name of the sheet; None: the first one that is visible and has a cell.

    Raises
    ------
    Invalid
        The workbook is damaged, a bomb, empty, has no such sheet, or its reader is not
        installed.
    """

    def __init__(
        self, source: Source, batch_rows: int, wanted: str | None = None
    ) -> None:
        data = source.everything()
        _no_bomb(data, source.name, source.max_bytes)
        marked, hidden = _with_marks(data, source.name)
        self.sheet, self.notes, self._rows, self._merged = _sheet(
            marked, source.name, wanted
        )
        self.notes += _hidden_parts(hidden.get(_part_of(marked, self.sheet), (0, 0)))
        self._batch_rows = batch_rows
        self.columns, self._line = self._header(source.name)

    def _header(self, name: str) -> tuple[tuple[str, ...], int]:
        for number, row in enumerate(self._rows, 1):
            if any(cell != "" for cell in row):
                names = [plain_text(cell) for cell in row]
                while not names[-1]:
                    names.pop()
                _no_marks(names, number)
                return checked_header(names, f"row {number}"), number
        raise Invalid(
            f"{name} has no header",
            why="every visible sheet of it is empty"
            if not self.sheet
            else f"the sheet {self.sheet} is empty",
            fix="check the workbook: the first row must name the columns; --sheet "
            "reads another sheet, also a hidden one",
        )

    def batches(self) -> Iterator[RowBatch]:
        """Yield all rows that have a cell, once."""
        batch = RowBatch(self.columns)
        for line, cells in enumerate(self._rows, self._line + 1):
            row = [plain_text(cell) for cell in cells]
            if not any(row):
                continue
            self._add(row, line, batch)
            if len(batch.rows) + len(batch.rejected) >= self._batch_rows:
                yield batch
                batch = RowBatch(self.columns)
        if batch.rows or batch.rejected:
            yield batch

    def _add(self, row: list[str], line: int, batch: RowBatch) -> None:
        width = len(self.columns)
        if any(row[width:]):
            reason = f"a cell right of the last named column ({width:,})"
            batch.rejected.append(RejectedRow(line, "", reason))
            return
        row = row[:width] + [""] * (width - len(row))
        for first, last in self._merged.get(line - 1, ()):
            for column in range(first, min(last + 1, width)):
                if not row[column]:
                    rejected = RejectedRow(line, self.columns[column], MERGED)
                    batch.rejected.append(rejected)
                    return
        for name, cell in zip(self.columns, row, strict=True):
            if cell.startswith(MARK):
                batch.rejected.append(RejectedRow(line, name, cell.removeprefix(MARK)))
                return
        fault = cell_fault(row)
        if fault is None:
            batch.rows.append(row)
            batch.lines.append(line)
        else:
            batch.rejected.append(RejectedRow(line, self.columns[fault[0]], fault[1]))


def _no_marks(names: Sequence[str], row: int) -> None:
    for number, name in enumerate(names, 1):
        if name.startswith(MARK):
            raise Invalid(
                f"column {number} has no name",
                why=f"its cell in the first row (row {row}) has no text: "
                + name.removeprefix(MARK),
                fix="write the name of the column as text",
            )


def _sheet(
    data: bytes, name: str, wanted: str | None
) -> tuple[str, list[str], Iterator[Sequence[Any]], Merged]:
    """Return the sheet's name, a note on the others, its rows, and merged cells."""
    try:
        import python_calamine as calamine  # noqa: PLC0415 - an extra
    except ImportError:
        raise Invalid(
            f"{name} is a workbook, and the reader for workbooks is not installed",
            why="it is an extra",
            fix="pip install 'sparsi-dispatcher[excel]', or save the sheet as CSV",
        ) from None
    try:
        book = calamine.load_workbook(io.BytesIO(data))
        titles = list(book.sheet_names)
        visible = [
            sheet.name
            for sheet in book.sheets_metadata
            if sheet.visible == calamine.SheetVisibleEnum.Visible
        ]
        if wanted is not None and wanted not in titles:
            raise _no_sheet(name, wanted, titles)
        for title in visible if wanted is None else [wanted]:
            sheet = book.get_sheet_by_name(title)
            if sheet.height or wanted is not None:
                notes = _others(titles, visible, title)
                return title, notes, sheet.iter_rows(), _merged(sheet)
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise Invalid(
            f"{name} cannot be read as a workbook",
            why=f"it is damaged, encrypted or of a kind not known "
            f"({type(error).__name__})",
            fix="open it in a spreadsheet program and save it as CSV",
        ) from None
    return "", [], iter(()), {}


def _merged(
    sheet: Any,  # noqa: ANN401 - of an optional library
) -> Merged:
    """Return the merged areas by row, without the cell of each that has the value."""
    areas: dict[int, list[tuple[int, int]]] = {}
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or ():
        for row in range(top, min(bottom, MAX_ROW) + 1):
            first = left + 1 if row == top else left
            if first <= right:
                areas.setdefault(row, []).append((first, right))
    return areas


def _part_of(data: bytes, title: str) -> str:
    """Return the part of a workbook that holds the sheet; empty if that is unknown."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            book = _tree(archive.read("xl/workbook.xml"))
            links = _tree(archive.read("xl/_rels/workbook.xml.rels"))
    except (KeyError, ElementTree.ParseError, ValueError):
        return ""
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    for sheet in book.iter():
        if sheet.tag.rpartition("}")[2] == "sheet" and sheet.get("name") == title:
            key = next((v for k, v in sheet.attrib.items() if k.endswith("}id")), None)
            target = targets.get(key, "")
            return target[1:] if target.startswith("/") else f"xl/{target}"
    return ""


def _hidden_parts(hidden: tuple[int, int]) -> list[str]:
    """Return a note on rows and columns that people do not see in the sheet."""
    parts = [
        f"{count:,} {name}{'s' if count > 1 else ''}"
        for count, name in zip(hidden, ("row", "column"), strict=True)
        if count
    ]
    if not parts:
        return []
    verb = "is" if sum(hidden) == 1 else "are"
    return [f"{' and '.join(parts)} of the sheet {verb} hidden, and read too"]


def _no_sheet(name: str, wanted: str, titles: Sequence[str]) -> Invalid:
    shown = ", ".join(titles[:10]) + (", ..." if len(titles) > 10 else "")
    return Invalid(
        f"{name} has no sheet {wanted}",
        why=f"its sheets are: {shown}",
        fix="name one of them with --sheet",
    )


def _others(titles: Sequence[str], visible: Sequence[str], title: str) -> list[str]:
    left = [other for other in titles if other != title]
    hidden = sum(other not in visible for other in left)
    if not left:
        return []
    note = f"{len(left)} other sheet{'s are' if len(left) > 1 else ' is'} not read"
    return [note + (f" ({hidden} hidden)" if hidden else "")]


def _with_marks(data: bytes, name: str) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Return the workbook, its cells without a text replaced by a mark and a reason.

    It is written anew, so that its directory of parts is true for any reader. Beside it
    stand the numbers of hidden rows and columns of each part that is a sheet.

    Raises
    ------
    Invalid
        A sheet has a cell where no sheet has one, or one too far off, or a part claims
        to hold more than it does.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = set(old.namelist())
        styles = {}
        if "xl/styles.xml" in names:
            styles = _styles(old.read("xl/styles.xml"), name)
        book = old.read("xl/workbook.xml") if "xl/workbook.xml" in names else b""
        from_1904 = _DATES_1904.search(book) is not None
        calculated = _NEVER_CALCULATED.search(book) is None
        hidden = {}
        doubtful = _doubtful(styles)

        def mark(cell: re.Match[bytes]) -> bytes:
            if _FORMULA.match(cell["body"]) and not calculated:
                reason: str | None = NOT_CALCULATED
            else:
                reason = _why_no_text(
                    cell["attributes"], cell["body"], styles, from_1904
                )
            if reason is None:
                return b""
            shown = _digits(cell["attributes"], cell["body"], styles)
            if not reason and not shown:
                return cell[0]
            place = _PLACE.search(cell["attributes"])
            text = (MARK + reason if reason else shown).encode()
            tag, value = cell["tag"], cell["tag"][:-1] + b"v"
            return b'<%b %b t="str"><%b>%b</%b></%b>' % (
                tag, place[0] if place else b"", value, text, value, tag
            )  # fmt: skip

        for member in old.infolist():
            content = old.read(member)
            if SHEET in content:
                hidden[member.filename] = _check_corner(content, name)
                content = doubtful.sub(mark, content)
            _check_count(content, name)
            new.writestr(member.filename, content)
    return out.getvalue(), hidden


def _doubtful(styles: Mapping[int, str]) -> re.Pattern[bytes]:
    """Match cells that may have no text: errors, formulas, moments, long numbers."""
    numbers = "|".join(map(str, styles)) or "none"
    return re.compile(
        rb"<(?P<tag>(?:\w+:)?c)\b(?="
        rb"""[^>]*\bt=["']e["']"""
        rb"|[^>]*(?<!/)>\s*<(?:\w+:)?f\b"
        rb"""|[^>]*\bt=["']s["'][^>]*(?<!/)>(?!\s*<(?:\w+:)?v>\s*\d+\s*<)"""
        rb"""|[^>]*\bs=["'](?:%b)["']"""
        rb"|[^>]*(?<!/)>\s*<(?:\w+:)?v>\s*[-+]?\d{16,}\s*<"
        rb")(?P<attributes>[^>]*)(?<!/)>(?P<body>.*?)</(?P=tag)>" % numbers.encode(),
        re.DOTALL,
    )


def _why_no_text(
    attributes: bytes, body: bytes, styles: Mapping[int, str], from_1904: bool
) -> str | None:
    """Return why a cell has no text; empty if it has one, None if it is empty."""
    kind = _TYPE.search(attributes)
    value = _VALUE.search(body)
    text = (value[1] or b"").strip() if value else b""
    if kind and kind[1] == b"e":
        error = _ERROR.fullmatch(text)
        return f"the cell is an error: {error[0].decode() if error else '#?'}"
    if kind and kind[1] == b"s" and not text.isdigit():
        return "a text that the workbook does not hold" if text else None
    if _FORMULA.match(body) and not text:
        # A text may be empty; other values are not.
        has_text = b"<is" in body or (kind and kind[1] == b"str" and value)
        return "" if has_text else NOT_CALCULATED
    if (kind and kind[1] != b"n") or not text:
        return ""
    style = _STYLE.search(attributes)
    shown = styles.get(int(style[1])) if style else None
    is_moment = shown in (DAY, CLOCK, LENGTH)
    return _why_no_moment(text, shown, from_1904) if is_moment else _why_no_number(text)


def _digits(attributes: bytes, body: bytes, styles: Mapping[int, str]) -> str:
    """Return the digits that a format of zeros shows; empty for any other cell."""
    kind, style = _TYPE.search(attributes), _STYLE.search(attributes)
    shown, value = styles.get(int(style[1])) if style else None, _VALUE.search(body)
    if not shown or not shown.count("0") or (kind and kind[1] != b"n") or not value:
        return ""
    try:
        number = Decimal((value[1] or b"").strip().decode())
    except (InvalidOperation, UnicodeDecodeError):
        return ""
    if not number.is_finite() or number != int(number) or abs(number) >= EXACT:
        return ""
    zeros = shown.count("0")
    digits = str(abs(int(number))).zfill(zeros)
    more = len(digits) - zeros  # digits than zeros; the first zero takes them all
    rest = iter((digits[: more + 1], *digits[more + 1 :]))
    text = "".join(next(rest) if sign == "0" else sign for sign in shown)
    return f"-{text}" if number < 0 else text


def _why_no_number(text: bytes) -> str:
    if _LONG.fullmatch(text) and int(text) != int(float(text)):
        return "a number of more digits than a spreadsheet keeps: write it as a text"
    return ""


def _why_no_moment(text: bytes, shown: str | None, from_1904: bool) -> str:
    try:
        days = float(text)
    except ValueError:
        return "not a number"
    if not math.isfinite(days) or (shown == LENGTH and abs(days) > LONGEST):
        return "a number that is no time"
    if shown == LENGTH:
        return ""
    reasons = {
        "a negative date or time": days < 0,
        "a day before the calendar of the workbook begins": shown == DAY and days < 1,
        "a day after the year 9999": days >= DAYS_TO_9999[from_1904],
        "29 February 1900, which never was": shown == DAY
        and not from_1904
        and LEAP_DAY <= days < LEAP_DAY + 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _styles(xml: bytes, name: str) -> dict[int, str]:
    """Return which styles of cells show a day, a clock or digits, by number.

    Raises
    ------
    Invalid
        They cannot be read: a day that has no text would be read as another.
    """
    try:
        return _moments(_tree(xml))
    except (ElementTree.ParseError, LookupError, ValueError):
        raise _refused(name, "its styles cannot be read") from None


def _tree(xml: bytes) -> ElementTree.Element:
    """Parse a part; one that declares types or is huge, as no program's, is none."""
    if b"<!" in xml.replace(b"<!--", b"") or len(xml) > 64 << 20:
        raise ValueError
    return ElementTree.fromstring(xml)  # noqa: S314 - it declares no entities


def _moments(root: ElementTree.Element) -> dict[int, str]:
    shown = dict(BUILT_IN)
    for part in root.iter():
        if part.tag.rpartition("}")[2] == "numFmt":
            number, code = part.get("numFmtId", ""), part.get("formatCode", "")
            if number.isdecimal():
                shown.update({int(number): _shown(code)})
    styles = next((p for p in root if p.tag.rpartition("}")[2] == "cellXfs"), ())
    formats = [int(style.get("numFmtId", "0")) for style in styles]
    return {at: shown[n] for at, n in enumerate(formats) if shown.get(n)}


def _shown(code: str) -> str:
    """Return what a format shows: a moment, or digits; empty for other numbers."""
    tokens = set(_NO_TOKENS.sub("", code.partition(";")[0]).lower())
    if "[" in tokens:
        return LENGTH
    if tokens & {"y", "d"}:
        return DAY
    if tokens & {"h", "s"}:
        return CLOCK
    if "m" in tokens:
        return DAY
    digits = _UNSHOWN.sub("", code.partition(";")[0])
    return digits if _DIGITS.fullmatch(digits) else ""


DAMAGED: Final = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,  # a password is asked for
    EOFError,
    OSError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
)
"""What reading a damaged zip file raises."""


def _no_bomb(data: bytes, name: str, max_bytes: int) -> None:
    """Unpack every member once, counting, before anything trusts the claimed sizes."""
    limit = min(max_bytes, IN_MEMORY)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise _bomb(name, f"it has more than {MAX_MEMBERS:,} parts")
            parts = {member.filename for member in members}
            if len(parts) < len(members):
                raise _refused(name, "two parts of it have one name")
            _check_kind(parts, name)
            total = 0
            for member in members:
                with archive.open(member) as part:
                    while block := part.read(1 << 20):
                        total += len(block)
                        _check_size(total, limit, len(data), name)
    except DAMAGED as error:
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


def _check_corner(sheet: bytes, name: str) -> tuple[int, int]:
    """Refuse a sheet with a cell far off, or outside of any sheet.

    Return how many rows and columns that have cells are hidden. The reader of sheets makes room for the whole rectangle up to the lowest and the
    rightmost cell. Where it gets no room it ends this whole process.
    """
    row = column = lowest = rightmost = 0
    hidden = _Hidden()

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal row, column, lowest, rightmost
        kind, place = tag.rpartition(":")[2], attributes.get("r")
        hidden.begin(kind, attributes)
        if kind == "row":
            row, column = row + 1, 0
            if place is not None:
                row = int(place) if place.isdecimal() and place.isascii() else 0
        elif kind == "c":
            column += 1
            if place is not None:
                row, column = _place(place)
        else:
            return
        if not 1 <= row <= MAX_ROW or column > MAX_COLUMN:
            raise _refused(name, "a cell of it lies where no sheet has one")
        lowest, rightmost = max(lowest, row), max(rightmost, column)

    # As UTF-8, whatever it declares: else it could look different here.
    parser = expat.ParserCreate("UTF-8")
    parser.StartElementHandler = begin
    parser.StartDoctypeDeclHandler = _no_types
    try:
        parser.Parse(sheet, True)
    except (expat.ExpatError, _Declared):
        raise _refused(name, "a sheet of it is no XML that can be read") from None
    if lowest * rightmost > MAX_CELLS:
        raise _bomb(
            name,
            f"one sheet spans {lowest:,} rows x {rightmost:,} columns, "
            f"over {MAX_CELLS:,} cells",
        )
    return hidden.rows, hidden.columns(rightmost)


class _Hidden:
    """Counts the rows and columns that have cells and that people do not see.

    Attributes
    ----------
    rows : int
    """

    def __init__(self) -> None:
        self.rows = 0
        self._row = False  # whether this one is hidden, and has had no cell yet
        self._columns: list[tuple[str, str]] = []

    def begin(self, kind: str, attributes: Mapping[str, str]) -> None:
        """Take the beginning of a part of the sheet."""
        if kind == "c":
            self.rows += self._row
            self._row = False
        elif attributes.get("hidden") in TRUE:
            self._row = kind == "row"
            if kind == "col":
                ends = attributes.get("min", ""), attributes.get("max", "")
                self._columns.append(ends)
        elif kind == "row":
            self._row = False

    def columns(self, rightmost: int) -> int:
        """Return how many columns are hidden, up to the rightmost one with a cell."""
        return sum(
            max(0, min(int(last), rightmost) - int(first) + 1)
            for first, last in self._columns
            if first.isdecimal() and last.isdecimal()
        )


def _check_count(part: bytes, name: str) -> None:
    """Refuse texts that claim to be more than they are: room is made for all of them."""
    for tag in _TEXTS.findall(part):
        for number in _COUNT.findall(tag):
            if not number.isdigit() or int(number) > len(part):
                raise _refused(name, "it claims to hold more texts than it does")


class _Declared(Exception):
    """The sheet declares types or entities; no spreadsheet program does."""


def _no_types(*_: object) -> None:
    raise _Declared


def _place(reference: str) -> tuple[int, int]:
    """Row and column of a cell; (0, 0) if no cell has that reference."""
    found = _CELL.fullmatch(reference)
    if found is None:
        return 0, 0
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - 64
    return int(found[2]), column


def _refused(name: str, why: str) -> Invalid:
    return Invalid(
        f"{name} is refused",
        why=why,
        fix="open it in a spreadsheet program and save it anew, or as CSV",
    )


def _bomb(name: str, why: str) -> Invalid:
    return Invalid(
        f"{name} is refused",
        why=f"{why}; a small file that unpacks to a huge one can fill memory",
        fix="if it is genuine, save the sheet as CSV and load that",
    )
