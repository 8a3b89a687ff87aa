"""Answers, conflicts, payments and questions with known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dispatcher.surfaces.api.documents.base import (
    Account,
    Document,
    Id,
    Moment,
    Money,
    Name,
    Reason,
    Request,
    _base64,
)


class RefusedAnswer(Document):
    """An answer that fits no task; what it says stays hidden."""

    id: int
    connector: str
    reason: str
    at: Moment
    dismissed_at: Moment | None
    dismissed_why: str | None


class Giver(Document):
    """Who gave an answer: pseudonym, connector, and the estimated accuracy."""

    worker: str
    connector: str
    quality: float


class Choice(Document):
    """Answers to a field that mean the same, by a letter; what they say stays hidden."""

    letter: str
    givers: Sequence[Giver]


class Conflict(Document):
    """A field whose answers disagree, and that nobody else is asked."""

    id: Annotated[str, Field(description="PSEUDONYM.FIELD")]
    field: str
    run: str
    question: str
    choices: Sequence[Choice]
    shown: int = Field(validation_alias="showings")
    t: int = Field(validation_alias="limit")
    open_tasks: int


class RevealedField(Document):
    """What a field's answers say, by letter, and what its workers saw (base64)."""

    id: str
    question: str
    answers: Mapping[str, str]
    media: str
    content: Annotated[str, BeforeValidator(_base64)]


class Judge(Request):
    """What is decided on a field, and why."""

    decision: Annotated[
        Literal["choose", "value", "unreadable", "absent", "ask", "consensus"],
        Field(description="`consensus` withdraws what was decided by hand."),
    ]
    letter: Annotated[
        str | None,
        Field(min_length=1, max_length=8, description="Of the answer, with `choose`."),
    ] = None
    value: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=100_000,
            description="What the field says, with `value`.",
        ),
    ] = None
    reason: Reason


class Judged(Document):
    """What a judgement did; payments stay as they are."""

    id: str
    decision: str
    before: str
    after: str
    decided_by: str
    tasks: Annotated[int, Field(description="Open tasks that were taken back.")]
    unplanned: Annotated[int, Field(description="Planned showings not needed now.")]
    going_on: Annotated[int, Field(description="Tasks that are finished, and paid.")]
    extra_showings: int


class RevealAnswers(Request):
    """Answers to show, and why."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=100)]
    reason: Reason


class RevealedAnswers(Document):
    """What refused answers say; the audit log says who asked, and why."""

    answers: Mapping[int, str]


class DismissAnswers(Request):
    """Answers that were looked at; null: all of them."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    reason: Reason


class Dismissed(Document):
    """How many answers were marked as looked at."""

    dismissed: int


class Payment(Document):
    """A payment and its state."""

    payment: str
    run: str
    worker: str
    amount: Money
    state: str
    at: Moment
    why: str


class PaymentChange(Document):
    """A change of a payment, and who made it."""

    at: Moment
    state: str
    amount: Money
    by: str
    why: str


class Owed(Document):
    """What a worker is owed whom no market pays."""

    run: str
    worker: str
    amount: Money
    fields: int


class DecidePayments(Request):
    """Payments, such as ``reward-12``, and the reason of the decision."""

    payments: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    reason: Reason


class SettlePayments(Request):
    """Payments by name, or all that one worker is owed."""

    payments: Annotated[list[Name], Field(max_length=1000)] = []
    worker: Account | None = None
    reason: Reason


class Decided(Document):
    """All payments that the decision was about."""

    payments: Sequence[str]


class QuestionTest(Document):
    """The qualification test of a field."""

    field: str
    questions: int


class QuestionGold(Document):
    """Made-up questions of a field that check workers, and how many are left."""

    field: str
    left: int


class Questions(Document):
    """Made-up questions by field."""

    tests: Sequence[QuestionTest]
    gold: Sequence[QuestionGold]


class DropQuestions(Request):
    """Whose questions are dropped."""

    field: Name
    purpose: Literal["test", "gold"]


class Dropped(Document):
    """How many questions were dropped."""

    dropped: int


class GoldAdded(Document):
    """How many made-up questions are new, and how many were there before."""

    new: int
    known: int


class QuestionsOfTest(Document):
    """How many questions the test of a field has."""

    questions: int
