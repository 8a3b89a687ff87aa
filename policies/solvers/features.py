"""What a problem is, as far as the choice of solvers goes."""

from __future__ import annotations

from typing import Final

import numpy as np

from policies.model.aggregates import Shape
from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.model.sets import Measure
from policies.solvers.coloring import small_sets, stuck, tight
from policies.solvers.exact.cpsat import CpSat
from policies.solvers.exact.milp import linear
from policies.solvers.exact.zero_disclosure import whole
from policies.solvers.kernels.compiling import FROM
from policies.solvers.load_tables import plain
from policies.solvers.search.annealing import annealable
from policies.solvers.search.budget_boundary import priced
from policies.solvers.search.penalty_annealing import crossable

HEURISTICS: Final = {
    "mean": ("exchange", "socp-rounding", "annealing"),
    "worst": ("annealing",),
    "sealed": (),
    "links": (),
}
"""Solvers that give a start and improve it, by what f is; the first that fits."""

GREEDY: Final = {
    "mean": ("graspl",),
    "worst": ("graspl",),
    "links": ("greedyl", "graspl", "rand-plus", "greedy", "grasp"),
}
"""Solvers that give a start where none of those fits."""

LARGE: Final = 12_000
"""Members x hands from which HiGHS proves no tradeoff over loads."""


MEASURES: Final = (Measure.LINEAR, Measure.QUADRATIC)
"""Of the sets whose tradeoffs have heuristics with bounds of their own."""

_BUILT: Final = 1e-5  # seconds for a member and hand


def shape(problem: Problem) -> str:
    """What f is: the key of ``HEURISTICS``."""
    if not linear(problem):
        return "links"
    budget = problem.goal.objective is Objective.DISC_BUDGET
    steps = all(m is Measure.STEP for m in problem.sets.measures)
    if budget and steps and not problem.averages:
        return "sealed"
    mean = problem.goal.average if not budget else bool(problem.averages)
    return "mean" if mean else "worst"


def modelled(problem: Problem) -> bool:
    """Whether HiGHS's model says everything: no roots; wholes are worth a closer look."""
    how = problem.aggregate
    if how is None or how.shape is not Shape.SOFT_MAX:
        return not whole(problem)
    return problem.goal.objective is Objective.DISC_BUDGET and not how.summed


def heavy(problem: Problem) -> bool:
    """Whether this is a tradeoff over loads that is too large for HiGHS to prove."""
    size = len(problem.sets.entry) * problem.n_adversaries
    return size >= LARGE and plain(problem, MEASURES, average=problem.goal.average)


def budgeted(problem: Problem) -> bool:
    """Whether all limits are on single sets, which CP-SAT counts in whole numbers."""
    return not problem.averages and CpSat().supports(problem)


def swift(problem: Problem) -> bool:
    """Whether what gives a start is compiled, or nothing else is there for the problem.

    Plain Python beside HiGHS only holds it up.
    """
    size = len(problem.sets.entry) * problem.n_adversaries
    alone = budgeted(problem) or shape(problem) == "links" or by_levels(problem)
    return size >= FROM or alone or priced(problem) is not None


def loose(problem: Problem) -> bool:
    """Whether plans are easy to find: small whole sets, and many places to go."""
    return shape(problem) == "sealed" and small_sets(problem) and not tight(problem)


def by_levels(problem: Problem) -> bool:
    """Whether f of the worst set counts, and annealing may hold it at its levels."""
    return annealable(problem) and shape(problem) == "worst"


def by_hands(problem: Problem) -> bool:
    """Whether annealing of what hands see is all that fits, beside exact models."""
    average = problem.goal.average
    fits = priced(problem) is not None or plain(problem, MEASURES, average=average)
    return annealable(problem) and not fits


def crossed(problem: Problem) -> bool:
    """Whether plans come from crossing limits: of small or easy colourings CP-SAT's."""
    return crossable(problem) and (not tight(problem) or stuck(problem))


def roomy(problem: Problem) -> bool:
    """Whether annealing is all that fits beside HiGHS: CP-SAT would prove nothing."""
    return by_hands(problem) and (crossed(problem) or not tight(problem))


def building(problem: Problem) -> float:
    """Seconds, about, in which HiGHS's model of the problem is built."""
    hands = problem.n_adversaries + len(problem.groups)
    return _BUILT * (len(problem.sets.entry) + problem.n_entries) * hands


def separable(problem: Problem) -> bool:
    """Whether components of the sets have nothing to do with each other."""
    budget = problem.goal.objective is Objective.DISC_BUDGET
    return budget and problem.capacity is None and not problem.averages


def free_plan(problem: Problem) -> Plan:
    """Return the best copies of every entry that are possible one by one."""
    may = able(problem)
    n, k = may.shape
    if not n:
        return Plan()
    weights = problem.weights
    worth = weights.base[:, None] * weights.factor.T[weights.kind]
    order = np.argsort(np.where(may, -worth, 1), axis=1, kind="stable")
    taken = np.arange(k) < np.minimum(problem.hi, may.sum(axis=1))[:, None]
    entry, column = np.nonzero(taken)
    return Plan(entry.astype(np.int64), order[entry, column].astype(np.int64))
