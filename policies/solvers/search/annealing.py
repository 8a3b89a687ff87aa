"""ANNEALING: the one annealer for everything that sets can require, by two kinds of runs.

:class:`SmoothAnnealer` accepts tradeoffs and limits, with coalitions, classes, history
and capacities. It treats disclosure in three ways. *Smooth*: the tradeoff itself, with
a smoothed maximum. *Level*: f of the best plan, or a value near it, becomes a limit on
every load, and only u counts; where f has few values, the smooth way is blind between
them. *Border*: a limit on a mean has a price, which follows the side that the plan is
on.

:class:`PenaltyAnnealer` is for many small sets with limits and few adversaries. Where
hardly any plan keeps all limits, a search within them gets nowhere: each step violates
some. So limits are crossed at a price, the same for all. While the plan cools down,
crossings vanish, and the price, which rises steeply at the end, removes the last ones.
A price that is too low leaves some, one that is too high freezes the plan early: each
run corrects the price for the next one, which is longer.

Both start from the best plan so far and prove nothing. For tradeoffs of the worst
linear or quadratic set (paper, sections 4.2 and 4.3) the bound of
:mod:`policies.solvers.bounds.level_relaxation` comes with the plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Pairs, Problem
from policies.model.problem_arrays import Floats, grid_of, plan_of
from policies.model.sets import Bools, SetSystem
from policies.solvers.bounds.level_relaxation import Ladder
from policies.solvers.coloring import packed
from policies.solvers.exact.epsilon_constraint import capped, levels
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Verdict,
    answer,
    free_bound,
    never,
)
from policies.solvers.kernels import annealing as kernel
from policies.solvers.kernels.compiling import LOADING, is_loaded, kernels
from policies.solvers.kernels.plan_state import U
from policies.solvers.load_tables import (
    greedy_assignment,
    is_load_tradeoff,
    load_tables,
    mean_cap,
)
from policies.solvers.search.annealing_state import AnnealingState
from policies.solvers.search.exchange import closed, ending

Cooling = tuple[tuple[float, float], ...]

STEPS: Final = 400_000
"""Steps of smooth runs per unit of work."""

STEPS_ACROSS: Final = 2_000_000
"""Steps of penalty runs per unit of work; each costs a fifth."""

RUN: Final = 500_000
"""Steps of the first smooth run; later ones are longer, up to ``LONG``."""

LONG: Final = 6_000_000  # steps of one smooth run, at most

RUN_BORDER: Final = 125_000
"""Steps of the first run along a limit on a mean."""

RUN_ACROSS: Final = 8_000_000  # steps of the first penalty run
LONG_ACROSS: Final = 32_000_000  # steps of one penalty run, at most

# How the numbers below were measured (one core, CPU seconds; drawn by
# benchmarks/paper_data.py and families.py, entries, sets, k, t; two runs each):
# - _SHARP_LOADS: linear worst 500, 50, 3, 2, 1.5 s: .49629 .49640; twice .49543 .49584;
#   half .49812 .49659, but then four entries of crowded adversaries stay apart from the best.
# - _COOL_LOADS, RUN, _AFRESH there: twice, half, or no fresh start: .4959 to .4972. On
#   quadratic averages 500, 50, 5, 2 all of these are within .02 % of each other.
# - _COOL_BORDER, RUN_BORDER: limits on means, 100 to 300 entries, 2 s: .7691, .9450, .8321,
#   .7386; with _COOL and RUN .7672, .9451, .8281, .7354.
# - across limits, 200, 500, 3, 2 of 2 to 3 entries, 1.5 s: .63089 .65667; _HOT twice, _COLD
#   twice or half, _RISE 0 or 6, a quarter of RUN_ACROSS: .6411 to .6559; _CROSSING twice:
#   .63478 .62411.
# - _COOL: linear sets, mean at most .5, 100 entries, 1.5 s: .9488, .9517, .9526 (three runs), half
#   .9530, twice .9494; collusion_any2_D100_P60_k5_t2_46 .9013, half .9004, twice .9007.
# - _SHARP_BORDER: the same sets .9517, half .9540, twice .9487; 300 entries, at most .4: .8825,
#   half .8858, twice .8812. Through auto (2 s, ten linear and quadratic means of 100 to 500 entries,
#   k = 3 and 5, seeds 0 and 1) half is the same on eight and .06 and .31 % worse on two, a third
#   .29 % worse on one: it stays. _COOL_BORDER there, from a relaxation: .9498 and .8843, half .9502
#   and .8825, twice .9489 and .8832.
# - _OFF: linear worst 500, 50, 3, 2, 1.5 s: .4959, half .4961, twice .4967, none .4960; where it
#   is not used two runs differ by as much.
# - linear worst 500, 50, 3, 2, 1.5 s, annealing alone: .4959 to .4967 (three runs); _SHARE .25
#   .4961, .9 .4961; _GROWTH 1.5 .4970, 4 .4968. Half and twice of _RELAXATIONS give the same bound
#   (60, 12, 2, 2, work 2).
# - LONG_ACROSS cuts runs after the fourth, half of it after the second: sparse 200, 500, 3, 2, 4 s:
#   .6417, half .6539, twice .6540; collusion_any2_D100_P60_k5_t2_46, 3 s: .9013 with each.
# - levels of f help linear sets and not squares: quadratic worst 500, 50, 3, 2 and 10, 2,
#   4 s: .7466 and .9456 with them, .7475 and .9459 without.
_MOST: Final = 25.0  # units of work if neither work nor time is limited
_ENDLESS: Final = 1e9  # the same under a clock
_GROWTH, _GROWTH_ACROSS = 2.0, 1.5
_STRIDE, _STRIDE_ACROSS = 4_000, 20_000  # most steps between two checks of the clock
_LOADS: Final = 4_000_000  # loads that change between them, about
_LARGEST: Final = 2**25  # numbers of a table above which a problem is refused
_LARGEST_ACROSS: Final = 50_000  # pairs above which a run tries each too seldom
_POOLS: Final = 2_000  # coalitions above which a problem is refused
_LOOK: Final = 100  # least steps between two evaluations of the true objective
_SWEEP: Final = 100.0  # loads read in the time that it takes to change one
# temperatures, in units of an entry's mean share of utility; runs alternate in pairs
_COOL: Final[Cooling] = ((0.3, 4e-3), (0.1, 1e-3))
_COOL_LOADS: Final[Cooling] = ((5e-2, 5e-4),)  # for tradeoffs over loads
_COOL_BORDER: Final[Cooling] = ((5e-3, 5e-5), (5e-2, 2e-4))  # along a limit on a mean
_SHARP: Final = (1.0, 12.0)  # beta, in units of the entries of a set
_SHARP_LOADS: Final = (0.7, 10.0)  # for tradeoffs over loads
_SHARP_BORDER: Final = (5.0, 50.0)  # along a limit on a mean
_RATE: Final = (0.02, 0.002)  # relative changes of prices, from first to last
_NEAR: Final = 1e-9  # relative distance of a mean from a strict limit
_AT: Final = 1e-12  # rounding error by which a mean may exceed a limit
_PRICE: Final = 2.0  # first price of a limit on a set, in mean shares of utility
_LOW: Final = 0.05  # its lowest value, so that it can soon rise again
_HIGH: Final = 6.0  # its highest, where no pair is worth much more than others;
_SURE: Final = 1.0  # else so many times the worth of the best pair
# entries of a mean set above the best plan's level, in turn
_OFF: Final = (0.0, -0.3, 0.3, -1.0, 0.0, 1.0)
_TRIAL: Final = 4  # a run at a level below it is so many times shorter
_FREE: Final = 4  # one in so many pairs of runs allows whole sets to be disclosed
_AFRESH: Final = 3  # one in so many runs starts from the first plan, not the best
_HOT, _COLD = (
    0.5,
    0.1,
)  # temperatures of penalty runs, in units of the best pair's worth
_CROSSING: Final = 1.5  # first price of a crossing, in the same units
_RISE, _STEEP = 3.0, 4  # rise of the price by the end, and how late it comes
_LOWER, _HIGHER = 0.92, 1.25  # factors of the price after a run kept all limits, or not
_LEAST, _DEAREST = 1.2, 6.0
_SHARE: Final = 0.5  # largest share of the time before the bound
_RELAXATIONS: Final = 40  # relaxations for the bound, at most, by work


def annealable(problem: Problem) -> bool:
    """Whether sets cover all that counts, and no mean is limited but that of all sets."""
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


def crossable(problem: Problem) -> bool:
    """Whether there is nothing but small sets with limits, and not too many pairs."""
    pairs = problem.n_entries * problem.n_adversaries
    return packed(problem) and pairs <= _LARGEST_ACROSS


class Annealer(ABC):
    """Runs of annealing, and the best plan of all of them.

    Parameters
    ----------
    problem : Problem
    rng : numpy.random.Generator
    limits : Limits
        A run that lacks time cools down proportionally faster.
    done : callable
        True once the plan is no longer wanted.

    Attributes
    ----------
    best : bool array, shape (n, k), or None
        The best plan within all limits.
    value : float
        Its objective, up to rounding; -inf without one.
    spent, runs : int
        Steps and runs made so far.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        limits: Limits,
        done: Callable[[], bool] = never,
    ) -> None:
        self.problem, self.arrays = problem, AnnealingState(problem)
        self.rng, self._done = rng, done
        self.best: Bools | None = None
        self.value, self.spent, self.runs = -inf, 0, 0
        self.within(limits)

    def within(self, limits: Limits) -> None:
        """Start the clock."""
        self._limits, self._began = limits, limits.clock()
        self._over = limits.deadline()

    def over(self) -> bool:
        """Whether time is over, or the plan is no longer wanted."""
        return self._over() or self._done()

    @property
    @abstractmethod
    def possible(self) -> bool:
        """Whether there is a plan to start from."""

    @abstractmethod
    def offer(self, chosen: Bools) -> None:
        """Keep a plan if it is within all limits and the best so far."""

    @abstractmethod
    def run(self, most: int) -> None:
        """Anneal once, for at most so many steps."""

    def anneal(self, steps: int, bound: float) -> str:
        """Run for so many steps or until the bound is reached; return why it ended.

        It is not begun where kernels would be loaded beyond the limit.
        """
        end = self.spent + steps
        if not is_loaded() and self._limits.left(self._began).seconds < LOADING:
            return ending(self._limits)
        while self.possible and self.spent < end:
            if closed(self.value, bound):
                return "gap"
            if self.over():
                return ending(self._limits)
            self.run(end - self.spent)
        return "work"

    def _part(self, steps: int, done: int, began: float) -> float:
        """Return the part of a run that is over, by steps or by time."""
        end = self._began + self._limits.seconds
        late = (self._limits.clock() - began) / max(end - began, 1e-9)
        return max(done / steps, min(late, 1.0))


class SmoothAnnealer(Annealer):
    """Runs with a smoothed maximum and prices of limits: see the module's docstring.

    Parameters
    ----------
    problem : Problem
        Must be :func:`annealable`.
    rng, limits, done
        See :class:`Annealer`.
    start : bool array, shape (n, k), optional
        Where runs begin that do not begin at the best plan; by default, each entry's
        best pairs within the capacities.
    price : float, optional
        First price of a limited mean.

    Attributes
    ----------
    level : float
        f of the best plan; 1 without one.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        limits: Limits,
        done: Callable[[], bool] = never,
        *,
        start: Bools | None = None,
        price: float = 1.0,
    ) -> None:
        super().__init__(problem, rng, limits, done)
        self._rest = int(self.arrays.sweep / self.arrays.cost / _SWEEP)
        self.level = 1.0
        self._at = self._failed = -1  # level of this run, and the highest that failed
        goal, t = problem.goal, self.arrays.tables
        self._tradeoff = goal.objective is Objective.TRADEOFF and goal.lambda_ > 0
        self._price = float(goal.lambda_) if self._tradeoff else price
        self._shift = self._price * float(goal.tau) if self._tradeoff else 0.0
        self._limit = inf
        if problem.averages:
            cap = problem.averages[0]
            self._limit = float(cap.limit) * (1 - _NEAR if cap.strict else 1 + _AT)
        worst = self._tradeoff and not goal.average
        linear = t.power.max(initial=0) <= 1  # for higher powers, smooth is better
        self._ladder = self._levels() if worst and linear else []
        self._steps = np.array([*map(float, self._ladder)])
        self._whole = not t.power.any()
        most = -np.sort(-t.worth, axis=1)[:, : int(t.hi.max(initial=0))]
        self._size = max(float(most.sum()) / max(1, len(t.hi)), 1e-300)
        self._schedule, self._run = (_COOL, _SHARP), RUN
        if problem.averages:
            self._schedule = _COOL, _SHARP_BORDER
            if start is not None:  # from a relaxation: near the best already
                self._schedule, self._run = (_COOL_BORDER, _SHARP_BORDER), RUN_BORDER
        elif is_load_tradeoff(problem, average=goal.average):
            self._schedule = _COOL_LOADS, _SHARP_LOADS
        self._wall = _PRICE * self._size
        highest = max(_HIGH * self._size, _SURE * float(t.worth.max(initial=0.0)))
        self._walls = (_LOW * self._size, highest)
        self._start = start
        if start is None:
            able = self.arrays.able
            self._start = greedy_assignment(able, t.lo, t.hi, t.room, t.worth)
        if self._start is not None:
            self.offer(self._start)

    def _levels(self) -> list[Fraction]:
        """Return the values that f may have, given history."""
        empty = np.zeros(self.arrays.able.shape, np.bool_)
        least = self.arrays.judged(empty)[1]
        values, _ = levels(self.problem.sets)
        return [v for v in values if float(v) >= least - _NEAR]

    def offer(self, chosen: Bools) -> None:
        """Keep a plan if it is within all limits and the best so far."""
        u, f, past = self.arrays.judged(chosen)
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
        """Anneal once, from the best plan or, now and then, from the first one.

        Each run is longer than the one before it.
        """
        start = self._start if self.runs % _AFRESH == 0 else self.best
        start = self._start if start is None else start
        if start is None:
            return
        cap = self._cap()
        steps = max(1, int(min(self._run * _GROWTH**self.runs, LONG, most)))
        if self._at >= 0 and self._steps[self._at] < self.level - _NEAR:
            steps = -(-steps // _TRIAL)
        smooth = cap is None and (self._tradeoff or bool(self.problem.averages))
        state = self.arrays.state(start)
        extra = self.arrays.annealing(state, cap, smooth=smooth)
        numbers = self._numbers(extra)
        anneal = kernels("annealing", quick=True)["anneal"]
        anneal(state, extra, numbers, np.empty((0, kernel.DRAWS)))  # load before timing
        began = self._limits.clock()
        slow = (RUN / max(steps, RUN)) ** 0.5  # long runs evaluate more often
        stride = int(min(max(_LOADS / self.arrays.cost, 10), _STRIDE))
        stride = max(stride, self._rest)  # the sweep before it costs as much
        for i in range(0, steps, stride):
            if self.over():
                break
            self._pace(numbers, self._part(steps, i, began), slow)
            draws = self.rng.random((min(steps - i, stride), kernel.DRAWS))
            anneal(state, extra, numbers, draws)
            self.spent += len(draws)
        self._wall = float(numbers[kernel.PRICE])
        if self.problem.averages:
            self._price = float(numbers[kernel.LAMBDA])
        if numbers[kernel.BEST] > -inf:
            self.offer(extra.best)
        elif self._at >= 0 and not self.over():
            self._failed = max(self._failed, self._at)
        self.runs += 1

    def _numbers(self, extra: kernel.Annealing) -> Floats:
        """Return a run's initial parameters."""
        worst = extra.smooth and not extra.divisor  # else evaluations read no loads
        numbers = np.zeros(kernel.NUMBERS)
        numbers[kernel.LAMBDA] = self._price
        numbers[kernel.PRICE] = self._wall
        numbers[[kernel.LOW, kernel.HIGH]] = self._walls
        numbers[kernel.LIMIT] = self._limit
        numbers[kernel.BEST] = -inf
        numbers[kernel.LOOK] = max(_LOOK, self._rest) if worst else _LOOK
        return numbers

    def _pace(self, numbers: Floats, part: float, slow: float) -> None:
        """Set beta, the temperature and the price step for a part of a run."""
        cool, sharp = self._schedule
        ends = (
            (kernel.BETA, sharp, self.arrays.width),
            (kernel.TEMPERATURE, cool[self.runs // 2 % len(cool)], self._size),
            (kernel.RATE, _RATE, slow),
        )
        for place, (one, two), unit in ends:
            numbers[place] = unit * one * (two / one) ** part

    def _cap(self) -> SetSystem | None:
        """Return limits on single sets that replace f in a run; None if f itself counts.

        Levels at or below one that failed are not tried again.
        """
        self._at = -1
        if not self._ladder:
            return None
        last, turn = len(self._ladder) - 1, self.runs // 2
        if self._whole:  # the smooth way cannot guide: f is 0 or, now and then, 1
            return capped(
                self.problem.sets,
                self._ladder[last if turn % _FREE == _FREE - 1 else 0],
            )
        if self.runs % 2 == 0 or self.best is None:
            return None
        level = self.level + _OFF[turn % len(_OFF)] / self.arrays.width
        near = int(np.searchsorted(self._steps, level - 1e-12))
        if near <= self._failed:
            near = int(np.searchsorted(self._steps, self.level - 1e-12))
        self._at = min(near, last)
        return capped(self.problem.sets, self._ladder[self._at])


class PenaltyAnnealer(Annealer):
    """Runs that cross limits at a price: see the module's docstring; value is utility.

    On sparse limits (``families.SPARSE``, k = 2 and 3, 4 s of CPU) they reach .8207, .6540,
    .7619, .9129 and .8023 where smooth runs reach .7157, .6033, nothing, nothing, .7933.

    Parameters
    ----------
    problem : Problem
        Must be :func:`crossable`.
    rng, limits, done
        See :class:`Annealer`.

    Attributes
    ----------
    price : float
        Price of a crossing in the next run, in units of the best pair's worth.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        limits: Limits,
        done: Callable[[], bool] = never,
    ) -> None:
        super().__init__(problem, rng, limits, done)
        t = self.arrays.tables
        self.size = float(t.worth.max(initial=0.0)) or 1.0
        self.price = _CROSSING
        self._seated = bool((t.able.sum(axis=1) >= t.lo).all())

    @property
    def possible(self) -> bool:
        """Whether there are enough adversaries for the copies of every entry."""
        return self._seated

    def offer(self, chosen: Bools) -> None:
        """Keep a plan within all limits if it is the best so far."""
        value = float(self.arrays.tables.worth[chosen].sum())
        if value > self.value:
            self.best, self.value = chosen.copy(), value

    def run(self, most: int = LONG_ACROSS) -> None:
        """Anneal once from a random plan, for at most so many steps."""
        state = self.arrays.state(self._drawn())
        extra = self.arrays.annealing(state, smooth=False)
        extra.sums[kernel.OVER] = np.maximum(state.load - extra.cap, 0).sum()
        state.total[U] = state.worth[state.chosen].sum()
        numbers = np.zeros(kernel.NUMBERS)
        numbers[kernel.BEST] = -inf
        anneal = kernels("annealing", quick=True)["anneal_across"]
        anneal(state, extra, numbers, np.empty((0, kernel.DRAWS_ACROSS)))
        longest = min(RUN_ACROSS * _GROWTH_ACROSS ** min(self.runs, 9), LONG_ACROSS)
        steps = max(1, int(min(longest, most)))
        began = self._limits.clock()
        for done in range(0, steps, _STRIDE_ACROSS):
            if self.over():
                break
            part = self._part(steps, done, began)
            price = self.price * (1 + _RISE * part**_STEEP)
            numbers[kernel.PRICE] = self.size * price
            numbers[kernel.TEMPERATURE] = self.size * _HOT * (_COLD / _HOT) ** part
            size = (min(_STRIDE_ACROSS, steps - done), kernel.DRAWS_ACROSS)
            draws = self.rng.random(size)
            anneal(state, extra, numbers, draws)
            self.spent += len(draws)
        kept = numbers[kernel.BEST] > -inf
        if kept:
            self.offer(extra.best)
        better = self.price * (_LOWER if kept else _HIGHER)
        self.price = min(max(better, _LEAST), _DEAREST)
        self.runs += 1

    def _drawn(self) -> Bools:
        """Draw a plan: each entry's least copies, or one, among adversaries allowed."""
        t = self.arrays.tables
        draws = np.where(t.able, self.rng.random(t.able.shape), -1.0)
        rank = np.argsort(np.argsort(-draws, axis=1), axis=1)
        wanted = np.minimum(np.maximum(t.lo, 1), t.hi)
        return np.asarray(t.able & (rank < wanted[:, None]))


def most_steps(limits: Limits, each: int = STEPS) -> int:
    """Return the steps of all runs: under a clock, as many as time permits."""
    most = _MOST if limits.seconds == inf else _ENDLESS
    return int(min(limits.work, most) * each)


def anneal_smoothly(
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
        Must be :func:`annealable`.
    rng, limits
    start : Pairs, optional
        A plan within all limits: the result is never worse.
    done : callable
        True once the plan is no longer wanted.
    """
    annealer = SmoothAnnealer(problem, rng, limits, done)
    return _annealed(annealer, most_steps(limits), start, "annealing")


def anneal_across_limits(
    problem: Problem,
    start: Pairs | None,
    rng: np.random.Generator,
    limits: Limits,
    done: Callable[[], bool] = never,
) -> Solution:
    """Do the same by penalty runs, where the problem is :func:`crossable`."""
    annealer = PenaltyAnnealer(problem, rng, limits, done)
    steps = most_steps(limits, STEPS_ACROSS)
    found = _annealed(annealer, steps, start, "annealing across limits")
    best = found.verdict is Verdict.SOLVED and found.value == found.bound
    return replace(found, stopped="optimal") if best else found  # ends the race


def _annealed(
    annealer: Annealer, steps: int, start: Pairs | None, how: str
) -> Solution:
    """Anneal for so many steps and judge the best plan."""
    problem = annealer.problem
    bound = free_bound(problem)
    if start is not None:
        annealer.offer(grid_of(problem, start))
    stopped = annealer.anneal(steps, float(bound))
    if annealer.best is None:
        tried = (f"{how} found no plan within the limits",)
        return Solution(Verdict.UNKNOWN, bound=bound, tried=tried, stopped=stopped)
    return answer(problem, plan_of(annealer.best), tried=(how,), stopped=stopped)


@dataclass(frozen=True)
class AnnealingSolver:
    """A heuristic; with a tighter bound where the worst load of weighted sets counts.

    Attributes
    ----------
    start : Pairs or None
        A plan within all limits: the result is never worse.
    """

    start: Pairs | None = None

    def supports(self, problem: Problem) -> bool:
        """All that sets can require, with no mean limited but that of all sets."""
        return annealable(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Anneal, then bound, then anneal on while there is work."""
        if not is_load_tradeoff(problem, average=False):
            return anneal_smoothly(problem, rng, limits, self.start)
        over, began = limits.deadline(), limits.clock()
        annealer = SmoothAnnealer(problem, rng, limits)
        if self.start is not None:
            annealer.offer(grid_of(problem, self.start))
        kernels("annealing", quick=True)["anneal"]  # loaded before the time is shared
        half = limits.left(began, _SHARE)
        annealer.within(half)
        annealer.run(most_steps(half))
        rest = limits.left(began)  # the bound needs its share of the time
        annealer.within(rest)
        ladder = Ladder(problem, load_tables(problem))
        relaxations = int(min(_RELAXATIONS, 2 + limits.work * 4))
        ladder.climb(annealer.value, annealer.level, relaxations, over, rest)
        stopped = annealer.anneal(most_steps(limits), ladder.bound)
        finite = bool(np.isfinite(ladder.bound))
        bound = Fraction(ladder.bound) if finite else free_bound(problem)
        if annealer.best is None:
            tried = ("no plan within the capacities was found",)
            return Solution(Verdict.UNKNOWN, bound=bound, tried=tried, stopped="work")
        return answer(
            problem,
            plan_of(annealer.best),
            bound=bound,
            tried=(f"annealing, and {ladder.count} relaxations for the bound",),
            stopped=stopped,
        )
