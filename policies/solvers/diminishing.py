"""AUTO for utilities that are not sums over pairs: submodular solvers and explanations.

Whether there is a plan does not depend on u: counting and cores are those of the problem
without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Goal, Problem
from policies.solvers.exact.enumeration import enumerate_plans, listable
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Solver,
    Verdict,
    answer,
    free_bound,
)
from policies.solvers.search.submodular_tradeoff import (
    Asked,
    Question,
    climbed,
    cut_levels,
    reassign_singly,
    singly,
)

START: Final = 0.3
"""Share of the time for any plan, with a reserve for engines that are late to load."""


def diminishing(
    solvers: Sequence[Solver],
    feasible: Question,
    led: Question,
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
) -> Solution:
    """Return the best plan of the solvers that support the problem.

    Parameters
    ----------
    solvers : sequence of Solver
        For submodular utilities, the best first.
    feasible : callable
        Answers the same question with weights instead of utilities.
    led : callable
        Plans a tradeoff of weights, quickly.
    problem : Problem
        Has utilities. A tradeoff is planned for u alone, then below levels of f.
    rng, limits
    """
    asked = problem
    if problem.goal.objective is Objective.TRADEOFF:
        asked = replace(problem, goal=Goal(Objective.DISC_BUDGET))
    began = limits.clock()
    best, bound = _begun(solvers, problem, asked, rng, limits)
    open_ = best.verdict is not Verdict.SOLVED or best.value < bound
    if open_ and listable(problem):
        every = enumerate_plans(problem, limits.left(began, 0.5))
        if every.verdict is Verdict.SOLVED:
            return every
    if best.verdict is Verdict.SOLVED and asked is not problem:
        rest = limits.left(began).part(0.4)
        who = Asked(solvers[0], feasible, led)
        best = cut_levels(who, problem, best, rng, rest)
        bound = best.bound
    if best.verdict is Verdict.SOLVED:
        bound = max(bound, best.value)
        ended = "optimal" if best.value >= bound else best.stopped
        return replace(best, bound=bound, stopped=ended)
    return _otherwise(feasible, problem, rng, limits.left(began).part(0.8))


def _begun(
    solvers: Sequence[Solver],
    problem: Problem,
    asked: Problem,
    rng: np.random.Generator,
    limits: Limits,
) -> tuple[Solution, Fraction]:
    """Return the best plan of the solvers that support ``asked``, and a bound."""
    best = Solution(Verdict.UNKNOWN, bound=free_bound(problem))
    bound = best.bound
    half = replace(limits, seconds=limits.seconds * 0.4, work=limits.work * 0.4)
    for solver in solvers:
        if not solver.supports(asked):
            continue
        found = solver(asked, rng, half)
        if found.verdict is not Verdict.SOLVED:
            break
        if asked is problem:
            bound = min(bound, found.bound)
        else:
            found = answer(problem, found.plan, tried=found.tried, stopped="gap")
        if best.verdict is not Verdict.SOLVED or found.value > best.value:
            best = found
        if best.value >= bound or asked is not problem:
            break  # in a tradeoff this is only a start
    return best, bound


def _otherwise(
    feasible: Question, problem: Problem, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Plan by each pair's own worth, improved by slopes; or explain infeasibility."""
    began = limits.clock()
    found = feasible(singly(problem), rng, limits.left(began, START).part(0.5))
    if found.verdict is Verdict.SOLVED:
        made = answer(problem, found.plan, tried=found.tried, stopped="gap")
        made = climbed(problem, made, rng, limits.left(began, 0.5).part(0.25))
        return reassign_singly(problem, made, rng, limits.left(began).part(0.25))
    return replace(found, bound=free_bound(problem))
