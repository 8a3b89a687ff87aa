"""SOCP-ROUNDING: means of linear and quadratic loads (paper, section 4.3).

A tradeoff with them, or the most utility below a limit on them, is a cone program
(:mod:`policies.solvers.bounds.cone_relaxation`). The paper leaves the rounding open
("open problem"); here the relaxation is rounded and then annealed. Below a limit, its
dual gives the price of disclosure with which annealing begins; the price rises while
the plan is past the limit and falls while it is within.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Goal, Problem
from policies.model.problem_arrays import plan_of
from policies.solvers.bounds.cone_relaxation import solved_cone, tangent_bound
from policies.solvers.interfaces import Limits, Solution, answer, free_bound
from policies.solvers.load_tables import (
    is_load_tradeoff,
    load_tables,
    mean_cap,
    unassigned,
)
from policies.solvers.rounding.lp_rounding import rounded_once
from policies.solvers.search.annealing import SmoothAnnealer, most_steps

ROUNDINGS: Final = 4
"""Random roundings of the relaxation, beside the one by largest x.

Annealing, which follows, levels them: linear average 500, 50, 5, 2 (work 1) .6569, with none
.6571, with 2 .6568, with 8 .6572; quadratic average 60, 12, 5, 1 and linear average 60, 12, 2, 2
(work .5) the same with 0 and 2, with 8 .07 and .01 % more.
"""

_POWER: Final = 2
"""Highest power of loads in the cones."""


def limit_as_price(problem: Problem) -> Problem | None:
    """Return the tradeoff in which a limit on the mean of all sets becomes a price.

    Returns
    -------
    Problem or None
        None if there is no such limit, or other limits too. The price is 1 at first.
    """
    cap = mean_cap(problem)
    if cap is None or not problem.n_adversaries:
        return None
    goal = Goal(Objective.TRADEOFF, tau=cap.limit, average=True, over=cap.over)
    open_ = replace(problem, goal=goal, averages=())
    return open_ if is_load_tradeoff(open_, average=True, power=_POWER) else None


class SocpRounding:
    """A heuristic with a tight bound."""

    def supports(self, problem: Problem) -> bool:
        """Averages over linear and quadratic sets: tradeoffs, or one limit on them."""
        if limit_as_price(problem) is not None:
            return True
        return problem.n_adversaries > 0 and is_load_tradeoff(
            problem, average=True, power=_POWER
        )

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Relax, round, anneal."""
        began = limits.clock()
        tradeoff = limit_as_price(problem)
        it = load_tables(tradeoff or problem)
        limit = None if tradeoff is None else float(tradeoff.goal.tau)
        found = solved_cone(it, limits, limit=limit)
        bound, x, price = float(free_bound(problem)), it.worth, 1.0
        if found is not None:
            x, prices = found
            if limit is not None:
                price = max(float(np.maximum(prices, 0.0).sum()), 1e-12)
                it = replace(it, lambda_=price, shift=price * limit)
            bound = min(bound, tangent_bound(it, x, prices))
        start = it.greedy_assignment(x - 0.5)
        if start is None:
            return unassigned(bound)
        rest = limits.left(began)
        annealer = SmoothAnnealer(problem, rng, rest, start=start, price=price)
        if found is not None and not it.capped:
            for _ in range(ROUNDINGS):
                annealer.offer(rounded_once(x, it.may, it.lo, it.hi, rng))
        stopped = annealer.anneal(most_steps(limits), bound)
        tried = ("the cone relaxation, rounded and annealed",)
        if found is None:
            tried = ("annealing; the cone relaxation was not solved",)
        best = start if annealer.best is None else annealer.best
        return answer(
            problem, plan_of(best), bound=Fraction(bound), tried=tried, stopped=stopped
        )
