"""What an operator may prefer in a plan, next to what the policy makes it worth.

Each preference is a matter of rooms: of whom a plan may use, or of how much one may be
given. Within the rooms that come out the plan is searched for utility as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from policies.model.problem import Problem
from policies.model.sets import Bools, Ints
from policies.planning.frontier import adversaries_for
from policies.planning.problem import PlanningProblem
from policies.solvers import Limits, Solution

Made = TypeVar("Made", bound=PlanningProblem)


@dataclass(frozen=True, eq=False)
class Preferred:
    """The rooms of a plan that is preferred, and the plan.

    Attributes
    ----------
    room : int64 array, shape (k,)
        Exposures that each adversary may get.
    solution : Solution
        A plan within these rooms.
    value, bound : int
        The adversaries that it uses, or the most that one is given; no plan that places
        as much has fewer than ``bound``.
    """

    room: Ints
    solution: Solution
    value: int
    bound: int


Ask = Callable[[Ints], Solution]
"""Plans with at most so much room for each adversary."""


def with_room(made: Made, room: Ints) -> Made:
    """Return the problem in which each adversary has at most so much room."""
    loose = made.loose and replace(made.loose, capacity=room)
    return replace(made, problem=replace(made.problem, capacity=room), loose=loose)


def fewest_workers(
    problem: Problem,
    found: Solution,
    ask: Ask,
    seed: int,
    limits: Limits,
    *,
    exact: bool = True,
) -> Preferred:
    """Use the fewest adversaries, as long as no more entries are held back.

    Halve the number of those who are given most, then leave them out one by one.

    Parameters
    ----------
    problem : Problem
    found : Solution
        A plan; it is returned where none with fewer is found.
    ask : callable
    seed : int
    limits : Limits
        Of all searches together; ``work`` is left to ``ask``.
    exact : bool
        Whether the sets are no stricter than the rules that they stand for: only then
        does the bound count them.
    """
    over = limits.deadline()
    given = np.bincount(found.plan.adversary, minlength=problem.n_adversaries)
    bound = _fewest_at_all(problem, found, seed, limits.part(_PROOF), exact)
    best = found, given > 0
    by_load = np.argsort(-given, kind="stable")
    low, high = bound, int(best[1].sum())
    while low < high and not over():
        middle = (low + high) // 2
        chosen = np.isin(np.arange(len(given)), by_load[:middle])
        tried = _within(ask, problem.room(), chosen, found)
        if tried is None:
            low = middle + 1
        else:
            best, high = tried, min(middle, int(tried[1].sum()))
    for one in by_load[::-1].tolist():
        if int(best[1].sum()) <= bound or over():
            break
        if best[1][one]:
            chosen = best[1].copy()
            chosen[one] = False
            best = _within(ask, problem.room(), chosen, found) or best
    solution, used = best
    room = np.where(used, problem.room(), 0)
    return Preferred(room, solution, int(used.sum()), bound)


_PROOF = 0.2
"""Share of the time for the bound on how many adversaries it takes."""


def _within(
    ask: Ask, room: Ints, chosen: Bools, found: Solution
) -> tuple[Solution, Bools] | None:
    """Plan with the chosen adversaries alone; None if that places less."""
    tried = ask(np.where(chosen, room, 0))
    if len(tried.held) > len(found.held) or len(tried.plan) < len(found.plan):
        return None
    return tried, np.bincount(tried.plan.adversary, minlength=len(room)) > 0


def _fewest_at_all(
    problem: Problem, found: Solution, seed: int, limits: Limits, exact: bool
) -> int:
    """Bound the adversaries that a plan of as many pairs takes."""
    copies = problem.lo.copy()
    copies[found.held] = 0
    room = np.cumsum(-np.sort(-np.minimum(problem.room(), int(copies.sum()))))
    least = int(np.searchsorted(room, copies.sum())) + 1 if copies.any() else 0
    least = max(least, int(copies.max(initial=0)))
    exact = exact and problem.trusted is None and not problem.averages
    if exact and not len(found.held):
        least = max(least, adversaries_for(problem, seed, limits).least)
    return min(least, len(np.unique(found.plan.adversary)))


def fairest(
    problem: Problem, found: Solution, ask: Ask, limits: Limits, among: Bools
) -> Preferred:
    """Give the fullest adversary as little as possible, and hold no more back.

    Parameters
    ----------
    problem : Problem
    found : Solution
        A plan; it is returned where none is fairer.
    ask : callable
    limits : Limits
        Of all searches together; ``work`` is left to ``ask``.
    among : bool array, shape (k,)
        Adversaries that share the work; others get what nobody else may.
    """
    over, room = limits.deadline(), problem.room()
    given = np.bincount(found.plan.adversary, minlength=len(room))
    low = bound = _level(room[among], int(given[among].sum()))
    high = int(given[among].max(initial=0))
    best = found
    middle = low  # the bound itself is mostly reached
    while low < high and not over():
        tried = ask(np.where(among, np.minimum(room, middle), room))
        if len(tried.held) > len(found.held) or len(tried.plan) < len(found.plan):
            low = middle + 1
        else:
            best, high = tried, middle
        middle = (low + high) // 2
    most = np.where(among, np.minimum(room, high), room)
    return Preferred(most, best, high, bound)


def _level(room: Ints, pairs: int) -> int:
    """Return the least that the fullest is given if so many pairs are dealt out."""
    low, high = 0, pairs
    while low < high:
        middle = (low + high) // 2
        if int(np.minimum(room, middle).sum()) >= pairs:
            high = middle
        else:
            low = middle + 1
    return low
