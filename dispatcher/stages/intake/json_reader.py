"""JSON Lines and JSON lists of objects: numbers as written, duplicate members rejected.

A number is kept digit for digit, ``true``, ``false`` and nested values as their JSON
text, ``null`` and a missing member as the empty cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from typing import Any, Final

import msgspec

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.encoding import Lines
from dispatcher.stages.intake.table import (
    BATCH_CHARACTERS,
    MAX_COLUMNS,
    UNDECODED,
    RejectedRow,
    RowBatch,
    cell_fault,
)

MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 40

_MEMBER = re.compile(r'"\s*:')
_LONG_NUMBER = re.compile(r"[-+0-9.eE]{41}")
_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*+"|[\[\]{}]|[^\s\[\]{},"]+', re.DOTALL)


_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
MAX_ELEMENT: Final = 16 << 20  # characters
_SPACE = re.compile(r"[\s,]*")
# Everything up to the next bracket that is not inside a string. Possessive: linear.
_TO_BRACKET = re.compile(
    r'[^"{}\[\]]*+(?:"(?:[^"\\]+|\\.)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL
)
_SCALAR = re.compile(r'"(?:[^"\\]+|\\.)*+"|[^\s\[\]{},"]+(?=[\s\]\[,{}])', re.DOTALL)


class _Faulty(Exception):
    """A rejected row: the column, or empty, and the reason."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason


class _Doubled(ValueError):
    pass


def _fraction(text: str) -> str:
    """Keep a number with a point or exponent as it is written."""
    if len(text) > MAX_DIGITS:
        _no_long_number(text)
    return text


_any = msgspec.json.Decoder(dict[str, Any], float_hook=_fraction)


class JsonReader:
    """Batches of rows from JSON texts, one an object.

    Parameters
    ----------
    objects : Iterator of (int, str)
        Line, and text of one JSON value.
    batch_rows : int

    Notes
    -----
    The columns are those met so far, in order of appearance.
    """

    def __init__(self, objects: Iterator[tuple[int, str]], batch_rows: int) -> None:
        self._objects = objects
        self._batch_rows = batch_rows
        self._columns: list[str] = []
        self._known: set[str] = set()

    def batches(self) -> Iterator[RowBatch]:
        """Yield all rows, once."""
        batch = RowBatch(())
        room, characters = self._batch_rows, 0
        for line, text in self._objects:
            characters += len(text)
            try:
                row = self._row(text)
            except _Faulty as fault:
                batch.rejected.append(RejectedRow(line, fault.column, fault.reason))
            else:
                batch.rows.append(row)
                batch.lines.append(line)
            room -= 1
            if room <= 0 or characters >= BATCH_CHARACTERS:
                yield self._padded(batch)
                batch, room, characters = RowBatch(()), self._batch_rows, 0
        if batch.rows or batch.rejected:
            yield self._padded(batch)

    def _padded(self, batch: RowBatch) -> RowBatch:
        batch.columns = tuple(self._columns)
        width = len(batch.columns)
        batch.rows = [
            row if len(row) == width else [*row, *[""] * (width - len(row))]
            for row in batch.rows
        ]
        return batch

    def _row(self, text: str) -> list[str]:
        cells = _cells(text)
        if len(cells) != len(self._columns) or cells.keys() != self._known:
            self._widen(cells)
            row = [cells.get(name, "") for name in self._columns]
        else:
            row = [cells[name] for name in self._columns]
        fault = cell_fault(row)
        if fault is not None:
            raise _Faulty(self._columns[fault[0]], fault[1])
        return row

    def _widen(self, cells: dict[str, str]) -> None:
        new = [name for name in cells if name not in self._known]
        if any(not name.strip() or "\0" in name for name in new):
            raise _Faulty("", "a member without a name, or with NUL in its name")
        if len(self._columns) + len(new) > MAX_COLUMNS:
            raise _Faulty("", f"more than {MAX_COLUMNS:,} different members")
        self._columns.extend(new)
        self._known.update(new)


def _decoded(text: str) -> dict[str, Any]:
    if not text.isascii() and UNDECODED in text:
        raise _Faulty("", "bytes that are not text in the file's encoding")
    try:
        return _any.decode(text)
    except msgspec.ValidationError:
        _no_long_number(text)
        raise _Faulty("", "not an object, or a number out of range") from None
    except (msgspec.DecodeError, ValueError):
        raise _Faulty("", "not valid JSON") from None
    except RecursionError:
        raise _Faulty("", f"nested deeper than {MAX_DEPTH} levels") from None


def _cells(text: str) -> dict[str, str]:
    """Return the members of one object as text."""
    members = _decoded(text)
    if not _surely_single(text, len(members)):
        _checked_slowly(text)
    cells: dict[str, str] = {}
    rest: list[str] = []
    for name, value in members.items():
        if type(value) is str:
            cells[name] = value
        elif value is None:
            cells[name] = ""
        else:
            cells[name] = ""  # keeps the order
            rest.append(name)
    if rest:
        _as_written(text, rest, members, cells)
    return cells


def _as_written(
    text: str, names: list[str], members: dict[str, Any], cells: dict[str, str]
) -> None:
    """Fill in numbers, booleans and nested values as the exact text of the file."""
    raw: dict[str, msgspec.Raw] | None = None
    for name in names:
        value = members[name]
        if isinstance(value, bool):
            cells[name] = "true" if value else "false"
        elif isinstance(value, int) and value:
            cells[name] = str(value)
            if len(cells[name]) > MAX_DIGITS:
                _no_long_number(cells[name])
        else:
            raw = _raw.decode(text) if raw is None else raw
            cells[name] = bytes(raw[name]).decode().strip()


def _surely_single(text: str, members: int) -> bool:
    """Whether no member can be duplicated or nested: one colon for each member."""
    if "[" in text:
        return False
    if text.count('":') == members == text.count(":"):
        return True
    return len(_MEMBER.findall(text)) == members


def _checked_slowly(text: str) -> None:
    """Refuse duplicate members at any depth, and excessive depth."""
    if _LONG_NUMBER.search(text):
        _no_long_number(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise _Faulty("", f"nested deeper than {MAX_DEPTH} levels")
    try:
        json.loads(text, object_pairs_hook=_single, parse_int=str, parse_float=str)
    except _Doubled:
        raise _Faulty("", "a member that appears twice in one object") from None
    except RecursionError:
        raise _Faulty("", f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        raise _Faulty("", "not valid JSON") from None


def _single(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Doubled
    return members


def _depth(text: str) -> int:
    depth = deepest = 0
    for token in _TOKEN.finditer(text):
        sign = token.group()[0]
        if sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def _no_long_number(text: str) -> None:
    """Refuse a number of more than 40 digits; long digits in a text are fine."""
    for token in _TOKEN.finditer(text):
        found = token.group()
        if found[0] != '"' and _LONG_NUMBER.search(found):
            digits = sum(sign.isdigit() for sign in found)
            if digits > MAX_DIGITS:
                raise _Faulty("", f"a number of more than {MAX_DIGITS} digits")


def json_lines(lines: Lines) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every line that is not blank."""
    for line in lines:
        lines.held.clear()
        if line.strip():
            yield lines.number, line


class JsonElements:
    """Elements of one list, or consecutive objects.

    Parameters
    ----------
    texts : Iterator of str
        Pieces of the text, cut anywhere.

    Attributes
    ----------
    in_list : bool
        Whether the elements read so far are in a list.
    """

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts
        self._line = 1
        self.in_list = False
        self._closed = False
        self._first = True
        self._depth = 0
        self._scanned = 0  # of the current element

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield (line, text) of each element.

        Raises
        ------
        Invalid
            Brackets do not match: where the next object begins is unknown.
        """
        text = ""
        for piece in self._texts:
            text += piece
            text = yield from self._cut(text)
            if len(text) > MAX_ELEMENT:
                raise Invalid(
                    f"the object that begins on line {self._line} does not end",
                    why=f"it is longer than {MAX_ELEMENT >> 20} Mi characters",
                    fix="write a list of small objects, or one object a line (JSONL)",
                )
        text = yield from self._cut(text + " ")
        if text.strip() or (self.in_list and not self._closed):
            raise self._unreadable("it ends before its brackets are closed")

    def _cut(self, text: str) -> Generator[tuple[int, str], None, str]:
        """Yield the elements that end in `text`; return the remainder."""
        position = 0
        while True:
            if self._depth == 0:
                position = self._between(text, position)
                if position == len(text):
                    return ""
            end = self._end(text, position)
            if end is None:
                return text[position:]
            yield self._line, text[position:end]
            self._line += text.count("\n", position, end)
            position = end

    def _between(self, text: str, position: int) -> int:
        """Skip space, commas and the list's own brackets."""
        while True:
            space = _SPACE.match(text, position)
            assert space is not None
            self._line += text.count("\n", position, space.end())
            position = space.end()
            sign = text[position : position + 1]
            if sign == "[" and self._first:
                self.in_list = True
            elif sign == "]" and self.in_list and not self._closed:
                self._closed = True
            else:
                break
            self._first = False
            position += 1
        if sign and (self._closed or sign in "]}"):
            raise self._unreadable("something that cannot begin an object")
        self._first = self._first and not sign
        return position

    def _end(self, text: str, position: int) -> int | None:
        """Return where the element at `position` ends, None if not in `text`."""
        if text[position] not in "[{" and self._depth == 0:
            scalar = _SCALAR.match(text, position)
            return scalar.end() if scalar else None
        at = position + self._scanned
        while found := _TO_BRACKET.match(text, at):
            at = found.end()
            self._depth += 1 if found[1] in "[{" else -1
            if self._depth == 0:
                self._scanned = 0
                return at
        self._scanned = at - position
        return None

    def _unreadable(self, why: str) -> Invalid:
        return Invalid(
            f"the JSON cannot be read from line {self._line} on",
            why=why,
            fix="write a list of objects, or one object a line (JSONL)",
        )


def refuse_rows_inside(text: str, name: str) -> None:
    """Refuse a file of one object that has the rows inside, or the columns.

    Raises
    ------
    Invalid
    """
    try:
        members = _any.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return  # the row is refused when it is read
    lists = [value for value in members.values() if isinstance(value, list)]
    objects = [value for value in members.values() if isinstance(value, dict)]
    rows = [
        member
        for member, value in members.items()
        if isinstance(value, list) and value and all(isinstance(v, dict) for v in value)
    ]
    if rows:
        what, why = (
            "with the rows inside",
            f"its member `{rows[0]}` is a list of objects",
        )
    elif members and len({len(v) for v in lists}) == 1 and len(lists) == len(members):
        what, why = "by columns", "each of its members is a list of the same length"
    elif len(objects) > 1 and len(objects) == len(members) == sum(
        value.keys() == objects[0].keys() for value in objects
    ):
        what, why = "by columns", "each of its members is an object with the same names"
    elif set(members) >= {"columns", "data"} and len(lists) > 1:
        what, why = "with the rows inside", "it has the members `columns` and `data`"
    else:
        return
    raise Invalid(
        f"{name} is one object {what}",
        why=f"{why}; a table is a list of objects, one a row",
        fix="write the rows as a list of objects or as JSON lines (jq, pandas "
        'orient="records"); put a single record that is meant so into [ ]',
    )
