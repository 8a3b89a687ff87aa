"""Means over sets that are whole or not: CP-SAT counts them, where HiGHS guesses.

A mean is a number of complete sets then, so a tradeoff is a disc-budget problem for each
number: at most j of them to one hand. Numbers go up from 0. A plan with more than j is
worth at most the best utility less the price of j + 1, so few numbers are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.problem import Average, Goal, Problem
from policies.model.sets import Measure
from policies.solvers.exact.cpsat import CpSat, exactly, refuted
from policies.solvers.exact.zero_disclosure import whole
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound
from policies.solvers.scaling import reached

_SHARE: Final = 0.4  # of the time, as CP-SAT has its answer soon or late
_EACH: Final = 0.5  # of what is left of that, for each number
_LARGEST: Final = 20_000  # members x hands up to which CP-SAT is asked first


def stepped(problem: Problem) -> bool:
    """Whether a mean over whole sets is limited, or the price of a tradeoff."""
    sets, hands = problem.sets, problem.n_adversaries + len(problem.groups)
    steps = all(measure is Measure.STEP for measure in sets.measures)
    size = (len(sets.entry) + problem.n_entries) * hands
    if not steps or size > _LARGEST or not CpSat().supports(_limited(problem)):
        return False
    if whole(problem):
        return problem.goal.average and problem.goal.over > 0 and not problem.averages
    return any(cap.aggregate is None for cap in problem.averages)


def by_number(problem: Problem, rng: np.random.Generator, limits: Limits) -> Solution:
    """Solve a problem that is :func:`stepped`, as far as time goes."""
    limits = replace(limits, seconds=limits.seconds * _SHARE)
    if not whole(problem):
        return exactly(problem, rng, limits)
    found = list(_levels(problem, rng, limits))
    if not found:
        return refuted(problem, "all assignments were searched")
    plans = [one for one, _ in found if one.verdict is Verdict.SOLVED]
    bound = max(top for _, top in found)
    tried = ("complete sets, number by number",)
    if not plans:
        return Solution(Verdict.UNKNOWN, bound=bound, tried=tried)
    best = max(plans, key=lambda one: one.value)
    made = answer(problem, best.plan, bound=bound, tried=tried)
    return replace(made, stopped="optimal" if reached(made.value, made.bound) else "")


def _levels(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> Iterator[tuple[Solution, Fraction]]:
    """Plans of each number, and what plans of just this number are worth at most.

    The last one stands for all higher numbers.
    """
    goal, began, over = problem.goal, limits.clock(), limits.deadline()
    free, best = free_bound(problem), None
    for number in range(problem.sets.n_sets + 1):
        price = goal.lambda_ * Fraction(number, goal.over)
        done = best is not None and reached(best, max(best, free - price))
        if done or over():
            yield Solution(Verdict.UNKNOWN), free - price
            return
        part = _limited(problem, Fraction(number, goal.over))
        share = limits.part(1 / (number + 2)).left(began, _EACH)
        found = exactly(part, rng, share)
        if found.verdict is Verdict.INFEASIBLE:
            continue
        made = answer(problem, found.plan)
        if made.verdict is Verdict.SOLVED:
            best = made.value if best is None else max(best, made.value)
        yield made, min(free, found.bound + goal.lambda_ * goal.tau) - price


def _limited(problem: Problem, level: Fraction | None = None) -> Problem:
    """Return the question of utility alone, the mean held at a level."""
    if not whole(problem):
        return problem
    every = tuple(range(len(problem.sets.properties)))
    cap = Average(every, level or Fraction(0), strict=False, over=problem.goal.over)
    return replace(problem, goal=Goal(), averages=(cap,))
