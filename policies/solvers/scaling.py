"""Scale the objective to a size that suits floats and tolerances, and back.

Weights of 10^-30 or a lambda of 10^30 state the same problem as numbers near 1, but
solvers that use floats would fail on them.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from policies.judging.judge import judge
from policies.model.aggregates import Shape
from policies.model.objective import Objective
from policies.model.problem import Problem
from policies.solvers.interfaces import Solution

LEAST: Final = Fraction(1, 10)
MOST: Final = 10**6
"""Objectives of such sizes are not scaled."""

CLOSE: Final = Fraction(2, 10**9)
"""A bound this close to the value, relative to it and to 1, counts as reached."""


def reached(value: Fraction, bound: Fraction) -> bool:
    """Whether no plan is better, up to rounding errors."""
    return bound - value <= CLOSE * max(Fraction(1), abs(value))


def objective_size(problem: Problem) -> Fraction:
    """Return the size of the objective: the best u, or lambda f where f counts.

    1 if nothing is worth anything.
    """
    return _most(problem, problem.goal.lambda_ * highest_disclosure(problem))


def highest_disclosure(problem: Problem) -> Fraction:
    """Return about the highest f: 1, or the sum of an aggregate."""
    how, links = problem.goal.aggregate, problem.links
    if how is None:
        return Fraction(1)
    owners = problem.sets.owner.tolist() if links is None else range(links.n_links)
    weights = [how.weight(owner) for owner in owners]
    whole = max if how.shape is Shape.WORST else sum
    most = Fraction(whole(weights)) / how.divisor if weights else Fraction(0)
    observers = problem.n_adversaries + len(problem.groups)
    return most * observers if how.summed else most


def _most(problem: Problem, price: Fraction) -> Fraction:
    """Return the best u, or the price if f counts; 1 if both are 0."""
    most = problem.weights.best(problem.hi) * problem.weights.unit
    if problem.goal.objective is Objective.TRADEOFF:
        most = max(most, price)
    return most or Fraction(1)


def cost_scale(problem: Problem) -> Fraction:
    """Return the factor that scales the best u to 10^6, or lambda to 10^9."""
    return 10**6 / _most(
        problem, problem.goal.lambda_ * highest_disclosure(problem) / 1_000
    )


def near_one(problem: Problem) -> tuple[Problem, Fraction]:
    """Return the problem with an objective near 1, and the value of its unit."""
    unit = objective_size(problem)
    if LEAST <= unit <= MOST:
        return problem, Fraction(1)
    weights = replace(problem.weights, unit=problem.weights.unit / unit)
    goal = problem.goal
    if goal.objective is Objective.TRADEOFF:
        goal = replace(goal, lambda_=goal.lambda_ / unit)
    return replace(problem, weights=weights, goal=goal), unit


def restored(problem: Problem, found: Solution, unit: Fraction) -> Solution:
    """Return a solution of :func:`near_one` of a problem as one of the problem."""
    bound = found.bound * unit
    if found.judged is None:
        return replace(found, value=found.value * unit, bound=bound)
    judged = judge(problem, found.plan)
    value = judged.objective
    bound = max(bound, value)
    open_ = found.stopped == "optimal" and not reached(value, bound)
    stopped = "gap" if open_ else found.stopped
    return replace(found, value=value, bound=bound, judged=judged, stopped=stopped)
