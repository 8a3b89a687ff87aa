"""Made-up questions from a file: all or none, compared with what is stored.

A file has a column ``shown`` (text) or ``image`` (a picture beside the file), and
``answer``, the right one. The shown content is processed like a record's field: masked,
or re-encoded. A question that equals a stored entry of its field is not made up: the
entry would be seen without being booked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dispatcher.core.errors import Conflict, Invalid, NotFound
from dispatcher.ledger.active_policy import ActivePolicy, current_policy, no_policy
from dispatcher.model import GoldQuestion
from dispatcher.stages.intake.images import BadPage, PageFolder
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.record_builder import IMAGE, TEXT
from dispatcher.stages.intake.redaction import redacted
from dispatcher.stages.intake.table import OpenedFile
from dispatcher.store import Store, Tx, events, gold_questions, record_states
from policies.answers import validation
from policies.answers.validation import locate_passages
from policies.policy import Field

MOST: Final = 10_000
"""Questions of one file, at most."""


@dataclass(frozen=True)
class QuestionRow:
    """A made-up question: what is shown, and the right answer's raw text."""

    line: int
    shown: bytes
    media: str
    answer: str


@dataclass(frozen=True)
class Questions:
    """The questions of a file for one field.

    Attributes
    ----------
    field : str
    field_id : int
    found : tuple of QuestionRow
    """

    field: str
    field_id: int
    found: tuple[QuestionRow, ...]


def read_questions(store: Store, where: Path, field: str) -> Questions:
    """Read a file of made-up questions under the policy in force.

    Parameters
    ----------
    store : Store
    where : Path
        CSV, JSONL or any other table that can be loaded.
    field : str
        The field that they ask for.

    Raises
    ------
    NotFound
        The policy knows no such field.
    Conflict
        No policy is in force, or nobody is asked for the field.
    Invalid
        The file is no table, has no question or too many, or a row is invalid: it shows
        nothing, its answer is invalid, or it shows what another row shows.
    """
    with store.read() as tx:
        force = current_policy(tx)
    if force is None:
        raise no_policy()
    spec = _field(force, field)
    with open_table(where) as table:
        found = tuple(_rows(table, spec, PageFolder(where.parent)))
    if not found:
        raise Invalid(
            f"{where.name} has no question",
            why="there is nothing to ask",
            fix="write one made-up question a row",
        )
    return Questions(field, force.field_ids[field], found)


def equal_to_stored(store: Store, questions: Questions) -> list[int]:
    """Return the lines of questions that equal a stored entry of the field."""
    lines = {question.shown: question.line for question in questions.found}
    with store.read() as tx:
        values = gold_questions.shown_values(tx, questions.field_id)
        return sorted({lines[bytes(v)] for v in values if bytes(v) in lines})


def set_test(
    store: Store, questions: Questions, pass_share: float, at: int, actor: str
) -> None:
    """Require a test of these questions for a field, replacing an earlier one.

    Workers who passed an earlier one stay qualified; others begin again.
    """
    with store.write() as tx:
        gold_questions.retire(tx, questions.field_id, gold_questions.TEST, at)
        _add(tx, questions.found, questions.field_id, gold_questions.TEST)
        gold_questions.require(tx, questions.field_id, pass_share)
        _note(tx, at, actor, "test.set", questions.field_id, len(questions.found))


def add_gold(store: Store, questions: Questions, at: int, actor: str) -> int:
    """Add gold questions to a field; return how many are new."""
    with store.write() as tx:
        known = gold_questions.active_values(
            tx, questions.field_id, gold_questions.GOLD
        )
        new = [one for one in questions.found if one.shown not in known]
        _add(tx, new, questions.field_id, gold_questions.GOLD)
        _note(tx, at, actor, "gold.added", questions.field_id, len(new))
    return len(new)


def drop(store: Store, field: str, purpose: str, at: int, actor: str) -> int:
    """Retire a field's made-up questions of one purpose; return how many.

    Raises
    ------
    NotFound
        There are none.
    """
    with store.write() as tx:
        field_id = gold_questions.field_named(tx, field)
        count = (
            0 if field_id is None else gold_questions.retire(tx, field_id, purpose, at)
        )
        if field_id is None or not count:
            raise NotFound(
                f"field {field} has no questions of that kind",
                why="none were set, or they were dropped",
                fix="dispatcher questions list",
                name=field,
                known=() if field_id else record_states.field_names(tx),
            )
        if purpose == gold_questions.TEST:
            gold_questions.excuse(tx, field_id)
        _note(tx, at, actor, f"{purpose}.dropped", field_id, count)
    return count


def _field(force: ActivePolicy, name: str) -> Field:
    spec = force.policy.entity.fields.get(name)
    if spec is None:
        raise NotFound(
            f"the policy in force has no field {name}",
            why=f"its fields: {', '.join(force.policy.entity.fields)}",
            fix="name one of them",
            name=name,
            known=force.policy.entity.fields,
        )
    if spec.ask is None or not spec.send:
        raise Conflict(
            f"nobody is asked for field {name}",
            why="it has no `ask`, or send = false",
            fix="name a field that workers answer",
        )
    return spec


def _rows(table: OpenedFile, spec: Field, pages: PageFolder) -> Iterator[QuestionRow]:
    """Yield the questions of a table; refuse the first invalid row."""
    kind = "image" if spec.image_column is not None else "shown"
    for name in (kind, "answer"):
        if name not in table.columns:
            raise Invalid(
                f"the file has no column `{name}`",
                why="a made-up question of this field is a row of "
                f"`{kind}` and `answer`",
                fix="name the columns so in the first row, or in each JSON object",
            )
    show = _shower(spec, pages)
    places = table.columns.index(kind), table.columns.index("answer")
    seen: set[bytes] = set()
    for batch in table.batches:
        for refused in batch.rejected:
            raise _bad(refused.line, refused.reason)
        for line, cells in zip(batch.lines, batch.rows, strict=True):
            question = _question(line, cells, places, spec, show)
            if question.shown in seen:
                raise _bad(line, "it shows what an earlier row shows")
            seen.add(question.shown)
            if len(seen) > MOST:
                raise _bad(line, f"there are more than {MOST:,} questions")
            yield question


def _shower(spec: Field, pages: PageFolder) -> Callable[[str], bytes]:
    if spec.image_column is not None:
        return lambda cell: pages.crop(cell, None).png
    if not spec.redact:
        return str.encode
    return lambda cell: redacted(cell, spec.redact).encode()


def _question(
    line: int,
    cells: Sequence[str],
    places: tuple[int, int],
    spec: Field,
    show: Callable[[str], bytes],
) -> QuestionRow:
    value, answer = (cells[place] for place in places)
    if not value or value.isspace():
        raise _bad(line, "it shows nothing")
    try:
        shown = show(value)
    except BadPage as error:
        raise _bad(line, str(error)) from None
    is_image = spec.image_column is not None
    raw = locate_passages(spec, answer, None if is_image else shown.decode())
    verdict = (
        raw if isinstance(raw, validation.Invalid) else validation.check(spec, raw)
    )
    if isinstance(verdict, validation.Invalid):
        raise _bad(line, f"its answer is none: {verdict.reason}")
    return QuestionRow(line, shown, IMAGE if is_image else TEXT, str(raw))


def _bad(line: int, reason: str) -> Invalid:
    return Invalid(
        f"line {line} is no made-up question",
        why=reason,
        fix="correct the row; nothing of the file was taken",
    )


def _add(tx: Tx, questions: Sequence[QuestionRow], field_id: int, purpose: str) -> None:
    first = tx.reserve("gold_question", len(questions)) if questions else 0
    rows = [
        GoldQuestion(
            id=first + i,
            field_id=field_id,
            purpose=purpose,
            shown=one.shown,
            media=one.media,
            answer=one.answer.encode(),
        )
        for i, one in enumerate(questions)
    ]
    gold_questions.add(tx, rows)


def _note(tx: Tx, at: int, actor: str, action: str, field_id: int, count: int) -> None:
    detail = {"field": field_id, "questions": count}
    events.add_event(tx, at, actor, action, detail)
