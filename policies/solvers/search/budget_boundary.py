"""BORDER: plans of DiscBudget on means of linear and quadratic loads, close to the limit.

The cone relaxation below the limit says what disclosure is worth there, and bounds u. Its
rounding is annealed at that price, which rises while the plan is past the limit and falls
while it is within, in smaller and smaller steps; the best plan that was seen within counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Goal, Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import Bools, Measure
from policies.solvers.bounds.cone_relaxation import relaxed, tangent_bound
from policies.solvers.interfaces import Limits, Solution, answer, free_bound
from policies.solvers.kernels.compiling import kernels
from policies.solvers.load_tables import (
    Loads,
    loads,
    mean_cap,
    plain,
    seated,
    unseated,
)
from policies.solvers.search.exchange import closed, ending
from policies.solvers.search.load_annealing import Annealer

RUNS: Final = 12
"""Annealing runs for each unit of work."""

ROUNDS: Final = 2000
"""Strides of a run; the first ones are shorter, so that something is found soon."""

FROM: Final = 300
"""Members x adversaries from which the kernel is compiled: a run takes 10^6 steps.

Far below the size of other kernels (:data:`policies.solvers.kernels.compiling.FROM`), for
here it is steps that count, not pairs. Of drawn instances with a limit at .5 or .6 of
what the best weights disclose, after 10 s from a cold start (compiling included), what
the compiled form is worth, and the plain one: 312 and 770 pairs (linear), 1,884
(quadratic) and 3,060 (linear) the same to 10^-6; 780 (quadratic) .992885 and .992243;
9,310 linear .866527 and .858361, quadratic .965988 and .961366.
"""

_MOST: Final = 64  # runs
_SHORT: Final = 16  # what the first run is shorter by; each further one is half that
_STRIDE: Final = 500  # steps between two looks at the limit and the clock
_SLOW: Final = 20  # strides of the plain kernel are so much shorter
_COOL: Final = ((5e-3, 5e-5), (5e-2, 2e-4))
# temperatures, of an entry's mean share of utility; runs take turns
_SHARP: Final = (5.0, 50.0)  # beta, times the entries of a set
_RATE: Final = (0.02, 0.002)  # what the price changes by, relative, from first to last
_NEAR: Final = 1e-9  # what a mean is kept away from its limit, relative to it


def priced(problem: Problem) -> Problem | None:
    """Return the tradeoff that a limit on the mean of all sets has for its price.

    Returns
    -------
    Problem or None
        None where this search is not for the problem. Its price is still 1.
    """
    cap = mean_cap(problem)
    if cap is None or not problem.n_adversaries:
        return None
    goal = Goal(Objective.TRADEOFF, tau=cap.limit, average=True, over=cap.over)
    open_ = replace(problem, goal=goal, averages=())
    measures = (Measure.LINEAR, Measure.QUADRATIC)
    return open_ if plain(open_, measures, average=True) else None


@dataclass(frozen=True)
class _Pace:
    """Temperatures and steps of one run, from first to last."""

    cool: tuple[float, float]
    size: float
    sets: float

    def at(self, part: float) -> tuple[float, float, float]:
        """Return beta, the temperature and the step of the price at a part of the run."""
        ends = (_SHARP, self.cool, _RATE)
        beta, cool, rate = (one * (two / one) ** part for one, two in ends)
        return self.sets * beta, self.size * cool, rate


class Border(Annealer):
    """Annealing along a limit; ``value`` is u of the best plan within it."""

    def __init__(
        self,
        it: Loads,
        limit: float,
        rng: np.random.Generator,
        over: Callable[[], bool],
    ) -> None:
        super().__init__(it, rng, over, average=True)
        self.limit = limit
        quick = it.parts.nnz * it.shape[1] >= FROM
        self._walk = kernels("load_annealing", quick=quick)["walk"]
        self.stride = _STRIDE if quick else _STRIDE // _SLOW

    def top(self, chosen: Bools) -> float:
        """Return the highest mean of a plan."""
        return float(self.levels(self.it.load(chosen)).max(initial=0.0))

    def objective(self, chosen: Bools) -> float:
        """U within the limit; below all that for plans past it."""
        top = self.top(chosen)
        return float(self.it.worth[chosen].sum()) if top <= self.limit else -top

    def along(self, chosen: Bools, cool: tuple[float, float], rounds: int) -> None:
        """Anneal from a plan, which is changed, and change the price with it."""
        it = self.it
        size = max(abs(it.ceiling(it.worth)) / max(1, len(chosen)), 1e-300)
        pace = _Pace(cool, size, max(1.0, it.parts.nnz / it.parts.shape[0]))
        for i in range(rounds):
            if self.over():
                return
            beta, heat, rate = pace.at(i / rounds)
            self._stride(chosen, beta, heat, self.stride)
            self.offer(chosen)
            past = self.top(chosen) > self.limit
            price = self.it.lambda_ * exp(rate if past else -rate)
            self.it = replace(self.it, lambda_=min(max(price, 1e-200), 1e200))


def bordering(problem: Problem, rng: np.random.Generator, limits: Limits) -> Solution:
    """Relax, round, and anneal along the limit.

    Parameters
    ----------
    problem : Problem
        One that :func:`priced` has an answer for.
    rng, limits
    """
    over, open_ = limits.deadline(), priced(problem)
    assert open_ is not None
    it, limit = loads(open_), float(open_.goal.tau)
    bound, x, price = float(free_bound(problem)), it.worth, 1.0
    found = relaxed(it, limits, limit=limit)
    if found is not None:
        x, prices = found
        price = max(float(np.maximum(prices, 0.0).sum()), 1e-12)
        it = replace(it, lambda_=price, shift=price * limit)
        bound = min(bound, tangent_bound(it, x, prices))
    start = seated(it, x - 0.5)
    if start is None:
        return unseated(bound)
    border = Border(it, limit * (1 - _NEAR), rng, over)
    border.offer(start)
    stopped = _annealed(border, start, price, bound, limits)
    assert border.best is not None
    return answer(
        problem,
        plan_of(border.best),
        bound=Fraction(bound),
        tried=("annealing along the limit",),
        stopped=stopped,
    )


def _annealed(
    border: Border, start: Bools, price: float, bound: float, limits: Limits
) -> str:
    """Anneal while there is work; return why that ended."""
    for turn in range(int(min(_MOST, max(1.0, limits.work * RUNS)))):
        if closed(border.value, bound):
            return "gap"
        if border.over():
            return ending(limits)
        chosen = start
        if turn % 4 and border.best is not None and border.value >= 0:
            chosen = border.best
        else:  # afresh, at the relaxation's price
            border.it = replace(border.it, lambda_=price)
        rounds = ROUNDS // max(1, _SHORT >> turn)
        border.along(chosen.copy(), _COOL[turn % len(_COOL)], rounds)
    return "work"
