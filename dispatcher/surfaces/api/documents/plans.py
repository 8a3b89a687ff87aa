"""Plans and the frontier of what plans can reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AliasPath, Field

from dispatcher.surfaces.api.documents.base import (
    Document,
    Moment,
    Name,
    Ratio,
    Request,
)


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
