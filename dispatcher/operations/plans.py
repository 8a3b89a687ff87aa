"""Plans: draft, show and apply them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dispatcher import model
from dispatcher.core.errors import Invalid, NotFound
from dispatcher.operations.instances import check_place, write_whole
from dispatcher.operations.workspace import Workspace
from dispatcher.preflight import Obstacle
from dispatcher.stages.planning import Drafted, Planning, no_plan
from dispatcher.stages.planning.plan_summary import lack
from dispatcher.store import Store
from dispatcher.store import planning as rows
from dispatcher.strategies import find_solver
from policies.instances.problem_document import document_of
from policies.model.objective import Objective, Preference
from policies.model.sets import InvalidProblem
from policies.planning.frontier import Frontier
from policies.solvers import Limits


@dataclass(frozen=True)
class StoredPlan:
    """A stored plan, with its numbers."""

    row: model.Plan

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Its numbers, as stored."""
        found: dict[str, Any] = json.loads(self.row.summary)
        return found


@dataclass(frozen=True)
class AppliedPlan:
    """An applied plan, and how many showings are planned now."""

    plan_id: int
    pairs: int


def draft(
    workspace: Workspace,
    store: Store,
    *,
    partial: bool = False,
    dry_run: bool = False,
    seed: int | None = None,
    algorithm: str = "auto",
    time_limit: float | None = None,
    prefer: Preference | None = None,
) -> Drafted:
    """Plan all fields that lack answers; nothing is sent before the plan is applied.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    partial : bool
        Plan the others where some fields have no plan.
    dry_run : bool
        Store nothing.
    seed : int, optional
        The same seed gives the same plan; None: that of the settings.
    algorithm : str
        ``auto``, or a solver.
    time_limit : float, optional
        Seconds of search, at most; None: those of the settings.
    prefer : Preference, optional
        Which of the plans is wanted; None: that of the settings.

    Raises
    ------
    Infeasible
        No plan meets the policy, and ``partial`` is off.
    """
    find_solver(algorithm)
    preflight = workspace.preflight(store)
    planning = Planning(
        store,
        workspace.clock,
        preflight=preflight,
        seconds=workspace.config.planning.seconds,
        prefer=prefer or Preference(workspace.config.planning.prefer),
    )
    return planning.draft(
        partial=partial,
        dry_run=dry_run,
        seed=workspace.config.seed if seed is None else seed,
        algorithm=algorithm,
        limits=None if time_limit is None else planning.limits(time_limit),
    )


def sweep(
    workspace: Workspace,
    store: Store,
    count: int,
    *,
    seed: int | None = None,
    time_limit: float = 60.0,
) -> Frontier:
    """Sweep the strictness of the policy over all fields that lack answers.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    count : int
        Limits on f, from none to 0; >= 2.
    seed : int, optional
        None: that of the settings.
    time_limit : float
        Seconds of search, at most.

    Raises
    ------
    Conflict
        No policy is in force.
    """
    preflight = workspace.preflight(store)
    planning = Planning(store, workspace.clock, preflight=preflight)
    chosen = workspace.config.seed if seed is None else seed
    return planning.sweep(count, seed=chosen or 0, limits=Limits(seconds=time_limit))


@dataclass(frozen=True)
class Exported:
    """What was written, and what the file cannot say."""

    entries: int
    adversaries: int
    properties: int
    notes: tuple[str, ...]


def export(workspace: Workspace, store: Store, path: Path) -> Exported:
    """Write the backlog as an instance file: numbers alone, no name and no value.

    It is all that lacks an answer and is not in flight, as if nothing was planned.

    Raises
    ------
    Conflict
        No policy is in force.
    Invalid
        The file cannot be written, or its format cannot state the backlog.
    """
    check_place(path)
    preflight = workspace.preflight(store)
    made = Planning(store, workspace.clock, preflight=preflight).problem()
    notes = []
    if made.problem.goal.objective is Objective.TRADEOFF:
        notes.append("of the tradeoff only the utility and the limits are written")
    if made.loose is not None:
        notes.append("cosines are written as 0, whatever their limit")
    try:
        document = document_of(made.problem, "backlog")
    except InvalidProblem as error:
        raise Invalid(
            "the backlog cannot be written as an instance",
            why=str(error),
            fix="plan it here: dispatcher plan --dry-run",
        ) from error
    absent = len(made.workforce) - document["n_adversaries"]
    if absent:
        notes.append(f"{absent} past a limit by what they saw are left out")
    write_whole(path, json.dumps(document, separators=(",", ":")) + "\n")
    return Exported(
        document["n_entries"],
        document["n_adversaries"],
        len(document["properties"]),
        tuple(notes),
    )


def held_back(drafted: Drafted) -> list[str]:
    """Describe fields without a plan: how many workers would suffice, and conflicts."""
    lines = []
    for core in drafted.summary["cores"]:
        lines.append(f"held back: {lack(core)}")
        lines += [f"  {why}" for why in core["why"]]
    return lines


def refused(drafted: Drafted) -> list[str]:
    """Describe which connectors cannot be used."""
    return [str(Obstacle(**one)) for one in drafted.summary["refused"]]


def apply(workspace: Workspace, store: Store, number: int | None = None) -> AppliedPlan:
    """Apply a plan, by default the latest draft."""
    plan_id = number or _latest_draft(store, "dispatcher plan makes one")
    preflight = workspace.preflight(store)
    planning = Planning(
        store,
        workspace.clock,
        preflight=preflight,
        choosing=workspace.config.tasks.choose > 0,
    )
    applied = AppliedPlan(plan_id, planning.apply(plan_id))
    planning.count_safe_workers()
    return applied


def list_plans(store: Store) -> list[StoredPlan]:
    """All plans, the newest first."""
    with store.read() as tx:
        return [StoredPlan(row) for row in rows.plans(tx)]


def show(store: Store, number: int | None = None) -> StoredPlan:
    """Return a plan, by default the latest draft.

    Raises
    ------
    NotFound
    """
    fix = "name a plan, like: dispatcher plan show 1"
    number = number or _latest_draft(store, fix)
    with store.read() as tx:
        found = rows.plan(tx, number)
        if found is None:
            raise no_plan(tx, number)
    return StoredPlan(found)


def _latest_draft(store: Store, fix: str) -> int:
    with store.read() as tx:
        drafts = [row.id for row in rows.plans(tx) if row.state == "draft"]
    if not drafts:
        raise NotFound(
            "there is no draft of a plan",
            why="every plan was applied, or dropped when another one was",
            fix=f"{fix}; dispatcher plan list shows all",
        )
    return max(drafts)
