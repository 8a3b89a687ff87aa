"""All plans of few entries for few adversaries: rows of subsets, one an adversary.

A subset of entries is the bits of an integer. What cannot be by itself is left out
while entries are added one by one: barred pairs, and capacities that are used up.
"""

from __future__ import annotations

from itertools import combinations
from math import comb, prod

import numpy as np

from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.model.sets import Ints


def size(problem: Problem) -> int:
    """How many plans there are but for capacities and pairs that are barred."""
    k = problem.n_adversaries
    ways = zip(problem.lo.tolist(), problem.hi.tolist(), strict=True)
    return prod(_ways(k, low, high) for low, high in ways)


def _ways(k: int, low: int, high: int) -> int:
    return sum(comb(k, size) for size in range(low, min(high, k) + 1))


def every(problem: Problem) -> tuple[Ints, Ints]:
    """All plans: the subset of each adversary, shape (plans, k); and utility."""
    k, may = problem.n_adversaries, able(problem)
    masks, u = np.zeros((1, k), np.int64), np.zeros(1, np.int64)
    load = np.zeros((1, k), np.int64)
    for d in range(problem.n_entries):
        row = problem.weights.row(d)
        who = np.flatnonzero(may[d]).tolist()
        sizes = range(int(problem.lo[d]), min(int(problem.hi[d]), k) + 1)
        ways = [list(way) for size in sizes for way in combinations(who, size)]
        given = np.zeros((len(ways), k), np.int64)
        for i, way in enumerate(ways):
            given[i, way] = 1
        worth = np.array([row[way].sum() for way in ways], np.int64)
        masks = (masks[:, None] | (given << d)[None]).reshape(-1, k)
        u = (u[:, None] + worth[None]).reshape(-1)
        if problem.capacity is not None:
            load = (load[:, None] + given[None]).reshape(-1, k)
            fits = (load <= problem.capacity).all(axis=1)
            masks, u, load = masks[fits], u[fits], load[fits]
    return masks, u


def before(problem: Problem) -> Ints:
    """The subset that each adversary holds by history, shape (k,)."""
    found = np.zeros(problem.n_adversaries, np.int64)
    history = problem.history
    np.bitwise_or.at(found, history.adversary, 1 << history.entry)
    return found


def entries_of(mask: int) -> list[int]:
    """Return the entries of a subset, ascending."""
    return [d for d in range(mask.bit_length()) if mask >> d & 1]


def plan_of(masks: Ints) -> Plan:
    """Return the plan of one row of subsets."""
    rows = enumerate(masks.tolist())
    return Plan.of((d, a) for a, mask in rows for d in entries_of(mask))
