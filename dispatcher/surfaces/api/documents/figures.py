"""Figures that charts and dashboards draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from dispatcher.surfaces.api.documents.base import Document, Moment, Ratio


def _point(pair: object) -> object:
    return {"at": pair[0], "value": pair[1]} if isinstance(pair, tuple) else pair


class At(Document):
    """A number at a moment."""

    at: Moment
    value: int


Past = Sequence[Annotated[At, BeforeValidator(_point)]]
"""A number over time."""


class AnswerRate(Document):
    """Answers by period, the first of which begins ``since``; valid ones by connector."""

    since: Moment
    period_seconds: int
    valid: Mapping[str, Sequence[int]]
    refused: Sequence[int]


class Ending(Document):
    """When the work ends at the pace of late; ``latest`` is null where it may never."""

    earliest: Moment
    likely: Moment
    latest: Moment | None


class BurnDown(Document):
    """Fields left over time; ``pace`` is fields an hour, 0 where ``end`` is null."""

    left: Past
    end: Ending | None
    why_none: str
    pace: float


class FieldCount(Document):
    """Entries of a field by state."""

    field: str
    asked: int
    answered: int
    conflict: int
    held: int
    open: int


class Coverage(Document):
    """How far each field is, as last counted; null: not yet."""

    at: Moment | None
    fields: Sequence[FieldCount]


class AnswerTimes(Document):
    """Seconds within which a tenth, half and nine tenths of the answers came."""

    field: str
    answers: int
    p10: float
    p50: float
    p90: float


class FieldAgreement(Document):
    """How far the answers to a field agree; null where nothing can be said."""

    field: str
    ask: str
    fields: Annotated[int, Field(description="Records in which two or more answered.")]
    answers: int
    observed: Annotated[
        float | None, Field(description="Share of the pairs of answers that agree.")
    ]
    alpha: Annotated[
        float | None, Field(description="Krippendorff's alpha, nominal data.")
    ]


class KindAgreement(Document):
    """The same over all fields of one kind of question."""

    ask: str
    fields: int
    answers: int
    observed: float | None
    alpha: float | None


class Confusion(Document):
    """What a worker (null: all of them) gives where which declared value is true."""

    field: str
    worker: Annotated[str | None, BeforeValidator(lambda name: name or None)]
    answers: int
    labels: Sequence[str]
    rows: Sequence[Sequence[float]]


class Agreement(Document):
    """How far workers agree, over the newest answers."""

    newest: int
    fields: Sequence[FieldAgreement]
    kinds: Sequence[KindAgreement]
    confusions: Sequence[Confusion]


class Usage(Document):
    """How near a worker is to one limit; ``tau`` is null where there is none."""

    f: Ratio
    tau: Ratio | None
    share: Ratio
    left: int | None
    nearest: int
    units: int


class Exposed(Document):
    """A worker, and how near it is to each limit."""

    name: str
    accounts: Sequence[str]
    groups: Sequence[str]
    usages: Mapping[str, Usage]


class ExposureMap(Document):
    """The workers nearest to a refusal, and how many are in each tenth of each limit."""

    rules: Sequence[str]
    nearest: Sequence[Exposed]
    total: int
    tenths: Mapping[str, Sequence[int]]


class CallHour(Document):
    """Calls of an hour by outcome, and their latency in seconds."""

    at: Moment
    calls: Mapping[str, int]
    p50: float | None
    p95: float | None


class ConnectorCalls(Document):
    """Calls to a connector by hour, and of all hours."""

    connector: str
    hours: Sequence[CallHour]
    whole: CallHour


class WaitingMessages(Document):
    """By connector: messages and seconds that the oldest waits, now and over time."""

    at: Moment
    now: Mapping[str, tuple[int, int]]
    ages: Mapping[str, Past]


class FailingMessages(Document):
    """Messages of a connector with one last error: tried again, and given up."""

    connector: str
    error: str
    retried: int
    dead: int
    tries: int


class Growth(Document):
    """Lines of the ledger and bytes of the store over time."""

    lines: Past
    size: Past
