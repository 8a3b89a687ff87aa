"""ANNEALING: tradeoffs of the worst set, linear or quadratic (paper, section 4.2, 4.3).

Plans come from annealing on a smoothed maximum. The bound is tighter than the
relaxation's: f is one of few values, and below each of them every load keeps to a whole
number of its set's steps. The prices that a relaxation finds at one value bound all
values at once, so a dozen relaxations do (Kelley's cutting planes).

All else that sets ask is annealed by what hands see, without such a bound
(:mod:`policies.solvers.search.annealing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.problem import Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import Bools, Measure
from policies.solvers.bounds.level_relaxation import Ladder
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound
from policies.solvers.kernels import annealing as kernel_anneal
from policies.solvers.kernels.compiling import FROM, kernels, ready
from policies.solvers.load_tables import Loads, loads, plain
from policies.solvers.search.annealing import (
    STEPS,
    HandAnnealer,
    anneal_hands,
    annealable,
    most_steps,
)
from policies.solvers.search.exchange import closed, ending

Floats = npt.NDArray[np.float64]

RUN: Final = 1_000_000
"""Steps of the longest run; more work makes more runs."""

_STRIDE: Final = 500  # steps between two looks at the true objective and the clock
_COOL: Final = (5e-2, 5e-4)  # temperatures, of an entry's mean share of utility
_SHARP: Final = (0.7, 10.0)  # beta, times the entries of a set
_SLOW: Final = 20  # steps of plain kernels cost so many compiled ones
_SHARE: Final = 0.5  # of the time, at most, for the first run
_RELAXATIONS: Final = 40
_RUNS: Final = 64


class Annealer:
    """Plans for tradeoffs over loads.

    Parameters
    ----------
    it : Loads
    average : bool
        Whether f is the highest mean of an adversary instead of the worst set.
    rng : numpy.random.Generator
    over : callable
        True once time is over.

    Attributes
    ----------
    best : bool array, shape (n, k), or None
    value : float
        Its objective, up to rounding.
    """

    def __init__(
        self,
        it: Loads,
        rng: np.random.Generator,
        over: Callable[[], bool],
        *,
        average: bool = False,
    ) -> None:
        self.it, self.rng, self.over, self.average = it, rng, over, average
        self.best: Bools | None = None
        self.value = -np.inf
        by_entry = it.parts.tocsc()
        self._rows = (
            by_entry.indptr.astype(np.int64),
            by_entry.indices.astype(np.int64),
            by_entry.data.astype(np.float64),
            it.square,
            it.held,
        )
        size = by_entry.nnz * it.shape[1]
        self._walk = kernels("load_annealing", quick=size >= FROM)["walk"]
        self.price = 1 if size >= FROM else _SLOW

    def levels(self, load: Floats) -> Floats:
        """What the maximum is taken over: f of sets (m, k), or means (1, k)."""
        level = self.it.level(load)
        return (
            level.sum(axis=0, keepdims=True) / self.it.over if self.average else level
        )

    @property
    def level(self) -> float:
        """F of the best plan; 1 without one."""
        if self.best is None:
            return 1.0
        return float(self.levels(self.it.load(self.best)).max(initial=0.0))

    def objective(self, chosen: Bools) -> float:
        """Objective of a plan, up to rounding."""
        top = float(self.levels(self.it.load(chosen)).max(initial=0.0))
        u = float(self.it.worth[chosen].sum())
        return self.it.shift + u - self.it.lambda_ * top

    def offer(self, chosen: Bools | None) -> None:
        """Keep a plan if it is the best so far."""
        if chosen is None:
            return
        value = self.objective(chosen)
        if self.best is None or value > self.value:
            self.best, self.value = chosen.copy(), value

    def run(self, chosen: Bools, steps: int, *, warm: float = 1.0) -> bool:
        """Anneal from a plan; return whether it came to its end.

        Parameters
        ----------
        chosen : bool array, shape (n, k)
        steps : int
        warm : float
            Share of the schedule that is run: below 1 it starts colder.
        """
        self.offer(chosen)
        if not len(chosen):
            return True
        chosen = chosen.copy()
        rounds = max(1, steps // _STRIDE)
        size = max(abs(self.it.ceiling(self.it.worth)) / max(1, len(chosen)), 1e-300)
        sets = max(1.0, self.it.parts.nnz / self.it.parts.shape[0])
        for i in range(rounds):
            if self.over():
                return False
            at = 1 - warm * (1 - i / rounds)
            beta = sets * _SHARP[0] * (_SHARP[1] / _SHARP[0]) ** at
            cool = size * _COOL[0] * (_COOL[1] / _COOL[0]) ** at
            self._stride(chosen, beta, cool, min(steps, _STRIDE))
            self.offer(chosen)
        return True

    def _stride(self, chosen: Bools, beta: float, cool: float, steps: int) -> None:
        it = self.it
        load = it.load(chosen)
        levels = self.levels(load)
        ref = float(levels.max(initial=0.0))
        heat = np.exp(beta * (levels - ref))
        state = kernel_anneal.State(
            chosen,
            chosen.sum(axis=1),
            chosen.sum(axis=0),
            load,
            levels[0].copy(),
            heat,
            np.array([heat.sum()]),
        )
        over = float(it.over) if self.average else 0.0
        rules = (it.may, it.lo, it.hi, it.room, it.worth)
        fixed = kernel_anneal.Fixed(*self._rows, over, ref, *rules)
        numbers = np.array([it.lambda_, beta, cool])
        draws = self.rng.random((steps, 5))
        self._walk(ready(state), ready(fixed), numbers, draws)


class Annealing:
    """A heuristic with a tightened bound."""

    def supports(self, problem: Problem) -> bool:
        """All that sets ask, with a limit on no mean but that of all."""
        measures = (Measure.LINEAR, Measure.QUADRATIC)
        loads_alone = problem.n_adversaries and plain(problem, measures, average=False)
        return bool(loads_alone) or annealable(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Anneal, then bound, then anneal on while there is work."""
        measures = (Measure.LINEAR, Measure.QUADRATIC)
        if not plain(problem, measures, average=False):
            return anneal_hands(problem, rng, limits)
        over, began = limits.deadline(), limits.clock()
        it = loads(problem)
        half = replace(limits, seconds=limits.seconds * _SHARE)
        annealer = started(problem, it, rng, half)
        rest = limits.left(began)  # the bound wants its share of the time
        annealer.within(rest)
        ladder = Ladder(problem, it)
        relaxations = int(min(_RELAXATIONS, 2 + limits.work * 4))
        ladder.climb(annealer.value, annealer.level, relaxations, over, rest)
        bound = ladder.bound
        stopped = annealer.anneal(most_steps(limits), bound)
        if annealer.best is None:
            proven = Fraction(bound) if np.isfinite(bound) else free_bound(problem)
            return Solution(
                Verdict.UNKNOWN,
                bound=proven,
                tried=("no plan within the capacities was found",),
                stopped="work",
            )
        told = (f"annealing, and {ladder.count} relaxations for the bound",)
        return answer(
            problem,
            plan_of(annealer.best),
            bound=Fraction(bound),
            tried=told,
            stopped=stopped,
        )


def started(
    problem: Problem, it: Loads, rng: np.random.Generator, limits: Limits
) -> HandAnnealer:
    """Anneal for a start: large loads by their sums, which is faster, all others by hands."""
    annealer = Annealer(it, rng, limits.deadline())
    hands = HandAnnealer(problem, rng, limits)
    if hands.best is None:
        return hands
    if annealer.price == 1:
        annealer.run(hands.best, steps_of(limits, annealer))
        assert annealer.best is not None
        hands.offer(annealer.best)
    else:
        hands.run(most_steps(limits))
    return hands


def steps_of(limits: Limits, annealer: Annealer) -> int:
    """Steps of one run."""
    return int(max(_STRIDE, min(RUN, limits.work * STEPS) / annealer.price))


def again(annealer: Annealer, bound: float, limits: Limits) -> str:
    """Anneal on, warm and cold in turn, while there is work; return why that ended."""
    runs = int(min(_RUNS, limits.work * STEPS // RUN))
    for turn in range(runs):
        if closed(annealer.value, bound):
            return "gap"
        assert annealer.best is not None
        warm = 0.6 if turn % 2 else 1.0
        if not annealer.run(annealer.best, RUN // 2 // annealer.price, warm=warm):
            return ending(limits)
    return "work"
