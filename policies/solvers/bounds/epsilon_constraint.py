"""Tradeoffs of a utility that is no sum, through the most u at levels of disclosure.

A plan whose f lies above one level and not above another is worth at most the bound of u
below the upper one, and lambda (tau - f) at the lower one. Of the spans between levels
the one that might hold the best plan is cut in two, again and again: each new level
gives a plan, and a bound that only plans above it may pass. Then the slopes of u lead on
from the best of them, and single entries are given otherwise while that is worth more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.problem import Goal, Plan, Problem
from policies.solvers.bounds.linearization import Question, along_slopes, climbed
from policies.solvers.exact.pareto_front import held_at
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
from policies.solvers.search.local_search import Meter

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


@dataclass(frozen=True)
class Span:
    """Plans with f above ``low`` and not above ``high``, whose u is ``u`` at most.

    The lowest span has plans without any disclosure, too. One that is not ``open`` was
    asked in vain: neither a plan was found there, nor that there is none.
    """

    low: Fraction
    high: Fraction
    u: Fraction
    open: bool = True

    def bound(self, goal: Goal) -> Fraction:
        """No plan of the span is worth more."""
        return self.u + goal.lambda_ * (goal.tau - self.low)


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
    beyond = Span(top, top, _most(problem))
    apart = problem.links is None  # levels hold what sets disclose
    spans = [Span(Fraction(0), top, beyond.u, apart)] if top else []
    began = limits.clock()
    exactly = Punctual(who.feasible, limits, began, LATE)
    best = climbed(problem, first, rng, limits.left(began, SHARE))
    most = limits.left(began, LEVELS)
    for _ in range(CUTS):
        left = [s for s in spans if s.open and s.high - s.low > top * NARROW]
        wide = max(left, key=lambda span: span.bound(goal), default=None)
        part = most.left(began, SHARE).part(1 / CUTS)
        if wide is None or part.seconds < LEAST or limits.stopped():
            break
        if reached(best.value, wide.bound(goal)):
            break
        level = wide.low + (wide.high - wide.low) * AT
        asked = held_at(problem, level)
        if not who.solver.supports(asked):
            break
        found = who.solver(asked, rng, part)
        if found.verdict is not Verdict.SOLVED:
            found = exactly(replace(asked, utilities=None), rng, part)
            found = replace(found, bound=beyond.u)
        spans = list(_split(spans, wide, level, found))
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
    bound = max(span.bound(goal) for span in (beyond, *spans))
    return replace(best, bound=max(best.value, min(bound, free_bound(problem))))


def climb(
    problem: Problem, best: Solution, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Give single entries otherwise while that is worth more; the judge sees every try."""
    meter = Meter(limits)
    cost = 4 * (problem.n_entries + len(problem.sets.entry))  # fractions are slower
    hands: list[frozenset[int]] = [frozenset()] * problem.n_entries
    for d, a in zip(
        best.plan.entry.tolist(), best.plan.adversary.tolist(), strict=True
    ):
        hands[d] |= {a}
    rises = True
    while rises:
        rises = False
        for d in rng.permutation(problem.n_entries).tolist():
            for other in _others(problem, d, hands[d]):
                if not meter.spend(cost):
                    return replace(best, stopped=meter.ended)
                tried = [*hands[:d], other, *hands[d + 1 :]]
                plan = Plan.of((e, a) for e, row in enumerate(tried) for a in row)
                made = answer(problem, plan, tried=best.tried)
                if made.verdict is Verdict.SOLVED and made.value > best.value:
                    best, hands, rises = made, tried, True
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


def _most(problem: Problem) -> Fraction:
    """A bound of u alone."""
    return free_bound(held_at(problem, None))


def _split(
    spans: list[Span], wide: Span, level: Fraction, found: Solution
) -> Iterator[Span]:
    """Put both parts in place of the span, and tell those below what was found."""
    yield replace(wide, low=level)
    for span in (replace(wide, high=level), *spans):
        if span.high > level:
            if span is not wide:
                yield span
        elif found.verdict is Verdict.SOLVED:
            yield replace(span, u=min(span.u, found.bound))
        elif found.verdict is not Verdict.INFEASIBLE:
            yield replace(span, open=False)
