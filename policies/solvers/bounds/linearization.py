"""Tradeoffs of a utility that is no sum, by its slopes: what each pair adds near a plan.

Near a plan u is about the sum of what single pairs add to it. With these as weights it is
a problem of sums, which compiled climbs and annealing plan well, disclosure and all. The
judge tells what the plan is worth by u itself. Far from the plan slopes are others: half
of what they are there is taken into the next turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.problem import Plan, Problem
from policies.model.weights import Weights
from policies.solvers.interfaces import Limits, Solution, Verdict, answer
from policies.solvers.search.local_search import fits, improved
from policies.solvers.search.oracle import Oracle

Floats = npt.NDArray[np.float64]
Question = Callable[[Problem, np.random.Generator, Limits], Solution]

TURNS: Final = 2
CLIMBS: Final = 12

STEPS: Final = 10**6
"""Parts of the steepest slope in which slopes are told."""

LARGEST: Final = 50_000
"""Pairs of entry and adversary above which to ask for all slopes takes long."""


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
