"""Adversary reduction: with many adversaries and few entries, leave out the unneeded.

A plan has at most T pairs. Of the T best adversaries for an entry who start with
nothing, one is free if the entry went to somebody else: the entry may as well go to
that one, which then holds it alone. So u does not fall, and no load or mean rises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import Ints
from policies.solvers.interfaces import Solution, Verdict, answer

FROM: Final = 1_000
"""Adversaries from which a reduction is tried."""

SHARE: Final = 2
"""A reduction must leave at most one in so many adversaries.

Pairs of 20, 24 and 15 entries, two copies each and 1,600, 3,000 and 1,000 adversaries are solved
in .03 to .05 s of CPU with 1 and 2; with 4, which refuses two of three, in .7 to 1.0.
"""


def needed(problem: Problem) -> Ints | None:
    """Return the adversaries that suffice for the best plan, ascending; None: all."""
    k = problem.n_adversaries
    if k < FROM or not _alike(problem):
        return None
    copies = int(problem.hi.sum())
    if not 0 < copies * len(np.flatnonzero(problem.hi)) <= k // SHARE:
        return None
    able = problem.room() > 0
    fresh, keep = able.copy(), np.zeros(k, np.bool_)
    for pairs in (problem.history, problem.forbidden):
        fresh[pairs.adversary] = False
    keep[problem.history.adversary] = True
    keep |= able & ~fresh
    for best in _best(problem, np.flatnonzero(fresh), copies):
        keep[best] = True
    chosen = np.flatnonzero(keep)
    return chosen if SHARE * len(chosen) <= k else None


def _alike(problem: Problem) -> bool:
    """Whether adversaries differ only in weights, capacities and history."""
    special = problem.coalitions or problem.links or problem.utilities
    how = problem.aggregate
    summed = how is not None and how.summed  # another observer may add to the sum
    return not special and problem.trusted is None and not summed


def _best(problem: Problem, fresh: Ints, copies: int) -> Iterator[Ints]:
    """Yield the best adversaries of each entry, among these, as many as copies."""
    weights = problem.weights
    for d in np.flatnonzero(problem.hi).tolist():
        worth = weights.row(d)[fresh]
        yield fresh[np.argsort(-worth, kind="stable")[:copies]]


def among(problem: Problem, chosen: Ints) -> Problem:
    """Return the problem with these adversaries alone, renumbered."""
    number = np.full(problem.n_adversaries, -1, np.int64)
    number[chosen] = np.arange(len(chosen))

    def part(pairs: Pairs) -> Pairs:
        inside = number[pairs.adversary] >= 0
        return Pairs(pairs.entry[inside], number[pairs.adversary[inside]])

    weights = replace(problem.weights, factor=problem.weights.factor[chosen])
    return replace(
        problem,
        weights=weights,
        capacity=None if problem.capacity is None else problem.capacity[chosen],
        forbidden=part(problem.forbidden),
        history=part(problem.history),
    )


def among_all(problem: Problem, found: Solution, chosen: Ints) -> Solution:
    """Return a solution of :func:`among` as a solution of the problem."""
    k = problem.n_adversaries
    idle = k - len(chosen)  # useless here: as many more are needed beside them
    cores = tuple(
        replace(
            core,
            available=k,
            needed=None if core.needed is None else core.needed + idle,
        )
        for core in found.cores
    )
    plan = Plan(found.plan.entry, chosen[found.plan.adversary])
    if found.verdict is not Verdict.SOLVED:
        return replace(found, plan=plan, cores=cores, judged=None)
    made = answer(problem, plan, bound=found.bound, tried=found.tried)
    return replace(made, stopped=found.stopped, proofs=found.proofs)
