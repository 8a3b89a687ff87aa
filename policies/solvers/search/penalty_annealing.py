"""Annealing across limits: plans for many small sets that few adversaries may not hold.

Where hardly a plan keeps all limits, a search that keeps to them gets nowhere: each step
leaves them. So limits are crossed here at a price, the same for all; while the plan cools
down, crossings vanish, and the price that rises steeply in the end drives the last ones
out. A price that is too low leaves some, one that is too high freezes the plan early:
each run mends the price for the next one, which is longer. It proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np

from policies.model.problem import Pairs, Problem
from policies.model.problem_arrays import grid_of, plan_of, tables
from policies.model.sets import Bools
from policies.solvers.coloring import packed
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Verdict,
    answer,
    free_bound,
    never,
)
from policies.solvers.kernels import crossing as kernel
from policies.solvers.kernels.compiling import kernels, ready
from policies.solvers.search.restarts import Runs

STEPS: Final = 2_000_000
"""Steps for each unit of work."""

RUN: Final = 8_000_000
"""Steps of the first run; each further one is longer, up to ``LONG``."""

LONG: Final = 32_000_000

_GROWTH: Final = 1.5
_STRIDE: Final = 20_000  # steps between two looks at the clock
_LARGEST: Final = 50_000  # pairs above which a run looks too seldom at each of them
_HOT, _COLD = 0.5, 0.1  # temperatures, of the highest worth of a pair
_PRICE: Final = 1.5  # the first price, in the same
_RISE, _STEEP = 3.0, 4  # what is added to the price by the end, and how late
_LOWER, _HIGHER = 0.92, 1.25  # prices after a run that kept all limits, or did not
_LEAST, _MOST = 1.2, 6.0
_WORK: Final = 25.0  # units where there is no limit and no clock


def crossable(problem: Problem) -> bool:
    """Whether there is nothing but small sets with limits for few, and not too many pairs."""
    return packed(problem) and problem.n_entries * problem.n_adversaries <= _LARGEST


class Crossing(Runs):
    """Runs that cross limits: see :class:`Runs`; their value is utility.

    Parameters
    ----------
    problem : Problem
        One that is :func:`crossable`.
    rng : numpy.random.Generator
    limits : Limits
        A run that has not enough time cools down as much faster.
    done : callable
        True once the plan is not wanted any more.

    Attributes
    ----------
    price : float
        Of a crossing in the next run, in the highest worth of a pair.
    runs : int
        That were made.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        limits: Limits,
        done: Callable[[], bool] = never,
    ) -> None:
        super().__init__(rng, limits, done)
        t = tables(problem)
        m, k = len(t.cap), problem.n_adversaries
        rows = t.entry_row
        unit = np.repeat(np.arange(m), np.diff(t.start))[rows]
        cap = np.repeat(t.cap[:, None], k, axis=1)
        if problem.trusted is not None:
            free = problem.trusted[problem.sets.owner]
            cap = np.where(free, np.iinfo(np.int64).max // 2, cap)
        self._fixed = ready(
            kernel.Fixed(
                t.entry_start, unit, t.amount[rows], cap, t.able, t.lo, t.hi, t.worth
            )
        )
        self.size = float(t.worth.max(initial=0.0)) or 1.0
        self.price, self.runs = _PRICE, 0
        self._seated = bool((t.able.sum(axis=1) >= t.lo).all())

    @property
    def possible(self) -> bool:
        """Whether there are adversaries for the copies of every entry."""
        return self._seated

    def offer(self, chosen: Bools) -> None:
        """Keep a plan within all limits if it is the best so far."""
        value = float(self._fixed.worth[chosen].sum())
        if value > self.value:
            self.best, self.value = chosen.copy(), value

    def run(self, most: int = LONG) -> None:
        """Anneal once from a drawn plan, so many steps at most."""
        state, numbers = self._state(), np.zeros(kernel.SIZE)
        walk, fixed = kernels("penalty_annealing", quick=True)["walk"], self._fixed
        walk(state, fixed, numbers, np.empty((0, kernel.DRAWS)))  # compiled
        numbers[kernel.WORTH] = fixed.worth[state.chosen].sum()
        numbers[kernel.BEST] = -inf
        steps = max(1, int(min(RUN * _GROWTH ** min(self.runs, 9), LONG, most)))
        began = self._limits.clock()
        for done in range(0, steps, _STRIDE):
            if self.over():
                break
            part = max(done / steps, self._late(began))
            price = self.price * (1 + _RISE * part**_STEEP)
            numbers[kernel.PRICE] = self.size * price
            numbers[kernel.HEAT] = self.size * _HOT * (_COLD / _HOT) ** part
            draws = self.rng.random((min(_STRIDE, steps - done), kernel.DRAWS))
            walk(state, fixed, numbers, draws)
            self.spent += len(draws)
        kept = numbers[kernel.BEST] > -inf
        if kept:
            self.offer(state.best)
        better = self.price * (_LOWER if kept else _HIGHER)
        self.price = min(max(better, _LEAST), _MOST)
        self.runs += 1

    def _state(self) -> kernel.State:
        """Draw a plan: each entry's least copies, or one, to whom they may go."""
        it = self._fixed
        draws = np.where(it.may, self.rng.random(it.may.shape), -1.0)
        rank = np.argsort(np.argsort(-draws, axis=1), axis=1)
        wanted = np.minimum(np.maximum(it.lo, 1), it.hi)
        chosen = it.may & (rank < wanted[:, None])
        load = np.zeros(it.cap.shape, np.int64)
        entry = np.repeat(np.arange(len(it.lo)), np.diff(it.start))
        np.add.at(load, it.unit, chosen[entry] * it.part[:, None])
        over = np.maximum(load - it.cap, 0).sum()
        degree = chosen.sum(axis=1)
        return ready(
            kernel.State(chosen, chosen.copy(), degree, load, np.array([over]))
        )


def anneal_across(
    problem: Problem,
    start: Pairs | None,
    rng: np.random.Generator,
    limits: Limits,
    done: Callable[[], bool] = never,
) -> Solution:
    """Anneal until work or time ends, or at the bound, which needs no search.

    Parameters
    ----------
    problem : Problem
        One that is :func:`crossable`.
    start : Pairs or None
        A plan within all limits: what is told is never worse.
    rng, limits
    done : callable
        True once the plan is not wanted any more.
    """
    told, bound = ("annealing across limits",), free_bound(problem)
    crossing = Crossing(problem, rng, limits, done)
    if start is not None:
        crossing.offer(grid_of(problem, start))
    timed = limits.seconds != inf
    units = min(limits.work, 1e9 if timed else _WORK)
    stopped = crossing.anneal(int(units * STEPS), float(bound))
    if crossing.best is None:
        return Solution(Verdict.UNKNOWN, bound=bound, tried=told, stopped=stopped)
    found = answer(problem, plan_of(crossing.best), tried=told, stopped=stopped)
    best = found.verdict is Verdict.SOLVED and found.value == found.bound
    return replace(found, stopped="optimal") if best else found  # a race ends with it
