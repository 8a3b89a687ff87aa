"""The work as a whole: its state, findings, pauses, long operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dispatcher.surfaces.api.documents.base import (
    Document,
    Moment,
    Name,
    Problem,
    Reason,
    Request,
)


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
    choosing: bool
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


class Operation(Document):
    """Work that takes long: its state, and its result or problem at the end."""

    id: str
    operation: str
    state: Literal["running", "done", "failed", "interrupted"]
    started_at: Moment
    ended_at: Moment | None
    result: Any = None
    problem: Problem | None = None
