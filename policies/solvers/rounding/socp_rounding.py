"""SOCP-ROUNDING: means of linear and quadratic loads (paper, section 4.3).

A tradeoff with them, or the most utility below a limit on them, is a cone program
(:mod:`policies.solvers.bounds.cone_relaxation`). The paper leaves the rounding open; here the relaxation
is rounded and then annealed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.problem import Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import Measure
from policies.solvers.bounds.cone_relaxation import relaxed, tangent_bound
from policies.solvers.interfaces import Limits, Solution, answer, free_bound
from policies.solvers.load_tables import loads, plain, seated, unseated
from policies.solvers.rounding.lp_rounding import rounded
from policies.solvers.search.budget_boundary import bordering, priced
from policies.solvers.search.load_annealing import Annealer, again, steps_of

ROUNDINGS: Final = 4
"""Random roundings of the relaxation beside the one by largest x."""


class SocpRounding:
    """A heuristic with a tight bound."""

    def supports(self, problem: Problem) -> bool:
        """Averages over linear and quadratic sets: tradeoffs, or one limit on them."""
        measures = (Measure.LINEAR, Measure.QUADRATIC)
        tradeoff = problem.n_adversaries > 0 and plain(problem, measures, average=True)
        return tradeoff or priced(problem) is not None

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Relax, round, anneal."""
        if problem.averages:
            return bordering(problem, rng, limits)
        over = limits.deadline()
        it = loads(problem)
        found = relaxed(it, limits)
        bound, x = float(free_bound(problem)), it.worth
        if found is not None:
            x, prices = found
            bound = min(bound, tangent_bound(it, x, prices))
        annealer = Annealer(it, rng, over, average=True)
        start = seated(it, x - 0.5)
        if start is None:
            return unseated(bound)
        annealer.offer(start)
        if found is not None and not it.capped:
            for _ in range(ROUNDINGS):
                annealer.offer(rounded(x, it.may, it.lo, it.hi, rng))
        stopped = _annealed(annealer, bound, limits, over)
        assert annealer.best is not None
        told = ("the cone relaxation, rounded and annealed",)
        if found is None:
            told = ("annealing; the cone relaxation was not solved",)
        return answer(
            problem,
            plan_of(annealer.best),
            bound=Fraction(bound),
            tried=told,
            stopped=stopped,
        )


def _annealed(
    annealer: Annealer, bound: float, limits: Limits, over: Callable[[], bool]
) -> str:
    """Anneal from the rounded plan while there is work; return why that ended."""
    assert annealer.best is not None
    if not over():
        annealer.run(annealer.best, steps_of(limits, annealer), warm=0.6)
    return again(annealer, bound, limits)
