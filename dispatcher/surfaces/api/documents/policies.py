"""Policies: versions, checks, tests, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AliasPath, Field

from dispatcher.surfaces.api.documents.base import (
    Count,
    Document,
    Moment,
    Name,
    Request,
)
from dispatcher.surfaces.api.documents.workers import PastSet


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


class PolicyTest(Document):
    """One test of a policy."""

    test: str
    passed: bool


class TestedPolicy(Document):
    """Outcomes of a policy's own tests."""

    tests: Sequence[PolicyTest]
