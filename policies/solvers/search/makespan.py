"""MAKESPAN: linear average tradeoffs of one copy an entry as scheduling (paper, 4.2).

An entry is a job, an adversary a machine, and f the load of the fullest machine: with
equal worths this is P||Cmax, else generalised assignment. The rounding is that of
Shmoys and Tardos (An approximation algorithm for the generalized assignment problem,
1993): no utility is lost against the relaxation, and no mean rises by more than one
entry's share. Longest-job-first (Graham 1969) is tried too.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from policies.model.problem import Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import Bools, Ints
from policies.solvers.interfaces import Limits, Solution, answer
from policies.solvers.load_tables import (
    Balance,
    Floats,
    load_tables,
    relaxed_balance,
    unassigned,
)
from policies.solvers.search.exchange import Exchange

_ZERO = 1e-9  # smaller values of the relaxation are rounding errors


class Makespan:
    """An approximation: f is at most one entry's largest share above the relaxation's."""

    def supports(self, problem: Problem) -> bool:
        """What ``exchange`` can solve, with one copy of every assigned entry."""
        single = bool((problem.lo == problem.hi).all() and (problem.hi <= 1).all())
        return single and Exchange().supports(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Relax and round by matching; also try longest job first."""
        del rng  # deterministic
        b = Balance.of(load_tables(problem))
        x, prices, rent = relaxed_balance(b, limits)
        bound = Fraction(b.bound(prices, rent))
        plans = [p for p in (matched_slots(b, x), longest_first(b)) if p is not None]
        if not plans:
            return unassigned(bound)
        tried = ("the relaxation rounded by matching; longest job first",)
        best = max(plans, key=b.value)
        return answer(problem, plan_of(best), bound=bound, tried=tried, stopped="work")


def matched_slots(b: Balance, x: Floats) -> Bools | None:
    """Round the relaxation: a matching of entries to unit slots of adversaries.

    Notes
    -----
    The pairs of an adversary, costliest first, are poured into slots of size 1. A matching
    of highest worth is integral, so it is worth no less than ``x``; an entry of slot s + 1
    costs no more than any of slot s, so a mean rises by at most one entry's cost.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    it = b.it
    jobs = np.flatnonzero(it.lo)
    chosen = np.zeros(x.shape, np.bool_)
    if not len(jobs):
        return chosen
    entry, slot, owner = _slots(x, b.cost)
    if len(np.unique(entry)) < len(jobs):
        return None
    row = np.searchsorted(jobs, entry)
    worth = it.worth[entry, owner[slot]]
    price = worth.max() - worth + 1.0 + np.abs(worth).max()  # a 0 would mean no edge
    graph = coo_array((price, (row, slot)), shape=(len(jobs), len(owner))).tocsr()
    try:
        rows, columns = min_weight_full_bipartite_matching(graph)
    except ValueError:  # rounding errors of the relaxation left one slot too few
        return None
    chosen[jobs[rows], owner[columns]] = True
    return chosen


def _slots(x: Floats, cost: Floats) -> tuple[Ints, Ints, Ints]:
    """Return entry and slot of each edge, and the adversary of each slot."""
    edges: list[tuple[int, int]] = []
    owner: list[int] = []
    for a in range(x.shape[1]):
        mine = np.flatnonzero(x[:, a] > _ZERO)
        mine = mine[np.argsort(-cost[mine, a], kind="stable")]
        ends = np.cumsum(x[mine, a])
        begins = ends - x[mine, a]
        first = np.floor(begins + _ZERO).astype(np.int64)
        last = np.maximum(np.ceil(ends - _ZERO).astype(np.int64) - 1, first)
        base = len(owner)
        for d, one, two in zip(mine.tolist(), first, last, strict=True):
            edges += [(d, base + s) for s in range(int(one), int(two) + 1)]
        owner += [a] * (int(last.max(initial=-1)) + 1)
    grid = np.array(edges, np.int64).reshape(-1, 2)
    return grid[:, 0], grid[:, 1], np.array(owner, np.int64)


def longest_first(b: Balance) -> Bools | None:
    """Give entries, costliest first, where worth - lambda * (highest mean) is best.

    Ties go to the adversary whose mean stays lowest.
    """
    it = b.it
    means, room = b.base.copy(), it.room.copy()
    chosen = np.zeros(it.shape, np.bool_)
    jobs = np.flatnonzero(it.lo)
    for d in jobs[np.argsort(-b.cost[jobs].max(axis=1), kind="stable")].tolist():
        open_ = it.may[d] & (room > 0)
        if not open_.any():
            return None
        after = means + b.cost[d]
        value = it.worth[d] - it.lambda_ * np.maximum(after, means.max())
        order = np.lexsort((after, -np.where(open_, value, -np.inf)))
        a = int(order[0])
        chosen[d, a] = True
        means[a] = after[a]
        room[a] -= 1
    return chosen
