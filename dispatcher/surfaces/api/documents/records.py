"""Records, their fields, and the runs that load, fill and export them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AliasPath, Field

from dispatcher.surfaces.api.documents.base import (
    Account,
    Document,
    Moment,
    Money,
    Name,
    Reason,
    Request,
)


class RecordLine(Document):
    """A record by its pseudonym, and how many of its fields are in which state."""

    id: str
    run: str
    state: str
    fields: int
    answered: int
    conflict: int


class RecordField(Document):
    """A field of a record; its value stays hidden."""

    field: str
    state: str
    tasks: int
    live: int
    answers: int
    held_back: str
    not_valid: str
    decided_by: Annotated[
        str, Field(description="`consensus` or `operator`; empty while it is open.")
    ]


class Record(Document):
    """A record by its pseudonym, with its fields."""

    id: str
    fields: Sequence[RecordField]


class FindRecord(Request):
    """The operator's key of a record, which no address ever contains."""

    key: Annotated[str, Field(min_length=1, max_length=4000)]


class Reveal(Request):
    """Why values are shown."""

    reason: Reason


class RevealedRecord(Document):
    """The values of a record: its key, its columns as loaded, and its answers by field."""

    id: str = Field(validation_alias="pseudonym")
    key: str
    loaded: Mapping[str, str | float | None]
    answers: Mapping[str, str]
    states: Mapping[str, str]
    decided_by: Mapping[str, str]


class FieldLine(Document):
    """A field, as PSEUDONYM.FIELD, with its showings and answers."""

    id: str
    run: str
    state: str
    burnt: bool
    shown: int
    t: int
    answers: int
    wanted: int
    open_tasks: int


class Unburn(Request):
    """Fields that may be shown to more workers than t says; null: all burnt ones."""

    fields: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    extra: Annotated[int, Field(ge=1, le=1000)]
    reason: Reason


class Unburnt(Document):
    """How many fields may be shown again."""

    fields: int
    extra_showings: int


class Explain(Request):
    """A field, as RECORD.FIELD by key or pseudonym, and maybe a worker."""

    field: Annotated[str, Field(min_length=3, max_length=4200)]
    worker: Account | None = None


class RuleEffect(Document):
    """What a showing would do to one rule."""

    rule: str
    before: str
    after: str
    tau: str | None
    refused: bool


class Explanation(Document):
    """Who could be shown a field and, where one worker is named, what the gate says."""

    to: str
    can_take: Sequence[str]
    adversaries: int
    worker: str | None = None
    allowed: bool | None = None
    held: bool | None = None
    refused_by: str | None = None
    why: str | None = None
    showings: int | None = None
    t: int | None = None
    rules: Sequence[RuleEffect] = ()
    obstacle: str | None = None


class Budget(Document):
    """A run's budget and its use."""

    run: str
    cap: Money
    per_day: Money | None
    reward: Money
    bonus: Money
    fee_percent: str
    promised: Money
    paid: Money
    today: Money
    room: Money
    used_up: str

    @property
    def terms(self) -> tuple[str | None, ...]:
        """What it allows, as the operation compares it."""
        amounts = (self.cap, self.per_day, self.reward, self.bonus)
        said = [
            None if one is None else f"{one.currency}:{one.amount}" for one in amounts
        ]
        return (*said, self.fee_percent)


class LoadedFile(Document):
    """A file that was loaded; complete once it was read to its end."""

    source: str
    started_at: Moment
    complete: bool
    records: int
    rejected: int


class Export(Document):
    """A file that a run's records were written to."""

    path: str
    at: Moment


class Run(Document):
    """A run: its files and its budget."""

    run: str
    state: str
    created_at: Moment
    loads: Sequence[LoadedFile]
    exports: Sequence[Export]
    budget: Budget | None


class RunLine(Document):
    """A run by its name."""

    run: str


class RunProgress(Document):
    """How far a run is; fields are those that the policy asks."""

    run: str
    state: str
    created_at: Moment
    records: int
    fields: int
    answered: int
    conflict: int
    paused: str


class AmountRequest(Request):
    """An amount of money, exactly."""

    amount: Annotated[str, Field(pattern=r"^[0-9]{1,12}(\.[0-9]{1,6})?$")]
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]


class BudgetRequest(Request):
    """Changes to a budget; what is left out stays unchanged."""

    cap: AmountRequest | None = None
    per_day: AmountRequest | None = None
    reward: AmountRequest | None = None
    bonus: AmountRequest | None = None
    fee_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    no_daily_limit: bool = False


class PilotRequest(Request):
    """How many records are shown until the pilot is accepted."""

    records: Annotated[int, Field(ge=1, le=10**6)]


class PilotField(Document):
    """Results of one field in a pilot."""

    field: str
    entries: int
    answered: int
    conflicts: int
    answers: int
    agreement: float | None
    seconds: float | None


class Pilot(Document):
    """Results of a run's released records."""

    run: str = Field(validation_alias=AliasPath("row", "name"))
    waiting: int
    answers: int
    seconds: float | None
    fields: Sequence[PilotField]


class PilotAccepted(Document):
    """How many records waited."""

    released: int


class Loaded(Document):
    """What became of a file of records."""

    run: str
    records: int
    entries: int
    skipped: int
    rejected: int


class ColumnFacts(Document):
    """Facts of a column, without its values."""

    name: str
    type: str = Field(validation_alias="kind")
    empty: int
    distinct: int
    looks_like: str
    suggestion: str


class RejectedRow(Document):
    """A row that a load would reject: where and why, never its content."""

    line: int
    column: str
    reason: str


class Preview(Document):
    """What a file has in it, and which rows a load would reject."""

    rows: int
    columns: Sequence[ColumnFacts]
    rejections: int
    rejected: Sequence[RejectedRow]


class ExportRun(Request):
    """How the records of a run are written, and why they are taken out."""

    format: Literal["csv", "jsonl"] = "jsonl"
    excel_guard: bool = True
    reason: Reason


class Exported(Document):
    """What was written; ``GET /operations/{id}/content`` gives it once."""

    records: int
    whole: int
    fields: Mapping[str, int] = Field(validation_alias="states")


class ExplainedField(Document):
    """Who has seen a field, and how many could."""

    field: str
    state: str
    seen_by: Sequence[str]
    open_tasks: int
    answers: int
    could_take: int | None
    recipients: str
    held_back: str


class RecordExplanation(Document):
    """Who has seen which field of a record, by pseudonym, and how many could."""

    id: str
    fields: Sequence[ExplainedField]
