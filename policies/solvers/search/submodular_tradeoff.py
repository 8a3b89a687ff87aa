"""Tradeoffs of a utility that is no sum: levels of disclosure, slopes, single entries.

1. The epsilon-constraint method (:mod:`policies.solvers.exact.epsilon_constraint`) cuts
   the span of f that might hold the best plan, again and again: each new level gives a
   plan, and a bound that only plans above it may pass.
2. Near a plan u is about the sum of what single pairs add to it. With these slopes as
   weights it is a problem of sums, which compiled climbs and annealing plan well,
   disclosure and all. The judge tells what the plan is worth by u itself. Far from the
   plan slopes are others: half of what they are there is taken into the next turn.
3. Single entries are given otherwise while that is worth more.
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
from policies.solvers.exact.epsilon_constraint import Span, Sweep, held_at
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

TURNS: Final = 2
CLIMBS: Final = 12

STEPS: Final = 10**6
"""Parts of the steepest slope in which slopes are told."""

LARGEST: Final = 50_000
"""Pairs of entry and adversary above which to ask for all slopes takes long."""


CUTS: Final = 24
LEAST: Final = 0.1
"""Seconds in which a level can be decided at all."""

AT: Final = Fraction(3, 4)
"""Where a span is cut: high, since tight levels are long to decide and often empty."""

NARROW: Final = Fraction(1, 64)
"""A span of such a part of all is cut no more."""

LATE: Final = 4.0
"""Seconds that exact engines may be late: they are loaded, and look at the clock seldom."""

LOADED: Final = 1.5
"""The same of heuristics, which only have to be loaded and compiled."""

LEVELS: Final = 0.4
SLOPES: Final = 0.5
"""Of the time that is left, what levels and then slopes take; the rest is for climbing."""

SHARE: Final = 0.3
"""Of the time that is left, what one level may take at most."""


@dataclass(frozen=True)
class Asked:
    """Whom a tradeoff is asked of.

    Attributes
    ----------
    solver : Solver
        Takes the problem with its disclosure held at a level, and bounds u there.
    feasible : callable
        Decides whether there is a plan at a level, with weights in place of utilities.
    led : callable
        Plans the tradeoff with weights in place of utilities.
    """

    solver: Solver
    feasible: Question
    led: Question


@dataclass
class Punctual:
    """A question that is asked only while there is time for an answer that comes late.

    Attributes
    ----------
    question : callable
    limits : Limits
        Of all that is asked, from ``began`` on.
    late : float
        Seconds that the next answer may come late: what the last one did.
    """

    question: Question
    limits: Limits
    began: float
    late: float

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Ask, or count alone where there is no time."""
        left = self.limits.left(self.began).seconds
        if left < limits.seconds + self.late and not counted(problem):
            told = ("no time for exact engines",)
            return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=told)
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
    """Return the best plan of all levels that were asked, with what they prove.

    Parameters
    ----------
    who : Asked
    problem : Problem
        A tradeoff.
    first : Solution
        A plan of it, as the judge sees it as a tradeoff.
    rng, limits
    """
    assert first.judged is not None
    goal, top = problem.goal, first.judged.f_goal
    known = Sweep.over(problem, [top], [Fraction(0), top])
    if not top or problem.links is not None:  # levels hold what sets disclose
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
    best = climb(problem, best, rng, limits.left(began))
    if len(problem.history) and not problem.strict_history:  # levels count it: no proof
        return replace(best, bound=max(best.value, free_bound(problem)))
    return replace(best, bound=max(best.value, known.bound))


def _wide(known: Sweep, top: Fraction) -> Iterator[Span]:
    """Go through the spans that may be cut."""
    for span in known.spans:
        if span.open and span.high and span.high - span.low > top * NARROW:
            yield span


def climb(
    problem: Problem, best: Solution, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Give single entries otherwise while that is worth more; the judge sees every try."""
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
    """Who else may hold an entry: one more, one other, or one fewer."""
    for a in sorted(set(range(problem.n_adversaries)) - row):
        if len(row) < problem.hi[entry]:
            yield row | {a}
        yield from (row - {b} | {a} for b in sorted(row))
    if len(row) > problem.lo[entry]:
        yield from (row - {b} for b in sorted(row))


def _better(best: Solution, made: Solution) -> Solution:
    """The one that is worth more; in a draw the first."""
    return made if made.value > best.value else best


def along_slopes(
    led: Question,
    problem: Problem,
    first: Solution,
    rng: np.random.Generator,
    limits: Limits,
) -> Solution:
    """Return the best of a plan and of those that are best by its slopes.

    Parameters
    ----------
    led : callable
        Plans a tradeoff with weights in place of utilities.
    problem : Problem
        A tradeoff.
    first : Solution
        A plan of it, as the judge sees it as a tradeoff.
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
    """Climb by slopes from a plan, again and again while it gets better."""
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
    """The problem with what each pair is worth by itself in place of u, where that is told."""
    slopes = _slopes(problem, Plan()) if _sloping(problem) else np.zeros(0)
    return _near(problem, slopes) if slopes.any() else replace(problem, utilities=None)


def _sloping(problem: Problem) -> bool:
    """Whether all slopes are soon told, and fit a board."""
    small = problem.n_entries * problem.n_adversaries <= LARGEST
    return small and fits(replace(problem, utilities=None))


def _near(problem: Problem, slopes: Floats) -> Problem:
    """Put slopes, in integers, in place of u; each entry is of a kind of its own."""
    n, top = slopes.shape[1], float(slopes.max())
    weights = Weights(
        kind=np.arange(n),
        base=np.ones(n, np.int64),
        factor=np.rint(slopes / top * STEPS).astype(np.int64),
        unit=Fraction(top) / STEPS,
    )
    return replace(problem, utilities=None, weights=weights)


def _slopes(problem: Problem, plan: Plan) -> Floats:
    """What each pair adds to u beside all others of a plan, shape (k, n)."""
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
