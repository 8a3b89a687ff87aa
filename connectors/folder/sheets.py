"""Read the files that workers drop: CSV or JSON lines into rows, with errors by row."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

from connectors.base import Outcome
from connectors.formats.formula_guard import unguard

MAX_VALUE = 100_000
READ = (".csv", ".tsv", ".txt", ".jsonl")
"""Endings of the files that are read."""
NAMED = (".xlsx", ".xls", ".ods", ".json", ".parquet", ".gz", ".zip")
"""Endings of the files that are not: whoever sends one gets a report that says why."""
_STATES = {
    "": None,
    "answered": Outcome.ANSWERED,
    "illegible": Outcome.ILLEGIBLE,
    "not_present": Outcome.NOT_PRESENT,
    "not present": Outcome.NOT_PRESENT,
    "returned": Outcome.RETURNED,
}


@dataclass(frozen=True)
class SheetRow:
    """One row of an answers file.

    Attributes
    ----------
    line : int
        Its first line, from 1.
    token : str
        Empty if the row names none.
    outcome : Outcome or None
        None: nothing to take (see `error`), or left open.
    value : str
    error : str
        Why it is not an answer; contains no value. Empty for answers and open rows.
    """

    line: int
    token: str = ""
    outcome: Outcome | None = None
    value: str = field(default="", repr=False)
    error: str = ""


def read_rows(content: bytes, name: str) -> list[SheetRow]:
    """Read an answers file; what cannot be read becomes a row with its error.

    Parameters
    ----------
    content : bytes
        UTF-8 (with or without a byte order mark) or UTF-16 with one.
    name : str
        Its file name; ``.jsonl`` means JSON lines, anything else CSV with comma,
        semicolon or tab.
    """
    if name.lower().endswith(NAMED):
        return [SheetRow(1, error="the format is not read: save it as CSV UTF-8, or as JSON "
                    "lines whose name ends in .jsonl")]  # fmt: skip
    text = _decode(content)
    if text is None:
        return [SheetRow(1, error="the file is not UTF-8: save it as CSV UTF-8")]
    lines = _from_jsonl(text) if name.lower().endswith(".jsonl") else _from_csv(text)
    return list(lines)


def _decode(content: bytes) -> str | None:
    utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return content.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        return None


def _row(line: int, token: str, state: str, value: str) -> SheetRow:
    """Return a row after checking its shape; empty without a state means left open."""
    given = bool(value.strip())
    known = state.strip().lower() in _STATES
    outcome = _STATES.get(state.strip().lower())
    if known and outcome is None:
        outcome = Outcome.ANSWERED if given else None
        if outcome is None:
            return SheetRow(line, token)
    error = _fault(token, outcome, given, len(value))
    if error or outcome is not Outcome.ANSWERED:
        return SheetRow(line, token, None if error else outcome, error=error)
    return SheetRow(line, token, outcome, value)


def _fault(token: str, outcome: Outcome | None, given: bool, length: int) -> str:
    """Return why a row that is not empty is no answer; empty if it is one."""
    answered = outcome is Outcome.ANSWERED
    if outcome is None:
        return "unknown state: use illegible, not_present, returned or nothing"
    if not token:
        return "the row names no task"
    if answered and not given:
        return "the state is answered, but there is no answer"
    if given and not answered:
        return f"there is an answer and the state {outcome.value}: keep one of the two"
    if length > MAX_VALUE:
        return f"the answer is longer than {MAX_VALUE} characters"
    return ""


def _from_csv(text: str) -> Iterator[SheetRow]:
    first = 1
    if text[:4].lower() == "sep=":  # a spreadsheet's own first line
        text, first = text.partition("\n")[2], 2
    delimiter = _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        line = first + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error:
            yield SheetRow(line, error="the row is not CSV: a quote is not closed, or "
                      "text follows one, or a cell is too long")  # fmt: skip
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if header:
            yield _csv_row(line, header, cells)
            continue
        header = [cell.strip().lower() for cell in cells]
        fault = _header_fault(header)
        if fault:
            yield SheetRow(line, error=fault)
            return
    if not header:
        yield SheetRow(1, error="the file is empty")


def _delimiter(text: str) -> str:
    """Return the delimiter by which the first row names the columns."""
    lines = [line for line in text.splitlines() if line.strip()][:1]
    for mark in ",;\t|":
        with suppress(csv.Error):
            header = next(csv.reader(lines, delimiter=mark), [])
            if not _header_fault([cell.strip().lower() for cell in header]):
                return mark
    return max(
        ",;\t|", key="".join(lines).count
    )  # its rows are refused with the reason


def _header_fault(header: Collection[str]) -> str:
    """Return why these are not the columns of answers; empty if they are."""
    for name in ("task", "answer", "state"):
        if sum(name == other for other in header) > 1:
            return f'the column "{name}" appears twice'
    if "task" not in header or not {"answer", "state"} & set(header):
        return 'the first row (or the object) must name the columns "task" and "answer"'
    return ""


def _csv_row(line: int, header: list[str], cells: list[str]) -> SheetRow:
    by_name = dict(zip(header, cells, strict=False))
    token = unguard(by_name.get("task", "").strip())
    if len(cells) > len(header) and any(cell.strip() for cell in cells[len(header) :]):
        return SheetRow(line, token, error=f"the row has {len(cells)} cells, the header "
                   f"{len(header)}: put quotes around the answer")  # fmt: skip
    if len(cells) < len(header) and not {"answer", "state"} & set(by_name):
        return SheetRow(line, token, error=f"the row has {len(cells)} cells, the header "
                   f"{len(header)}: leave the answer empty to keep it open")  # fmt: skip
    value = unguard(by_name.get("answer", ""))
    return _row(line, token, by_name.get("state", ""), value)


def _from_jsonl(text: str) -> Iterator[SheetRow]:
    lines = text.split("\n")
    if not any(line.strip() for line in lines):
        yield SheetRow(1, error="the file is empty")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _json_row(number, line)


def _no_number(_: str) -> NoReturn:
    raise ValueError


def _json_row(number: int, line: str) -> SheetRow:
    """Read one object; its names follow the same rules as the header of a CSV."""
    try:
        pairs = json.loads(
            line,
            parse_float=Decimal,
            parse_constant=_no_number,
            object_pairs_hook=_MemberPairs,
        )
    except (ValueError, ArithmeticError, RecursionError):
        return SheetRow(number, error="the line is not JSON")
    if not isinstance(pairs, _MemberPairs):
        return SheetRow(number, error='the line is no object like {"task": ..., '
                   '"answer": ...}')  # fmt: skip
    names = [name.strip().lower() for name, _ in pairs]
    fault = _header_fault(names)
    if fault:
        return SheetRow(number, error=fault)
    row = dict(zip(names, (value for _, value in pairs), strict=True))
    token, state = row["task"], row.get("state") or ""
    if not isinstance(token, str) or not isinstance(state, str):
        return SheetRow(number, error="task and state must be text")
    try:
        answer = _as_text(row.get("answer"))
    except RecursionError:  # it takes more levels to write than it took to read
        return SheetRow(number, token.strip(), error="the answer is nested too deeply")
    return _row(number, token.strip(), state, answer)


class _MemberPairs(list[tuple[str, Any]]):
    """The members of an object in order, duplicates too."""


def _as_text(value: object) -> str:
    """Return a JSON answer as raw text: text unchanged, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    if isinstance(value, _MemberPairs):
        return {name: _plain(member) for name, member in value}
    return [_plain(part) for part in value] if isinstance(value, list) else value
