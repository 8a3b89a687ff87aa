"""Few entries with links: every plan is looked at, by what each adversary holds.

What a hand sees follows from the subset that it holds: 2^n of them, for all hands alike.
So a plan is a row of subsets, and millions of sums are looked up instead of worked out.
Floats rank plans of a tradeoff; subsets that are at a limit are counted exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np

from policies.model.links import LinkMeasure, Links, below_limit, link_similarities
from policies.model.objective import Objective
from policies.model.problem import Problem
from policies.model.problem_arrays import Floats
from policies.model.sets import Bools, Ints
from policies.solvers.exact.cpsat import refuted
from policies.solvers.exact.plan_iterator import before, every, plan_of, size
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound

ENTRIES: Final = 12
"""Entries up to which subsets are listed."""

PLANS: Final = 200_000
"""Plans up to which all are listed."""
CELLS: Final = 5_000_000
"""Plans times hands, at most: a table of them takes 40 MB, and there are five."""

_CALL: Final = 500  # numbers that could be looked at while arrays of a link are made
_CLOSE: Final = 1e-9  # what floats cannot tell
_BATCH: Final = 256  # subsets that are counted between two looks at the clock


def listable(problem: Problem) -> bool:
    """Whether links alone are limits, and plans are few."""
    n, k = problem.n_entries, problem.n_adversaries
    plain = not problem.sets.n_sets and not problem.averages
    plain = plain and problem.links is not None and problem.aggregate is None
    if not plain or problem.utilities is not None or n > ENTRIES or not k:
        return False
    plans = size(problem)
    return 0 < plans <= PLANS and plans * (k + len(problem.groups)) <= CELLS


def looks(problem: Problem) -> int:
    """Return about how many numbers :func:`listed` looks at."""
    links = 0 if problem.links is None else problem.links.n_links
    hands = problem.n_adversaries + len(problem.groups)
    subsets = (1 << problem.n_entries) + _CALL
    return size(problem) * hands + subsets * (1 + links)


def listed(problem: Problem, limits: Limits) -> Solution:
    """Return the optimum, or that there is none; UNKNOWN where time ended first.

    Parameters
    ----------
    problem : Problem
        One that is :func:`listable`.
    limits : Limits
    """
    over = limits.deadline()
    masks, u = every(problem)
    held, goal = _held(problem, masks), problem.goal
    seen = _seen(problem, over)
    past = None if seen is None else _past(problem, held, seen, over)
    if seen is None or past is None:
        told = ("time ended before all plans were looked at",)
        return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=told)
    rows = np.flatnonzero(~past[held].any(axis=1))
    if not len(rows):
        return refuted(problem, "all plans were looked at")
    value = u
    if goal.objective is Objective.TRADEOFF:
        f = seen[int(goal.average)][held].max(axis=1)
        reward = float(goal.lambda_) * (float(goal.tau) - f)
        value = u * float(problem.weights.unit) + reward
    row = rows[value[rows].argmax()]
    if goal.objective is Objective.TRADEOFF:
        top = float(value[row])
        bound = Fraction(top + _CLOSE * max(1.0, abs(top)))
    else:
        bound = int(u[row]) * problem.weights.unit
    return answer(problem, plan_of(masks[row]), bound=bound, tried=("all plans",))


def _past(
    problem: Problem, held: Ints, seen: tuple[Floats, Floats], over: Callable[[], bool]
) -> Bools | None:
    """Whether who holds a subset is past a limit, shape (2^n,); None if time ended.

    What floats cannot tell is counted exactly: all hands see alike.
    """
    links, past = problem.links, np.zeros(len(seen[0]), np.bool_)
    assert links is not None
    close, whole = np.zeros_like(past), (1, problem.goal.over or links.n_links or 1)
    taus = (links.tau, links.mean_tau)
    for f, tau, one in zip(seen, taus, whole, strict=True):
        if tau is None:
            continue
        if links.relation is LinkMeasure.COMMON:  # numbers of links: compared exactly
            number, place = np.unique(np.rint(f * one), return_inverse=True)
            high = [Fraction(int(many), one) >= tau for many in number.tolist()]
            past |= np.array(high)[place]
        else:
            past |= f > float(tau) + _CLOSE
            close |= abs(f - float(tau)) <= _CLOSE
    there = np.zeros_like(past)
    there[held] = True
    open_ = np.flatnonzero(there & close & ~past)
    for at in range(0, len(open_), _BATCH):
        if over():
            return None
        masks = open_[at : at + _BATCH]
        past[masks] = _exactly_past(links, masks, whole[1])
    return past


def _exactly_past(links: Links, masks: Ints, whole: int) -> Bools:
    """Whether who holds one of these subsets is past a limit, counted as the judge does."""
    bits = (masks[:, None] >> np.arange(len(links.place))) & 1
    hand, entry = np.nonzero(bits)
    past, total = np.zeros(len(masks), np.bool_), [Fraction(0)] * len(masks)
    for alike in link_similarities(links, entry, hand):
        if links.tau is not None:
            past[alike.observer] |= not below_limit(alike, links.relation, links.tau)
        if links.mean_tau is not None:
            total[alike.observer] += alike.share(links.relation)
    if links.mean_tau is not None:
        past |= np.array([f >= links.mean_tau * whole for f in total])
    return past


def _held(problem: Problem, masks: Ints) -> Ints:
    """Subsets that hands hold, history and coalitions included, shape (plans, hands)."""
    alone = masks | before(problem)
    pooled = [
        np.bitwise_or.reduce(alone[:, list(group)], axis=1) for group in problem.groups
    ]
    return np.column_stack([alone, *pooled])


def _seen(problem: Problem, over: Callable[[], bool]) -> tuple[Floats, Floats] | None:
    """Worst and mean disclosure of the links to whoever holds a subset, shape (2^n,).

    None where time ended first.
    """
    links, n = problem.links, problem.n_entries
    assert links is not None
    bits = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    wide = links.count.dtype == np.object_  # past floats: by Python's integers
    bits = bits.astype(np.object_) if wide else bits
    count = links.count if wide else links.count.astype(np.float64)
    link, left, right = links.conflicts()
    worst, total = np.zeros(1 << n), np.zeros(1 << n)
    for one in np.unique(link).tolist():
        if over():
            return None
        rows = link == one
        d, e = left[rows], right[rows]
        dot = (bits[:, d] * bits[:, e]) @ (count[d] * count[e])
        f = (dot > 0).astype(np.float64)
        if links.relation is LinkMeasure.COSINE:
            mine = links.link == one
            ends = [links.entry[mine & (links.side == side)] for side in (0, 1)]
            square = prod(bits[:, x] @ (count[x] ** 2) for x in ends)
            f = np.sqrt((dot * dot / np.maximum(square, 1)).astype(np.float64))
        worst, total = np.maximum(worst, f), total + f
    return worst, total / (problem.goal.over or links.n_links or 1)
