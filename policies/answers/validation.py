"""Validity and normal form of one answer.

Every ``ask`` has one checker, listed in :data:`CHECKERS`. A checker returns the answer
in two forms: `text`, for the record, and `key`, which is equal for equal answers: those
that look the same, apart from what the field ignores; numbers and dates compare by
value. Reasons never repeat the answer.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from enum import StrEnum
from fractions import Fraction
from typing import Final

from policies.answers.notation import (
    Notation,
    Unreadable,
    agreed,
    fold,
    notation_of,
    read_date,
    read_number,
)
from policies.policy import Field

MAX_TEXT = 100_000
MAX_PARTS = 1_000

_RANGES: Final = re.compile(r"[\d\s;,\[\]-]*")


class Mark(StrEnum):
    """An answer that says there is nothing to give."""

    ILLEGIBLE = "illegible"
    NOT_PRESENT = "not_present"


@dataclass(frozen=True)
class Valid:
    """A valid answer.

    Attributes
    ----------
    text : str
        For the record: as given, in NFC, without needless spaces; the declared choice;
        an ISO date; ``yes`` or ``no``; JSON for spans and tables. Empty for a mark.
    key : str
        Equal exactly for answers that mean the same.
    mark : Mark or None
    """

    text: str = dataclass_field(repr=False)
    key: str = dataclass_field(repr=False)
    mark: Mark | None = None


@dataclass(frozen=True)
class Invalid:
    """Why an answer is invalid; shown to the worker, without the answer."""

    reason: str


def check(field: Field, raw: str, mark: Mark | None = None) -> Valid | Invalid:
    """Validate one answer to one field.

    Parameters
    ----------
    field : Field
        Its kind of question, and the differences that it ignores, are used.
    raw : str
        As the worker gave it. ``[illegible]`` and ``[not present]`` are marks too.
    mark : Mark, optional
        The worker pressed the button; `raw` is then ignored.

    Returns
    -------
    Valid or Invalid
    """
    checker = CHECKERS.get(field.ask or "")
    if checker is None:
        return Invalid("this field asks nothing")
    mark = mark or _MARKS.get(fold(raw[:40]))
    if mark is not None:
        return Valid("", f"[{mark.value}]", mark)
    if len(raw) > MAX_TEXT:
        return Invalid("longer than 100,000 characters")
    if any("\ud800" <= char <= "\udfff" or char == "\0" for char in raw):
        # No file of records may have them, so no export may.
        return Invalid("broken characters (half of a pair, or NUL)")
    if not raw.strip():
        return Invalid("empty: answer, or say that nothing is there")
    return checker(field, raw)


_MARKS = {
    "[illegible]": Mark.ILLEGIBLE,
    "[not present]": Mark.NOT_PRESENT,
    "[not_present]": Mark.NOT_PRESENT,
}


def _text(text: str) -> str:
    """Normalise text for the record: NFC, no trailing or doubled spaces."""
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def _transcribe(field: Field, raw: str) -> Valid | Invalid:
    key = agreed(raw, field.ignore)
    # texts of invisible characters only are distinguished by those characters
    return Valid(_text(raw), key or raw)


def _choose(field: Field, raw: str) -> Valid | Invalid:
    given = _text(raw)
    same = [choice for choice in field.choices if _text(choice) == given]
    like = same or [choice for choice in field.choices if fold(choice) == fold(raw)]
    if len(like) != 1:
        return Invalid("none of the choices")
    return Valid(like[0], like[0])


_YES = {
    "yes",
    "y",
    "true",
    "1",
    "ja",
    "j",
    "oui",
    "si",
    "sí",
    "sim",
    "да",
    "はい",
    "是",
}
_NO = {"no", "n", "false", "0", "nein", "non", "não", "нет", "いいえ", "否"}


def _yes_no(_: Field, raw: str) -> Valid | Invalid:
    key = fold(raw)
    if key in _YES:
        return Valid("yes", "yes")
    if key in _NO:
        return Valid("no", "no")
    return Invalid("neither yes nor no")


def _notation(field: Field) -> Notation:
    """Notation of a field: that of its locale, with what it says itself."""
    known = notation_of(field.locale) if field.locale else Notation()
    return replace(
        known,
        decimal=field.decimal or known.decimal,
        order=field.order or known.order,
    )


def _number(field: Field, raw: str) -> Valid | Invalid:
    read = read_number(raw, _notation(field).decimal)
    if isinstance(read, Unreadable):
        return Invalid(read)
    value = Fraction(read)
    if field.minimum is not None and value < field.minimum:
        return Invalid("below the least value that is possible here")
    if field.maximum is not None and value > field.maximum:
        return Invalid("above the greatest value that is possible here")
    text = format(read, "f")
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return Valid(text, short)


def _date(field: Field, raw: str) -> Valid | Invalid:
    notation = _notation(field)
    read = read_date(raw, notation.order, notation.months)
    if isinstance(read, Unreadable):
        return Invalid(read)
    return Valid(read.isoformat(), read.isoformat())


_SPAN = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})")


def _spans(_: Field, raw: str) -> Valid | Invalid:
    """Read character ranges [start, end) from 0: ``[[0, 5], [9, 12]]`` or ``0-5; 9-12``.

    Adjacent or overlapping ranges are merged; ``[]`` means that there is none.
    """
    pairs = _span_pairs(raw.strip())
    if pairs is None or len(pairs) > MAX_PARTS:
        return Invalid("not a list of ranges as in [[0, 5], [9, 12]]")
    if any(start < 0 or start >= end for start, end in pairs):
        return Invalid("a range must begin at 0 or later and end after its beginning")
    merged: list[list[int]] = []
    for start, end in sorted(pairs):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    text = json.dumps(merged)
    return Valid(text, text)


def _span_pairs(raw: str) -> list[tuple[int, int]] | None:
    if not raw.startswith("["):
        found = [_SPAN.fullmatch(part.strip()) for part in re.split("[;,\n]", raw)]
        pairs = [(int(m[1]), int(m[2])) for m in found if m]
        return pairs if len(pairs) == len(found) else None
    listed = _json(raw)
    if not isinstance(listed, list):
        return None
    pairs = []
    for part in listed:
        two = [part.get("start"), part.get("end")] if isinstance(part, dict) else part
        if not isinstance(two, list) or len(two) != 2:
            return None
        start, end = two
        if type(start) is not int or type(end) is not int:
            return None
        pairs.append((start, end))
    return pairs


def _json(raw: str) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _table(field: Field, raw: str) -> Valid | Invalid:
    """Read rows: JSON lists or objects by column, or lines with tabs or bars."""
    rows = _table_rows(field.columns, raw.strip("\r\n"))
    if rows is None or len(rows) > MAX_PARTS:
        return Invalid(
            "not a table of these columns: give one line a row, cells divided by a tab "
            "or |"
        )
    tidy = [[_text(cell) for cell in row] for row in rows]
    tidy = [row for row in tidy if any(row)]
    keys = [[agreed(cell, field.ignore) for cell in row] for row in tidy]
    return Valid(json.dumps(tidy, ensure_ascii=False), json.dumps(keys))


def _table_rows(columns: tuple[str, ...], raw: str) -> list[list[str]] | None:
    if raw.lstrip().startswith("["):
        listed = _json(raw)
        if not isinstance(listed, list):
            return None
        rows = [_table_row(columns, row) for row in listed]
    else:
        divider = "\t" if "\t" in raw else "|"
        rows = [
            _table_row(columns, line.split(divider) if len(columns) > 1 else [line])
            for line in raw.splitlines()
            if line.strip()
        ]
    kept = [row for row in rows if row is not None]
    return kept if len(kept) == len(rows) else None


def _table_row(columns: tuple[str, ...], row: object) -> list[str] | None:
    if isinstance(row, dict):
        if set(row) - set(columns):
            return None
        row = [row.get(column, "") for column in columns]
    if not isinstance(row, list) or len(row) != len(columns):
        return None
    if not all(isinstance(cell, str | int | float) or cell is None for cell in row):
        return None
    return ["" if cell is None else str(cell) for cell in row]


CHECKERS: dict[str, Callable[[Field, str], Valid | Invalid]] = {
    "transcribe": _transcribe,
    "choose": _choose,
    "number": _number,
    "date": _date,
    "yes_no": _yes_no,
    "spans": _spans,
    "table": _table,
}


def locate_passages(field: Field, raw: str, text: str | None) -> str | Invalid:
    """Turn copied passages, one per line, into their character ranges in the text.

    Parameters
    ----------
    field : Field
    raw : str
    text : str or None
        The text that was shown; None for an image.

    Returns
    -------
    str or Invalid
        Passages of ``spans`` become ranges; other answers are returned unchanged.
    """
    if field.ask != "spans" or text is None:
        return raw
    ranges: list[list[int]] = []
    taken: dict[str, int] = {}
    for line in filter(None, (part.strip() for part in raw.splitlines())):
        if re.fullmatch(r"\[[a-z_ ]+\]", line):
            return raw  # a mark
        start = text.find(line, taken.get(line, 0))
        if start < 0 and _RANGES.fullmatch(raw):
            return raw
        if start < 0:
            return Invalid("a passage is not in the text: copy it word for word")
        taken[line] = start + len(line)
        ranges.append([start, start + len(line)])
    return json.dumps(ranges) if ranges else ""
