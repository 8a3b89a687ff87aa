"""Who sees together, and their loads as parts of f = 1: what :mod:`hand_prices` prices."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Final

import numpy as np

from policies.model.coalitions import membership
from policies.model.problem import Problem
from policies.model.problem_arrays import Floats, Tables
from policies.model.sets import Bools, Ints
from policies.solvers.search.annealing_state import widest

SUBSETS: Final = 256
"""Hands that are added, at most, to those there are."""


@dataclass(frozen=True, eq=False)
class Pools:
    """Who sees together; h hands, and s sets of adversaries that an entry may go to.

    Attributes
    ----------
    members : bool array, shape (h, k)
    beyond : int64 array, shape (h,)
        Members beyond m of a hand that only adds up what any m see; else 0.
    hit : float64 array, shape (h, s)
        1 where a hand sees what such a set gets.
    choice : bool array, shape (s, k)
    """

    members: Bools
    beyond: Ints
    hit: Floats
    choice: Bools


def pools(problem: Problem, *, summed: bool) -> Pools:
    """Lay out the hands that count; and with ``summed`` those of more than any m."""
    k, m = problem.n_adversaries, problem.coalitions.any_m
    every = membership(problem.groups, k)
    rows = [every[widest(every)]]
    beyond = [np.zeros(len(rows[0]), np.int64)]
    for size in range(k, m, -1) if summed and m > 1 else ():
        if comb(k, size) > SUBSETS - sum(map(len, rows[1:])):
            break
        rows.append(_subsets(k, size))
        beyond.append(np.full(len(rows[-1]), size - m))
    copies = range(min(int(problem.hi.max(initial=0)), k) + 1)
    choice = np.concatenate([_subsets(k, size) for size in copies])
    members = np.concatenate(rows)
    hit = members.astype(float) @ choice.T.astype(float)  # integers are slower by far
    np.minimum(hit, 1.0, out=hit)
    return Pools(members, np.concatenate(beyond), hit, choice)


def _subsets(k: int, size: int) -> Bools:
    """All sets of so many of k adversaries, shape (sets, k)."""
    table = np.zeros((comb(k, size), k), np.bool_)
    if size:
        chosen = np.array(list(combinations(range(k), size)))
        table[np.arange(len(chosen))[:, None], chosen] = True
    return table


class PoolLoads:
    """Loads of hands as parts of f = 1; n entries, m sets, h hands.

    Attributes
    ----------
    parts : sparse matrix, shape (n, m)
        What an entry adds to a load. A class is touched once: its entries share that.
    base : float64 array, shape (m, h)
        Loads that are there in any case.
    gcd, most, full : int64 array, shape (m,)
        What loads are multiples of before they are parts, the highest, and that of f = 1.
    below : float64 array, shape (m, 1)
        The highest load below f = 1, without what history holds.
    pool : int
        Any so many adversaries see together.
    """

    def __init__(self, t: Tables, problem: Problem, hands: Pools) -> None:
        from scipy.sparse import csr_array

        n, m = problem.n_entries, len(t.full)
        amount, inside = t.amount.astype(float), t.classes[t.set_of]
        pairs = np.stack([t.set_of, t.amount])[:, inside]
        _, where, size = np.unique(
            pairs, axis=1, return_inverse=True, return_counts=True
        )
        amount[inside] = 1 / size[where.reshape(-1)]
        full = t.full.astype(float)
        part = amount / full[t.set_of]
        self.parts = csr_array((part, (t.entry, t.set_of)), shape=(n, m))
        self.back = csr_array(self.parts.T)
        seen = t.held.astype(np.int64) @ hands.members.T.astype(np.int64) > 0
        self.past = np.flatnonzero(seen.any(axis=1))
        self.seen = seen[self.past].astype(float)
        self.own = self.parts[self.past]
        self.base = np.asarray(self.own.T @ self.seen)
        self.full, self.pool = t.full, max(1, problem.coalitions.any_m)
        whole = np.bincount(t.set_of, t.amount, m).astype(np.int64)
        self.gcd = np.ones(m, np.int64)
        filled = np.flatnonzero(np.diff(t.start) > 0)
        if len(filled):
            self.gcd[filled] = np.gcd.reduceat(t.amount, t.start[filled])
        self.gcd = np.where(t.classes, 1, np.maximum(self.gcd, 1))
        self.most = np.where(t.classes, t.full, whole)
        self.below = ((t.full - 1) // self.gcd * self.gcd / t.full)[:, None]

    def caps(self, cap: Ints, beyond: Ints) -> Floats:
        """Highest loads where each hand of any m may see ``cap`` (m,), shape (m, h)."""
        each, m = self.gcd, self.pool
        cap = np.minimum(cap, self.most) // each * each
        share = cap // (m * each) * each
        high = np.minimum(cap[:, None] + share[:, None] * beyond, self.most[:, None])
        return np.asarray(high / self.full[:, None])
