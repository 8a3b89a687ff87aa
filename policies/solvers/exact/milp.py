"""MILP: the whole problem as one mixed-integer program, solved by HiGHS.

The plain formulation of the paper (sections 4.1 and 4.2) with its gaps mended: squares
are exact at the loads that can occur, coalitions are columns, strict limits stay strict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.problem import Pairs, Problem
from policies.solvers.exact.cpsat import refuted
from policies.solvers.exact.highs import (
    EMPTY,
    LATE,
    MARGIN,
    OPTIMAL,
    Model,
    Outcome,
    build,
    run,
)
from policies.solvers.exact.linear_model import Late
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound
from policies.solvers.scaling import reached

SAFETY: Final = 1e-3
"""Taken off HiGHS's bounds on a cost of 10^6: more than its tolerances can hide."""

_LARGEST = 4_000_000  # members x hands above which no model is built


def linear(problem: Problem) -> bool:
    """Whether a linear model says everything that counts."""
    links = problem.links
    if problem.utilities is not None:
        return False
    if links is None:
        return True
    return not links.limited and problem.goal.objective.value == "disc-budget"


class Milp:
    """Exact for every function but cosine, as far as time goes."""

    def supports(self, problem: Problem) -> bool:
        """All problems without links that count, while the model stays small."""
        hands = problem.n_adversaries + len(problem.groups)
        size = (len(problem.sets.entry) + problem.n_entries) * hands
        return linear(problem) and size <= _LARGEST

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Find the best plan, or prove that there is none."""
        return solve(problem, limits, seed=int(rng.integers(2**31 - 1)))


def solve(
    problem: Problem,
    limits: Limits,
    *,
    seed: int = 0,
    start: Pairs | None = None,
    done: Callable[[], bool] | None = None,
) -> Solution:
    """Solve as one MILP.

    Parameters
    ----------
    problem : Problem
    limits : Limits
    seed : int
    start : Pairs, optional
        A plan to start from.
    done : callable, optional
        True once the answer is not wanted any more.
    """
    over, began, margin = limits.deadline(), limits.clock(), 0.0
    ceiling = free_bound(problem)
    while True:
        try:
            model = build(problem, margin, over)
        except Late:
            told = ("HiGHS had no time",)
            return Solution(Verdict.UNKNOWN, bound=ceiling, tried=told, stopped="time")
        if model.impossible and not margin:
            return refuted(problem, "an entry, history or a limit leaves no plan")
        found = run(model, limits.left(began), start=start, seed=seed, done=done)
        if not margin:  # margins cut plans off: such bounds prove nothing
            ceiling = min(ceiling, bound_of(model, found, ceiling))
        if found.status == EMPTY and not margin:
            return refuted(problem, "all assignments were searched")
        stopped = _stopped(found, limits)
        if found.values is None:
            told = (_without(stopped),)
            return Solution(Verdict.UNKNOWN, bound=ceiling, tried=told, stopped=stopped)
        made = answer(
            problem,
            model.plan(found.values),
            bound=ceiling,
            tried=("HiGHS",),
            stopped=stopped,
        )
        if made.verdict is Verdict.SOLVED or margin > 1e-3 or over():
            return _proven(made)
        margin = max(margin * 30, MARGIN)


def bound_of(model: Model, found: Outcome, ceiling: Fraction) -> Fraction:
    """Bound on the objective from HiGHS's bound on the cost."""
    if not np.isfinite(found.bound):
        return ceiling
    return Fraction(model.objective(found.bound - SAFETY * model.slack))


def _stopped(found: Outcome, limits: Limits) -> str:
    if found.status == OPTIMAL:
        return "optimal"
    if limits.stopped():
        return "interrupt"
    if found.status == LATE:
        return "time"
    return "gap" if limits.work == float("inf") else "work"


def _without(stopped: str) -> str:
    """Say that HiGHS has no plan."""
    if stopped == "gap":
        return "HiGHS gave up: numbers too far apart"
    return "HiGHS found no plan in time"


def _proven(made: Solution) -> Solution:
    """Call it a gap where the bound is not reached: squares may be bounds only."""
    if made.stopped != "optimal" or reached(made.value, made.bound):
        return made
    return replace(made, stopped="gap")
