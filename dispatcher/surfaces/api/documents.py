"""Documents of the API: what requests contain, and what responses contain.

A response takes its members from the attributes of what an operation returns. No member
has a value of a field, except in what is revealed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

T = TypeVar("T")


def _moment(at: object) -> object:
    return datetime.fromtimestamp(at / 1e6, UTC) if isinstance(at, int) else at


def _base64(content: object) -> object:
    return b64encode(content).decode() if isinstance(content, bytes) else content


def _amount(text: object) -> object:
    if not isinstance(text, str):
        return text
    sign, rest = ("-", text[1:]) if text.startswith("-") else ("", text)
    return {"amount": sign + rest[4:], "currency": rest[:3]}  # GBP:1.20


Ratio = Annotated[float, BeforeValidator(float)]
"""An exact ratio, as near as a float comes."""
Moment = Annotated[datetime, BeforeValidator(_moment)]
"""A moment, UTC (RFC 3339)."""
Account = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_-]{0,39}/[^\x00-\x1f\x7f]{1,400}$",
        description="CONNECTOR/NAME",
    ),
]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=500, description="One line; kept for auditors."),
]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Id = Annotated[int, Field(ge=1, le=2**62)]


class Request(BaseModel):
    """The body of a request; unknown members are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Document(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Page(Document, Generic[T]):
    """A part of a list, and the cursor of the next part; null at the end."""

    items: Sequence[T]
    next_cursor: str | None = None


class Problem(Document):
    """Why a request was refused (RFC 9457), and the way out."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    fix: str
    retryable: bool
    instance: str
    why: str | None = None
    facts: Mapping[str, str | int | float] | None = None
    errors: Sequence[Mapping[str, str]] | None = None


class Amount(Document):
    """An amount of money, exactly."""

    amount: str
    currency: str


Money = Annotated[Amount, BeforeValidator(_amount)]


# -- the work as a whole -----------------------------------------------------------------


class Paused(Document):
    """Why something is paused, and since when."""

    reason: str
    since: Moment


class NearestLimit(Document):
    """The rule whose limit is nearest."""

    rule: str
    f: str
    limit: str
    share: float


class PlanInForce(Document):
    """The plan in force: what it means still, and how good it is."""

    plan: int
    pairs: int
    planned_worst: NearestLimit | None
    planned_complete: int
    gap: float | None
    outdated: bool
    moves: int


class SafeWorkers(Document):
    """How many workers must stay active so that no field is left without one."""

    needed: int | None
    present: int
    field: str
    short: bool


class Limits(Document):
    """How near anybody came to any limit."""

    crossed: Sequence[str]
    worst: NearestLimit
    left: int | None
    rule: str
    units: int


class Status(Document):
    """The numbers of one snapshot."""

    at: Moment
    policy_version: int
    leader: str | None
    servers: Sequence[str]
    epoch: int
    counts: Mapping[str, int]
    asked: int
    tasks: Mapping[str, int]
    outbox: Mapping[str, int]
    results: Mapping[str, int]
    workers: Mapping[str, int]
    payments: Mapping[str, int]
    oldest_waiting_minutes: int
    sealed_minutes_ago: int | None
    paused: Mapping[str, Paused]
    plan: PlanInForce | None
    safe_workers: SafeWorkers | None
    limits: Limits | None
    counted_at: Moment | None
    needs_you: Sequence[str]


class Finding(Document):
    """Something that a check of the installation found."""

    part: str
    severity: str
    text: str
    why: str
    fix: str


class PauseRequest(Request):
    """What to pause: everything, one connector or one run."""

    reason: Reason
    connector: Name | None = None
    run: Name | None = None


class ResumeRequest(Request):
    """What to resume."""

    connector: Name | None = None
    run: Name | None = None


class Scope(Document):
    """What was paused: ``all``, ``connector:NAME`` or ``run:NAME``."""

    scope: str


class Resumed(Document):
    """What was resumed, and what is still paused."""

    scope: str
    was_paused: bool
    still_paused: Sequence[str]


# -- records and fields --------------------------------------------------------------------


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


# -- runs ----------------------------------------------------------------------------------


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


# -- workers -------------------------------------------------------------------------------


class WorkerLine(Document):
    """A worker account."""

    worker: str = Field(validation_alias="text")
    state: str
    adversary: int = Field(validation_alias="adversary_id")


class RuleShare(Document):
    """How near a worker is to one limit."""

    rule: str
    f: str
    limit: str | None
    share: float
    left: int | None
    units: int
    full: int
    refused: Sequence[str]


class NearSet(Document):
    """A set of a rule as the worker sees it who is nearest to completing it."""

    unit: str
    worker: str
    f: Ratio
    left: int | None


class RuleSets(Document):
    """A rule of the policy in force, and its sets nearest to the limit.

    ``judged`` is false where the gate keeps no counts for it and judges when it is
    asked; ``pairs`` counts each set for each worker that holds something of it.
    """

    rule: str
    fields: Sequence[str]
    scope: str
    limit: str | None
    judged: bool
    workers: int
    pairs: int
    crossed: int
    nearest: Sequence[NearSet]


class SetEntry(Document):
    """An entry of a set, and who was shown it."""

    record: str
    field: str
    state: str
    holders: Sequence[str]


class SetHolder(Document):
    """What a worker holds of a set, now and after the entry that would tell most."""

    worker: str
    accounts: Sequence[str]
    held: int
    f: Ratio
    after: Ratio
    left: int | None
    refused: Sequence[tuple[str, str]]


class RuleSet(Document):
    """A set of a rule: its entries, and who holds something of it, nearest first."""

    rule: str
    unit: str
    limit: str | None
    entries: Sequence[SetEntry]
    holders: Sequence[SetHolder]


class Worker(Document):
    """A worker: what it saw, how near it is to each limit, how good it is."""

    worker: str
    state: str
    adversary: str
    accounts: Sequence[str]
    groups: Sequence[str]
    may_be_one_person_with: Sequence[str]
    fields_seen: int
    records_seen: int
    open_tasks: int
    agreement: float
    gold_accuracy: float
    exposure: Sequence[RuleShare]


class Workers(Request):
    """Workers, as CONNECTOR/NAME."""

    workers: Annotated[list[Account], Field(min_length=1, max_length=1000)]


class AddWorkers(Workers):
    """Workers to add, and as many sets past a limit as the dry run shows, exactly."""

    accept_past: Count = 0


class Added(Document):
    """Which workers were added, and which were there before."""

    added: Sequence[str]
    known: Sequence[str]
    adversaries_joined: int
    past: int


class InviteWorkers(Workers):
    """Workers to invite, and for how many days the links are valid."""

    days: Annotated[int, Field(ge=1, le=3650)] = 90


class Invited(Document):
    """Personal links to the task page by worker: each is the worker's key."""

    links: Mapping[str, str]


class Group(Document):
    """A group of the policy in force."""

    name: str
    accounts: Sequence[str]
    trusted: Sequence[str]


class MergeWorkers(Request):
    """Accounts that are one worker, and as many sets past a limit as are accepted."""

    accounts: Annotated[list[Account], Field(min_length=2, max_length=1000)]
    reason: Reason
    accept_past: Count = 0


class PastSet(Document):
    """A set that a change puts past a limit."""

    adversary: str
    rule: str
    record: str | None
    subjects: Sequence[str]


class Merge(Document):
    """What a merge did, or would do."""

    accounts: Sequence[Sequence[str]]
    joined: int = Field(validation_alias=AliasPath("merged", "joined"))
    fields: int = Field(validation_alias=AliasPath("merged", "entries"))
    by_rule: Mapping[str, int]
    findings: Sequence[PastSet]


class Suspects(Document):
    """Two accounts that may be one person."""

    accounts: Sequence[str]
    noted: Moment
    merge: Merge


class Distinguish(Request):
    """Two accounts that are two people."""

    first: Account
    second: Account
    reason: Reason


class Pair(Document):
    """Two accounts that are kept apart."""

    accounts: Sequence[str]


# -- plans ---------------------------------------------------------------------------------


class Plan(Document):
    """A plan, with its numbers."""

    id: int
    state: str
    verdict: str
    policy_version: int
    algorithm: str
    seed: int
    created_at: Moment
    applied_at: Moment | None
    summary: Mapping[str, Any]


class DraftPlan(Request):
    """How to plan."""

    partial: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    algorithm: Name = "auto"
    time_limit: Annotated[float, Field(ge=0.1, le=3600)] | None = None
    prefer: (
        Literal["utility", "fewest-workers", "fairest-load", "most-agreement"] | None
    ) = None


class Drafted(Document):
    """A plan that was made; nothing is sent before it is applied."""

    plan: int | None = Field(validation_alias="plan_id")
    verdict: str
    summary: Mapping[str, Any]


class AppliedPlan(Document):
    """An applied plan, and how many showings are planned now."""

    plan: int = Field(validation_alias="plan_id")
    pairs: int


class ExportedPlan(Document):
    """The backlog as an instance file: numbers alone, no name and no value."""

    instance: Mapping[str, Any]
    notes: Sequence[str]


class FrontierRequest(Request):
    """How many limits on f are tried, from none to 0, and for how long at most."""

    points: Annotated[int, Field(ge=2, le=50)] = 8
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    time_limit: Annotated[float, Field(ge=0.1, le=3600)] = 60.0


# -- the policy ------------------------------------------------------------------------------


class PolicyText(Request):
    """A policy file, as text (TOML)."""

    source: Annotated[str, Field(min_length=1, max_length=1_000_000)]


class PolicyVersion(Document):
    """A version of the policy, byte for byte."""

    version: int
    sha256: str
    applied_at: Moment
    source: str


class VersionLine(Document):
    """A version that was applied, and until when it was in force; null: it still is."""

    version: int = Field(validation_alias=AliasPath("row", "version"))
    name: str = Field(validation_alias=AliasPath("row", "name"))
    sha256: str = Field(validation_alias=AliasPath("row", "sha256"))
    applied_at: Moment = Field(validation_alias=AliasPath("row", "applied_at"))
    accepted_past: int = Field(validation_alias=AliasPath("row", "accepted"))
    reason: str = Field(validation_alias=AliasPath("row", "reason"))
    until: Moment | None


class AskPolicy(PolicyText):
    """A field, and those that a stranger has seen of the same record."""

    seen: Annotated[list[Name], Field(max_length=200)] = []
    following: Name


class AskedPolicy(Document):
    """Whether the policy lets that stranger see the field."""

    allowed: bool
    refused_by: Sequence[str]
    unjudged: Sequence[str]


class DrawPolicy(Request):
    """What is drawn: a policy file, or without one the policy in force on its records."""

    source: Annotated[str, Field(min_length=1, max_length=1_000_000)] | None = None
    time_limit: Annotated[float, Field(ge=0.1, le=600)] = 10.0


class SeenFields(Document):
    """Fields that are seen of one record, and the share of people they single out."""

    fields: Sequence[str]
    proven: bool
    share: float | None
    at_most: float | None
    beyond: float | None


class Drawn(Document):
    """What one stranger could know; ``GET /operations/{id}/content`` gives the page once."""

    sentences: Sequence[str]
    finished: bool
    one: SeenFields
    worst: SeenFields
    most_telling: SeenFields | None
    two_together: SeenFields
    one_of_two_records: SeenFields | None


class SuggestedPolicy(Document):
    """A policy drafted from a file; no value is in it."""

    source: str
    kept_apart: int
    withheld: Sequence[str]
    more_with: str


class Diagnostic(Document):
    """What a check of a policy file found, and where."""

    code: str
    severity: str
    line: int
    column: int
    message: str
    why: str
    fix: str


class Checked(Document):
    """Whether a policy file is valid, and what was found in it."""

    valid: bool
    diagnostics: Sequence[Diagnostic]


class Difference(Document):
    """One difference between two policies."""

    sign: str
    part: str
    name: str
    changes: Sequence[str]
    looser: bool


class Comparison(Document):
    """Differences between a policy file and a version; 0: no version."""

    against: int
    differences: Sequence[Difference]


class ApplyPolicy(PolicyText):
    """A policy to put in force; ``If-Match`` says over which version."""

    in_flight: Literal["recall", "drain", "keep"] = "recall"
    accept_past: Count = 0
    reason: Annotated[str, Field(max_length=500)] = ""
    sample: bool = False


class PlanPolicy(PolicyText):
    """A policy whose effect is asked."""

    in_flight: Literal["recall", "drain", "keep"] = "recall"
    time_limit: Annotated[float, Field(ge=0.1, le=600)] = 10.0


class AppliedPolicy(Document):
    """A version that is in force now."""

    version: int
    sha256: str
    changed: bool
    adversaries_joined: int = Field(validation_alias="joined")


class PolicyImpact(Document):
    """What putting a policy in force would do."""

    in_force: int
    version: int = Field(validation_alias=AliasPath("applied", "version"))
    changed: bool = Field(validation_alias=AliasPath("applied", "changed"))
    planned: int = Field(validation_alias=AliasPath("impact", "planned"))
    refused: int = Field(validation_alias=AliasPath("impact", "refused"))
    verdict: str = Field(validation_alias=AliasPath("impact", "verdict"))
    adversaries: int = Field(validation_alias=AliasPath("impact", "present"))
    needed: int | None = Field(validation_alias=AliasPath("impact", "needed"))
    held: int = Field(validation_alias=AliasPath("impact", "held"))
    safe_with: int = Field(validation_alias=AliasPath("impact", "safe_with"))
    why: Sequence[str] = Field(validation_alias=AliasPath("impact", "why"))
    by_rule: Mapping[str, int]
    findings: Sequence[PastSet]


# -- connectors and the queue --------------------------------------------------------------


class Connector(Document):
    """A connector of the settings, and what it declares."""

    name: str
    kind: str
    origin: str
    role: str = Field(validation_alias=AliasPath("manifest", "role"))
    binding: str = Field(validation_alias=AliasPath("manifest", "binding"))
    identity: str = Field(validation_alias=AliasPath("manifest", "identity"))
    content: str = Field(validation_alias=AliasPath("manifest", "content"))
    preview: str = Field(validation_alias=AliasPath("manifest", "preview"))
    idempotency: str = Field(validation_alias=AliasPath("manifest", "idempotency"))
    finds: bool = Field(validation_alias=AliasPath("manifest", "finds"))
    withdraws: bool = Field(validation_alias=AliasPath("manifest", "withdraws"))


class ConnectorHealth(Document):
    """How a connector fares: its circuit, the last error, what its account has left.

    The circuit is ``closed`` while it is called, ``open`` while it rests after failures,
    ``half-open`` when the next call decides.
    """

    circuit: str
    since: Moment | None
    next_try: Moment | None
    failures: int
    error: str
    balance: Annotated[str, Field(description="As it last told; empty: it cannot.")]
    balance_at: Moment | None


class ConnectorWithHealth(Connector):
    """A connector of the settings, what it declares, and how it fares."""

    health: ConnectorHealth


class ConnectorState(Document):
    """Whether a connector works: ``ok``, ``LATER`` or ``FAIL``."""

    state: str
    why: str
    balance: Annotated[str, Field(description="What its account has left, if known.")]


class Enabled(Document):
    """Whether a connector is enabled."""

    name: str
    enabled: bool


class Enable(Request):
    """Whether to enable a connector that was not asked whether it works."""

    untested: bool = False


class Drift(Document):
    """How a market's list differs from what the store knows."""

    listed: int
    differs: bool
    doubtful: bool
    counts: Mapping[str, int]


class Reconcile(Request):
    """Whether to mend differences, and to trust the list if most of it is missing."""

    mend: bool = False
    trust: bool = False


class Message(Document):
    """A message to a connector, without what it shows."""

    id: int
    connector: str
    worker: str
    kind: str
    state: str
    tries: int
    error: str


class RetryMessages(Request):
    """Messages that were given up: by id, or all (of one connector)."""

    ids: Annotated[list[Id], Field(max_length=1000)] = []
    connector: Name | None = None


class Retried(Document):
    """Requeued messages, and their fields that are past a limit by now."""

    messages: int
    kept_back: int


class WithdrawMessages(Request):
    """Messages to take back."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)]


class Withdrawn(Document):
    """Messages taken back, their tasks that ended, and messages that go on."""

    messages: int
    tasks: int
    left: Sequence[int]


# -- answers, payments, questions ------------------------------------------------------------


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


# -- the ledger, evidence, people ------------------------------------------------------------


class Root(Document):
    """The root of the last seal."""

    root: str
    seq: int
    at: Moment


class LedgerCheck(Document):
    """What a check of the ledger found."""

    ok: bool
    lines: int
    chains: int
    seals: int
    root: str | None
    shipped: int | None
    missing_heads: Sequence[str]
    edited: int


class VerifyLedger(Request):
    """Heads and roots that auditors have, and that the ledger must contain."""

    heads: Annotated[
        list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]], Field(max_length=1000)
    ] = []


class Proof(Document):
    """A proof of what was shown of a record or worker, for the verifier."""

    document: Mapping[str, Any]
    showings: Sequence[Mapping[str, Any]]


class ProveRequest(Request):
    """Whose showings are proven: a worker, or RECORD.FIELD."""

    about: Annotated[str, Field(min_length=1, max_length=4200)]


class AuditLine(Document):
    """Who did what, when and why, and what came of it."""

    seq: int
    at: Moment
    actor: str
    surface: str
    operation: str
    target: str
    reason: str
    outcome: str


class EventLine(Document):
    """What happened, also by workers and the daemon: ids and numbers, no value."""

    id: int
    at: Moment
    actor: str
    action: str
    detail: Mapping[str, Any]


class Verdict(Document):
    """What the check of something handed out found."""

    about: Literal["evidence", "proof", "receipt"]
    ok: bool
    text: str


class Subject(Document):
    """What the store has of a person or record, by pseudonym."""

    id: str
    counts: Mapping[str, int]
    open_tasks: Mapping[str, int]
    showings: int
    adversaries: int


class Erased(Document):
    """What was deleted, and what cannot be."""

    deleted: Mapping[str, int]
    recalled: Mapping[str, int] = {}
    not_recalled: Mapping[str, int] = {}
    scrubbed: bool = False
    receipt: str | None = None


class Backup(Document):
    """A backup that can be restored."""

    id: str
    at: Moment
    bytes: int = Field(validation_alias="size")
    ledger_lines: int = Field(validation_alias="lines")


class Operation(Document):
    """Work that takes long: its state, and its result or problem at the end."""

    id: str
    operation: str
    state: Literal["running", "done", "failed", "interrupted"]
    started_at: Moment
    ended_at: Moment | None
    result: Any = None
    problem: Problem | None = None


class Loaded(Document):
    """What became of a file of records."""

    run: str
    records: int
    entries: int
    skipped: int
    rejected: int


# -- what was added with uploads, exports and long operations ---------------------------------


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


class FrontierPoint(Document):
    """One limit on f, and what plans under it are worth."""

    limit: Ratio | None
    verdict: str
    utility: Ratio | None
    utility_at_most: Ratio | None = Field(validation_alias="bound")
    worst_f: Ratio | None = Field(validation_alias="f")
    workers_least: int = Field(validation_alias=AliasPath("needed", "least"))
    workers_enough: int | None = Field(validation_alias=AliasPath("needed", "enough"))
    workers_never: bool = Field(validation_alias=AliasPath("needed", "never"))


class Frontier(Document):
    """Workers and utility over the strictness of the policy, and under it as it is."""

    adversaries: int
    answers: int
    points: Sequence[FrontierPoint]
    policy: FrontierPoint


class PolicyTest(Document):
    """One test of a policy."""

    test: str
    passed: bool


class TestedPolicy(Document):
    """Outcomes of a policy's own tests."""

    tests: Sequence[PolicyTest]


class GoldAdded(Document):
    """How many made-up questions are new, and how many were there before."""

    new: int
    known: int


class QuestionsOfTest(Document):
    """How many questions the test of a field has."""

    questions: int


class AddConnector(Request):
    """A connector to set up: its settings, and its secret."""

    name: Annotated[str, Field(pattern="^[a-z][a-z0-9_-]{0,39}$")]
    settings: Annotated[dict[Name, Name], Field(max_length=50)]
    secret: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None


class Secret(Request):
    """A secret; it is shown by nothing."""

    secret: Annotated[str, Field(min_length=1, max_length=10_000)]


class ConnectorName(Document):
    """The connector that was changed; the daemon reads its settings when it starts."""

    name: str


class FindSubject(Request):
    """The key of a person or record, which no address ever contains."""

    key: Annotated[str, Field(min_length=1, max_length=4000)]


class EraseSubject(Request):
    """The pseudonym once more, as a confirmation."""

    confirm: Name


class PurgeRecords(Request):
    """Records loaded so many days ago, or before, lose their values."""

    older_than_days: Annotated[int, Field(ge=1, le=36_500)]


class ReportSubject(Request):
    """Whether the report names the workers who saw something."""

    with_names: bool = False


class Reported(Document):
    """What the report has in it; ``GET /operations/{id}/content`` gives it once."""

    counts: Mapping[str, int]


class Evidence(Document):
    """The bundle that was made; ``GET /operations/{id}/content`` gives it once."""

    root: str
    lines: int
    counts: Mapping[str, int]


class BackupProof(Document):
    """Whether a backup can be restored."""

    file: str
    ok: bool
    lines: int


class PruneBackups(Request):
    """How many of the newest backups are kept."""

    keep: Annotated[int, Field(ge=1, le=10_000)]


class BackupCheck(Document):
    """Whether each backup can be restored."""

    backups: Sequence[BackupProof]


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


# -- people who operate ------------------------------------------------------------------------


class User(Document):
    """A user and their roles; ``signs_in_by``: password, provider, or nothing yet."""

    name: str
    roles: Sequence[str]
    state: str
    made_at: Moment
    signs_in_by: str


class Roles(Request):
    """The roles of a user, and no others."""

    roles: Annotated[list[Name], Field(min_length=1, max_length=20)]


class AddUser(Roles):
    """A new user."""

    name: Name


class Enrolment(Document):
    """The link with which a user chooses a password, within a day; shown this once."""

    name: str
    link: str


class Session(Document):
    """A session of the console; its id ends it, and opens nothing."""

    id: str
    user: str
    opened_at: Moment
    seen_at: Moment


class Token(Document):
    """A token by its first characters."""

    id: int
    name: str
    prefix: str
    user: str | None
    scopes: Sequence[str]
    state: str
    made_at: Moment
    ends_at: Moment
    used_at: Moment | None


class MakeToken(Request):
    """What a token is for, what it may do, and for how many days."""

    name: Name
    scopes: Annotated[list[Name], Field(min_length=1, max_length=100)]
    days: Annotated[int, Field(ge=1, le=366)] = 30
    user: Name | None = None


class NewToken(Document):
    """A token that was made; the secret is kept nowhere."""

    id: int
    token: str = Field(validation_alias="secret")
    prefix: str
    ends_at: Moment


# -- notices -------------------------------------------------------------------------------


class AddWebhook(Request):
    """Where notices are posted, and which; none: all but heartbeats."""

    url: Annotated[str, Field(min_length=1, max_length=2000)]
    types: Annotated[list[Name], Field(max_length=100)] = []


class NewWebhook(Document):
    """A webhook's secret, shown this once; ``old_until``: when the one of before ends."""

    id: int
    secret: str
    old_until: Moment | None


class Webhook(Document):
    """A webhook without its secret; ``failed`` counts what was given up in 30 days."""

    id: int
    url: str
    types: Sequence[str]
    state: str
    made_at: Moment
    old_secret_until: Moment | None
    failed: int


class RemovedWebhook(Document):
    """A webhook that was removed with its log."""

    id: int


class TriedWebhook(Document):
    """What came of a test; ``error`` is null if it arrived."""

    id: int
    status: int | None
    error: str | None


class Delivery(Document):
    """One notice on its way to one webhook; ``state``: ready, sent or failed."""

    id: int
    message: str
    type: str
    at: Moment
    state: str
    attempts: int
    due: Moment
    status: int | None
    error: str | None
    ended_at: Moment | None


class Redelivered(Document):
    """A delivery that the daemon makes again, under the same message id."""

    id: int


# -- figures -------------------------------------------------------------------------------


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
