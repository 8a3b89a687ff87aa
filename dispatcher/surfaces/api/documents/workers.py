"""Workers, what each holds, groups and merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AliasPath, Field

from dispatcher.surfaces.api.documents.base import (
    Account,
    Count,
    Document,
    Moment,
    Ratio,
    Reason,
    Request,
)


class WorkerLine(Document):
    """A worker account."""

    worker: str = Field(validation_alias="text")
    state: str
    adversary: int = Field(validation_alias="adversary_id")


class BlockedWorker(WorkerLine):
    """A worker who is blocked, and what that costs."""

    open_tasks: Annotated[int, Field(description="Taken back, but for those in hand.")]
    workers_left: Annotated[
        int, Field(validation_alias="workers", description="Who stay active.")
    ]
    workers_needed: Annotated[
        int | None,
        Field(
            validation_alias="needed",
            description="So many, and no field is left without one.",
        ),
    ]


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
