"""The form of one field on the task page, and its conversion to an answer.

The raw text of an answer is the same as other connectors bring it
(:mod:`policies.answers.validation`): a table is a JSON list of rows, spans are a JSON list of
ranges. A form is friendlier: a table has cells, spans are copied word for word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policies.answers.validation import Invalid, Mark, Valid, check, locate_passages
from policies.policy import QUESTIONS, Example, Field

MAX_ROWS: Final = 200
MAX_DRAFT: Final = 200_000
"""Characters of a draft; an answer may have 100,000."""

_ROWS: Final = 6
_CELL: Final = re.compile(r"cell-(\d{1,3})-(\d{1,3})")


@dataclass(frozen=True)
class AskedField:
    """One field as the page asks for it; no value is in it.

    Attributes
    ----------
    ask, question, help, range : str
    own : bool
        Whether the question is the operator's, not ours.
    lang : str
        Language of the operator's words and of what is shown, ``und`` if none is declared.
    options : tuple of (str, str)
        Value and label of each choice.
    columns : tuple of str
    rows : int
        Rows of the table's grid.
    example : Example or None
        Made up, with its right answer.
    """

    ask: str
    question: str
    help: str = ""
    range: str = ""
    own: bool = False
    lang: str = "und"
    options: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: int = 0
    example: Example | None = None


def as_written(text: str, **parts: object) -> str:
    """Put parts into a text of ours, in the language that it is written in."""
    return text.format(**parts)


def asked(
    field: Field, draft: str = "", say: Callable[..., str] = as_written
) -> AskedField:
    """Words and parts of the form for a field; ``say`` translates a text and fills it."""
    ask = field.ask or "transcribe"
    given = [int(m[1]) for m in map(_CELL.fullmatch, spread(field, draft)) if m]
    return AskedField(
        ask=ask,
        question=field.question or say(QUESTIONS[ask], field=field.title),
        help=field.help,
        range=_range(field.minimum, field.maximum, say),
        own=field.question is not None,
        lang=field.locale or "und",
        options=tuple((choice, choice) for choice in field.choices),
        columns=field.columns,
        rows=min(MAX_ROWS, max([_ROWS, *(row + 3 for row in given)])),
        example=field.example,
    )


def compose(field: Field, form: Mapping[str, str]) -> str:
    """Return a form's content as raw text: draft and (except for spans) answer.

    Parameters
    ----------
    field : Field
    form : Mapping[str, str]
        ``answer``; for tables ``cell-ROW-COLUMN``, from 0, unless ``answer`` is there.
    """
    if field.ask != "table" or "answer" in form:
        return form.get("answer", "").replace("\r\n", "\n")[:MAX_DRAFT]
    rows: dict[int, list[str]] = {}
    for name, text in form.items():
        place = _CELL.fullmatch(name)
        if place and int(place[1]) < MAX_ROWS and int(place[2]) < len(field.columns):
            row = rows.setdefault(int(place[1]), [""] * len(field.columns))
            row[int(place[2])] = text
    listed = [rows[number] for number in sorted(rows) if any(rows[number])]
    return json.dumps(listed, ensure_ascii=False)[:MAX_DRAFT] if listed else ""


def spread(field: Field, raw: str) -> dict[str, str]:
    """Return the form values of a draft: the inverse of :func:`compose`."""
    if field.ask != "table":
        return {"answer": raw} if raw else {}
    try:
        listed = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(listed, list):
        return {}
    return {
        f"cell-{row}-{column}": text
        for row, cells in enumerate(listed)
        if isinstance(cells, list)
        for column, text in enumerate(cells)
        if isinstance(text, str)
    }


def judged(
    field: Field, text: str | None, typed: str, mark: Mark | None
) -> tuple[str, Valid | Invalid]:
    """Return the raw text of an answer, and its validation.

    Parameters
    ----------
    field : Field
    text : str or None
        The text that was shown; None for an image.
    typed : str
        The composed content of the form.
    mark : Mark or None
        The button that was pressed.
    """
    if mark is not None:
        return f"[{mark.value}]", check(field, "", mark)
    raw = locate_passages(field, typed, text)
    if isinstance(raw, Invalid):
        return typed, raw
    return raw, check(field, raw)


def _range(low: Fraction | None, high: Fraction | None, say: Callable[..., str]) -> str:
    if low is not None and high is not None:
        return say("From {low} to {high}", low=_decimal(low), high=_decimal(high))
    if low is not None:
        return say("At least {low}", low=_decimal(low))
    return say("At most {high}", high=_decimal(high)) if high is not None else ""


def _decimal(number: Fraction) -> str:
    if number.denominator == 1:
        return str(number.numerator)
    # The policy language has decimals of at most 30 digits, so this is exact.
    digits = 0
    while (number * 10**digits).denominator != 1 and digits < 60:
        digits += 1
    whole = number * 10**digits
    sign = "-" if whole < 0 else ""
    text = str(abs(int(whole))).rjust(digits + 1, "0")
    return f"{sign}{text[:-digits]}.{text[-digits:]}" if digits else sign + text
