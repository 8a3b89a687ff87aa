"""Annealing of whatever sets ask, with coalitions, classes and limits.

Three ways to treat disclosure. *Smooth*: the tradeoff as it is, with a smoothed maximum.
*Level*: f of the best plan, or a value near it, is a limit on every load, and u alone
counts; where f has few values, the smooth way is blind between them. *Border*: a limit on
a mean has a price, which follows the side that the plan is on.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Pairs, Problem
from policies.model.problem_arrays import Floats, grid_of, plan_of
from policies.model.sets import Bools, SetSystem
from policies.solvers.exact.level_sweep import capped, levels
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Verdict,
    answer,
    free_bound,
    never,
)
from policies.solvers.kernels import hand_annealing as kernel
from policies.solvers.kernels.compiling import kernels
from policies.solvers.load_tables import mean_cap, seated
from policies.solvers.search.annealing_state import Board
from policies.solvers.search.restarts import Runs

STEPS: Final = 400_000
"""Steps for each unit of work."""

RUN: Final = 500_000
"""Steps of the first run; each further one is longer, up to ``LONG``."""

LONG: Final = 6_000_000

_MOST: Final = 25.0  # units of work where there is no limit and no clock
_ENDLESS: Final = 1e9  # the same under a clock
_GROWTH: Final = 2.0
_STRIDE: Final = 4_000  # steps between two looks at the clock, at most
_LOADS: Final = 4_000_000  # loads that change between them, about
_LARGEST: Final = 2**25  # numbers of a table above which a problem is refused
_POOLS: Final = 2_000  # coalitions above which it is refused
_LOOK: Final = 100  # steps between two looks at the true objective, at least
_SWEEP: Final = 100.0  # loads looked through in the time that it takes to change one
_COOL: Final = ((0.3, 4e-3), (0.1, 1e-3))
# temperatures, of an entry's mean share of utility; pairs of runs take turns
_SHARP: Final = (1.0, 12.0)  # beta, times the entries of a set
_SHARPER: Final = (5.0, 50.0)  # the same along a border, where a mean is looked at
_RATE: Final = (0.02, 0.002)  # what prices change by, relative, from first to last
_NEAR: Final = 1e-9  # what a mean is kept away from a strict limit, relative to it
_AT: Final = 1e-12  # what a mean may be off a limit that it may reach: rounding
_PRICE: Final = 2.0  # of a limit on a set at first, in mean shares of utility
_LOW: Final = 0.05  # the lowest that it may be, so that it is soon up again
_HIGH: Final = 6.0  # the highest, where no pair is worth much more than others:
_SURE: Final = 1.0  # else so many of the dearest
_OFF: Final = (0.0, -0.3, 0.3, -1.0, 0.0, 1.0)
# entries of a mean set above the best plan's level, in turn
_TRIAL: Final = 4  # a run at a level below it is so many times shorter
_FREE: Final = 4  # one of so many pairs of runs lets wholes be disclosed
_AFRESH: Final = 3  # one of so many runs starts from the first plan, not the best


def annealable(problem: Problem) -> bool:
    """Whether sets say all that counts, with a limit on no mean but that of all."""
    goal, sets = problem.goal, problem.sets
    if problem.links is not None or problem.utilities is not None:
        return False
    if goal.aggregate is not None or not (sets.n_sets and problem.n_adversaries):
        return False
    pools = len(problem.groups)
    numbers = (problem.n_entries + sets.n_sets) * (problem.n_adversaries + pools)
    if pools > _POOLS or numbers > _LARGEST:
        return False
    return not problem.averages or mean_cap(problem) is not None


class HandAnnealer(Runs):
    """Runs within limits: see :class:`Runs`; their value is the objective.

    Parameters
    ----------
    problem : Problem
        One that is :func:`annealable`.
    rng : numpy.random.Generator
    limits : Limits
        A run that has not enough time cools down as much faster.
    done : callable
        True once the plan is not wanted any more.

    Attributes
    ----------
    level : float
        F of the best plan; 1 without one.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        limits: Limits,
        done: Callable[[], bool] = never,
    ) -> None:
        super().__init__(rng, limits, done)
        self.problem, self.board = problem, Board(problem)
        self._rest = int(self.board.sweep / self.board.cost / _SWEEP)
        self.level, self._runs = 1.0, 0
        self._at = self._failed = -1  # levels of this run, and the highest in vain
        goal, t = problem.goal, self.board.tables
        self._tradeoff = goal.objective is Objective.TRADEOFF and goal.lambda_ > 0
        self._price = float(goal.lambda_) if self._tradeoff else 1.0
        self._shift = self._price * float(goal.tau) if self._tradeoff else 0.0
        self._limit = inf
        if problem.averages:
            cap = problem.averages[0]
            self._limit = float(cap.limit) * (1 - _NEAR if cap.strict else 1 + _AT)
        self._ladder = self._levels() if self._tradeoff and not goal.average else []
        self._steps = np.array([*map(float, self._ladder)])
        self._whole = not t.measure.any()
        self._root = 0.5 if t.measure.max(initial=0) > 1 else 1.0
        most = -np.sort(-t.worth, axis=1)[:, : int(t.hi.max(initial=0))]
        self._size = max(float(most.sum()) / max(1, len(t.hi)), 1e-300)
        self._wall = _PRICE * self._size
        highest = max(_HIGH * self._size, _SURE * float(t.worth.max(initial=0.0)))
        self._walls = (_LOW * self._size, highest)
        rules = self.board.fixed(None, levelled=False)
        self._start = seated(rules, t.worth)
        if self._start is not None:
            self.offer(self._start)

    def _levels(self) -> list[Fraction]:
        """Values that f may have, with what history says."""
        least = self.board.judged(np.zeros(self.board.tables.able.shape, np.bool_))[1]
        return [v for v in levels(self.problem.sets) if float(v) >= least - _NEAR]

    def offer(self, chosen: Bools) -> None:
        """Keep a plan within all limits if it is the best so far."""
        u, f, past = self.board.judged(chosen)
        if past or f > self._limit:
            return
        value = self._shift + u - (self._price * f if self._tradeoff else 0.0)
        if value > self.value:
            self.best, self.value, self.level = chosen.copy(), value, f

    @property
    def possible(self) -> bool:
        """Whether there is a plan to start from."""
        return self._start is not None

    def run(self, most: int = LONG) -> None:
        """Anneal once, so many steps at most: from the best plan, or now and then afresh.

        Each run is longer than the one before it.
        """
        start = self._start if self._runs % _AFRESH == 0 else self.best
        start = self._start if start is None else start
        if start is None:
            return
        cap = self._cap()
        steps = max(1, int(min(RUN * _GROWTH**self._runs, LONG, most)))
        if self._at >= 0 and self._steps[self._at] < self.level - _NEAR:
            steps = -(-steps // _TRIAL)
        follows = cap is None and (self._tradeoff or bool(self.problem.averages))
        state = self.board.state(start)
        fixed = self.board.fixed(cap, levelled=follows)
        numbers, walk = self._numbers(fixed), kernels("annealing", quick=True)["walk"]
        walk(
            state, fixed, numbers, np.empty((0, kernel.DRAWS))
        )  # compiled before time runs
        began = self._limits.clock()
        slow = (RUN / max(steps, RUN)) ** 0.5  # long runs look more often
        stride = int(min(max(_LOADS / self.board.cost, 10), _STRIDE))
        stride = max(stride, self._rest)  # the sweep before it costs as much
        for i in range(0, steps, stride):
            if self.over():
                break
            self._pace(numbers, max(i / steps, self._late(began)), slow)
            draws = self.rng.random((min(steps - i, stride), kernel.DRAWS))
            walk(state, fixed, numbers, draws)
            self.spent += len(draws)
        self._wall = float(numbers[kernel.PRICE])
        if self.problem.averages:
            self._price = float(numbers[kernel.LAMBDA])
        if numbers[kernel.BEST] > -inf:
            self.offer(state.best)
        elif self._at >= 0 and not self.over():
            self._failed = max(self._failed, self._at)
        self._runs += 1

    def _numbers(self, fixed: kernel.Fixed) -> Floats:
        """Return what a run starts with."""
        worst = fixed.levelled and not fixed.average  # else looks pass over the loads
        numbers = np.zeros(kernel.SIZE)
        numbers[kernel.LAMBDA] = self._price
        numbers[kernel.PRICE] = self._wall
        numbers[[kernel.LOW, kernel.HIGH]] = self._walls
        numbers[kernel.LIMIT] = self._limit
        numbers[kernel.BEST] = -inf
        numbers[kernel.LOOK] = max(_LOOK, self._rest) if worst else _LOOK
        return numbers

    def _pace(self, numbers: Floats, part: float, slow: float) -> None:
        """Set beta, the temperature and the step of prices at a part of a run."""
        sharp = _SHARPER if self.problem.averages else _SHARP
        ends = (
            (kernel.BETA, sharp, self.board.width),
            (kernel.HEAT, _COOL[self._runs // 2 % len(_COOL)], self._size),
            (kernel.RATE, _RATE, slow),
        )
        for place, (one, two), unit in ends:
            numbers[place] = unit * one * (two / one) ** part

    def _cap(self) -> SetSystem | None:
        """Limits on single sets that stand for f in a run; None where f itself counts.

        Levels at or below one that no plan was found for are not tried again.
        """
        self._at = -1
        if not self._ladder:
            return None
        last, turn = len(self._ladder) - 1, self._runs // 2
        if self._whole:  # the smooth way tells nothing: f = 0, or now and then f = 1
            return capped(
                self.problem.sets,
                self._ladder[last if turn % _FREE == _FREE - 1 else 0],
            )
        if self._runs % 2 == 0 or self.best is None:
            return None
        part = self.level**self._root + _OFF[turn % len(_OFF)] / self.board.width
        level = max(part, 0.0) ** (1 / self._root)
        near = int(np.searchsorted(self._steps, level - 1e-12))
        if near <= self._failed:
            near = int(np.searchsorted(self._steps, self.level - 1e-12))
        self._at = min(near, last)
        return capped(self.problem.sets, self._ladder[self._at])


def most_steps(limits: Limits) -> int:
    """Return the steps of all runs: under a clock as many as there is time for."""
    most = _MOST if limits.seconds == inf else _ENDLESS
    return int(min(limits.work, most) * STEPS)


def anneal_hands(
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
    start: Pairs | None = None,
    done: Callable[[], bool] = never,
) -> Solution:
    """Anneal until work or time ends; the bound is the one that needs no search.

    Parameters
    ----------
    problem : Problem
        One that is :func:`annealable`.
    rng, limits
    start : Pairs, optional
        A plan within all limits: what is told is never worse.
    done : callable
        True once the plan is not wanted any more.
    """
    bound = free_bound(problem)
    annealer = HandAnnealer(problem, rng, limits, done)
    if start is not None:
        annealer.offer(grid_of(problem, start))
    stopped = annealer.anneal(most_steps(limits), float(bound))
    if annealer.best is None:
        told = ("annealing found no plan within the limits",)
        return Solution(Verdict.UNKNOWN, bound=bound, tried=told, stopped=stopped)
    told = ("annealing of what hands see",)
    return answer(problem, plan_of(annealer.best), tried=told, stopped=stopped)
