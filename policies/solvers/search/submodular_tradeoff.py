"""Tradeoffs with a utility that is not a sum: levels of disclosure, slopes, single moves.

1. The epsilon-constraint method (:mod:`policies.solvers.exact.epsilon_constraint`)
   repeatedly splits the span of f that might contain the best plan: each new level
   gives a plan, and a bound that only plans above it may exceed.
2. Near a plan, u is about the sum of what single pairs add to it. With these slopes as
   weights, it is a problem of sums, which compiled climbs and annealing plan well,
   disclosure included. The judge then computes the true u of the plan. Far from the
   plan the slopes differ: half of the slopes there are mixed into the next iteration.
3. Single entries are reassigned while that improves the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.problem import Plan, Problem
from policies.model.weights import Weights
from policies.solvers.exact.epsilon_constraint import DisclosureSpan, Sweep, held_at
from policies.solvers.explain.cores import counted
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Solver,
    Verdict,
    answer,
    free_bound,
)
from policies.solvers.scaling import reached
from policies.solvers.search.local_search import Meter, fits, improved
from policies.solvers.search.oracle import Oracle

Floats = npt.NDArray[np.float64]
Question = Callable[[Problem, np.random.Generator, Limits], Solution]

# Two tradeoffs of 30 entries (a root, and coverage of 20 topics), work .3: TURNS of 1 and 4,
# CLIMBS of 6 and 24 and CUTS of 12 end in the same plans, bounds and CPU seconds.
TURNS: Final = 2  # iterations of slopes
CLIMBS: Final = 12  # climbs along slopes in one iteration, at most

STEPS: Final = 10**6
"""Slopes are integer multiples of 1 / this of the steepest one."""

LARGEST: Final = 50_000
"""Entries x adversaries above which computing all slopes takes long."""


CUTS: Final = 24  # levels, at most
LEAST: Final = 0.1
"""Seconds in which any level can be decided."""

AT: Final = Fraction(3, 4)
"""Where a span is split: high, since tight levels take long and are often empty."""

NARROW: Final = Fraction(1, 64)
"""Relative length below which a span is not split."""

LATE: Final = 4.0
"""Seconds by which exact engines may be late: they load, and seldom check the clock."""

LOADED: Final = 1.5
"""The same for heuristics, which only load and compile.

Half and twice of both end in the same plans in the same time, with all loaded, on the two
tradeoffs below in 1 s and in 12 s of CPU.
"""

# Coverage of 20 topics by 30 entries (40 secrets, k = 3) and linear worst 40, 12, 3, 2 with such
# a utility: 1 s of CPU ends in .316 of .338 and .493 of .644. Half of LEVELS or SHARE leaves a
# level less than LEAST: .310 of .338 and .287 of .960; twice of LEVELS .316 and .493 of .564, of
# SHARE as it is, in more of the second. In 5 s all end in .317 and .516; half of SLOPES in 1.4 s
# instead of 2.6, twice in .316.
LEVELS: Final = 0.4  # see SLOPES
SLOPES: Final = 0.5
"""Shares of the remaining time for levels, then for slopes; the rest is for climbing."""

SHARE: Final = 0.3
"""Share of the remaining time for one level, at most."""


@dataclass(frozen=True)
class Asked:
    """The solvers that work on parts of a tradeoff.

    Attributes
    ----------
    solver : Solver
        Solves the problem with its disclosure limited to a level, and bounds u there.
    feasible : callable
        Decides whether there is a plan at a level, with weights instead of utilities.
    led : callable
        Plans the tradeoff with weights instead of utilities.
    """

    solver: Solver
    feasible: Question
    led: Question


@dataclass
class Punctual:
    """A solver that is called only if there is time for an answer that comes late.

    Attributes
    ----------
    question : callable
    limits : Limits
        For all calls, from ``began`` on.
    late : float
        Seconds by which the next answer may be late: those of the last one.
    """

    question: Question
    limits: Limits
    began: float
    late: float

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve, or return only a counting bound if there is no time."""
        left = self.limits.left(self.began).seconds
        if left < limits.seconds + self.late and not counted(problem):
            tried = ("no time for exact engines",)
            return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=tried)
        asked = limits.clock()
        found = self.question(problem, rng, limits)
        self.late = max(limits.clock() - asked - limits.seconds, 0.0)
        return found


def cut_levels(
    who: Asked,
    problem: Problem,
    first: Solution,
    rng: np.random.Generator,
    limits: Limits,
) -> Solution:
    """Return the best plan over all levels tried, with the bound that they prove.

    Parameters
    ----------
    who : Asked
    problem : Problem
        A tradeoff.
    first : Solution
        A plan of it, judged as a tradeoff.
    rng, limits
    """
    assert first.judged is not None
    goal, top = problem.goal, first.judged.f_goal
    known = Sweep.over(problem, [top], [Fraction(0), top])
    if not top or problem.links is not None:  # levels limit what sets disclose
        known.spans[0] = replace(known.spans[0], open=False)
    began, most = limits.clock(), known.spans[-1].u
    exactly = Punctual(who.feasible, limits, began, LATE)
    best = climbed(problem, first, rng, limits.left(began, SHARE))
    time = limits.left(began, LEVELS)
    for _ in range(CUTS):
        wide = max(_wide(known, top), key=lambda span: span.bound(goal), default=None)
        part = time.left(began, SHARE).part(1 / CUTS)
        if wide is None or part.seconds < LEAST or limits.stopped():
            break
        if reached(best.value, wide.bound(goal)):
            break
        assert wide.high is not None
        level = wide.low + (wide.high - wide.low) * AT
        asked = held_at(problem, level)
        if not who.solver.supports(asked):
            break
        found = who.solver(asked, rng, part)
        if found.verdict is not Verdict.SOLVED:
            found = exactly(replace(asked, utilities=None), rng, part)
            found = replace(found, bound=most)
        known.cut(wide, level)
        known.learn(level, found)
        if found.verdict is Verdict.SOLVED:
            made = answer(problem, found.plan, tried=found.tried)
            if made.verdict is Verdict.SOLVED:
                best = _better(best, climbed(problem, made, rng, part))
    slopes = limits.left(began, SLOPES)
    led = Punctual(who.led, limits, began, LOADED)
    best = along_slopes(led, problem, best, rng, slopes)
    best = climbed(problem, best, rng, limits.left(began, SHARE))
    best = reassign_singly(problem, best, rng, limits.left(began))
    if len(problem.history) and not problem.strict_history:  # levels count it: no proof
        return replace(best, bound=max(best.value, free_bound(problem)))
    return replace(best, bound=max(best.value, known.bound))


def _wide(known: Sweep, top: Fraction) -> Iterator[DisclosureSpan]:
    """Yield the spans that may be split."""
    for span in known.spans:
        if span.open and span.high and span.high - span.low > top * NARROW:
            yield span


def reassign_singly(
    problem: Problem, best: Solution, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Reassign single entries while that improves the objective; each try is judged."""
    meter = Meter(limits)
    cost = 4 * (problem.n_entries + len(problem.sets.entry))  # fractions are slower
    holders: list[frozenset[int]] = [frozenset()] * problem.n_entries
    for d, a in zip(
        best.plan.entry.tolist(), best.plan.adversary.tolist(), strict=True
    ):
        holders[d] |= {a}
    rises = True
    while rises:
        rises = False
        for d in rng.permutation(problem.n_entries).tolist():
            for other in _others(problem, d, holders[d]):
                if not meter.spend(cost):
                    return replace(best, stopped=meter.ended)
                tried = [*holders[:d], other, *holders[d + 1 :]]
                plan = Plan.of((e, a) for e, row in enumerate(tried) for a in row)
                made = answer(problem, plan, tried=best.tried)
                if made.verdict is Verdict.SOLVED and made.value > best.value:
                    best, holders, rises = made, tried, True
                    break
    return replace(best, stopped="gap")


def _others(
    problem: Problem, entry: int, row: frozenset[int]
) -> Iterator[frozenset[int]]:
    """Yield other holders of an entry: one more, one other, or one fewer."""
    for a in sorted(set(range(problem.n_adversaries)) - row):
        if len(row) < problem.hi[entry]:
            yield row | {a}
        yield from (row - {b} | {a} for b in sorted(row))
    if len(row) > problem.lo[entry]:
        yield from (row - {b} for b in sorted(row))


def _better(best: Solution, made: Solution) -> Solution:
    """Return the solution of higher value; the first on a tie."""
    return made if made.value > best.value else best


def along_slopes(
    led: Question,
    problem: Problem,
    first: Solution,
    rng: np.random.Generator,
    limits: Limits,
) -> Solution:
    """Return the best of a plan and of those found by its slopes.

    Parameters
    ----------
    led : callable
        Plans a tradeoff with weights instead of utilities.
    problem : Problem
        A tradeoff.
    first : Solution
        A plan of it, judged as a tradeoff.
    rng, limits
    """
    best, began, over = first, limits.clock(), limits.deadline()
    if not _sloping(problem):
        return best
    slopes = _slopes(problem, best.plan)
    for turn in range(TURNS):
        if over() or not slopes.any():
            break
        part = limits.left(began, 1 / (TURNS - turn)).part(1 / TURNS)
        found = led(_near(problem, slopes), rng, part)
        if found.verdict is not Verdict.SOLVED:
            break
        made = answer(problem, found.plan, tried=("slopes of u", *found.tried))
        if made.verdict is Verdict.SOLVED and made.value > best.value:
            best = made
        slopes = (slopes + _slopes(problem, found.plan)) / 2
    return best


def climbed(
    problem: Problem, first: Solution, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Climb by slopes from a plan, repeatedly while it improves."""
    best, began, over = first, limits.clock(), limits.deadline()
    for _ in range(CLIMBS if _sloping(problem) else 0):
        slopes = _slopes(problem, best.plan)
        if over() or not slopes.any():
            break
        near = _near(problem, slopes)
        found = improved(near, best.plan, rng, limits.left(began).part(1 / CLIMBS))
        made = answer(problem, found.plan, tried=(*best.tried, "climbs by slopes of u"))
        if made.verdict is not Verdict.SOLVED or made.value <= best.value:
            break
        best = replace(made, tried=tuple(dict.fromkeys(made.tried)))
    return best


def singly(problem: Problem) -> Problem:
    """Return the problem with each pair's worth by itself instead of u, if computable."""
    slopes = _slopes(problem, Plan()) if _sloping(problem) else np.zeros(0)
    return _near(problem, slopes) if slopes.any() else replace(problem, utilities=None)


def _sloping(problem: Problem) -> bool:
    """Whether all slopes are quickly computed, and fit the plan state."""
    small = problem.n_entries * problem.n_adversaries <= LARGEST
    return small and fits(replace(problem, utilities=None))


def _near(problem: Problem, slopes: Floats) -> Problem:
    """Return the problem with integer slopes instead of u; each entry its own kind."""
    n, top = slopes.shape[1], float(slopes.max())
    weights = Weights(
        kind=np.arange(n),
        base=np.ones(n, np.int64),
        factor=np.rint(slopes / top * STEPS).astype(np.int64),
        unit=Fraction(top) / STEPS,
    )
    return replace(problem, utilities=None, weights=weights)


def _slopes(problem: Problem, plan: Plan) -> Floats:
    """Return what each pair adds to u beside all others of a plan, shape (k, n)."""
    oracle = Oracle(problem)
    held = list(zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True))
    for d, a in held:
        oracle.give(d, a)
    gains = np.array([oracle.column(a) for a in range(problem.n_adversaries)])
    for d, a in held:
        oracle.take(d, a)
        gains[a, d] = oracle.gain(d, a)
        oracle.give(d, a)
    return np.asarray(np.maximum(gains, 0.0))
