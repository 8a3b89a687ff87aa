"""Small components whose limits are all "not both of these two": searched exactly.

That is list colouring with weights: entries that meet share no adversary. Check-ins of
friends fall into a thousand components of a handful of entries; a model for each would
cost more than the search. Weights are integers, so the optimum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.solvers.exact.edge_cliques import pairs_only
from policies.solvers.interfaces import Solution, Verdict

MOST: Final = 40  # entries of a component
WIDE: Final = 12  # adversaries: choices are subsets of them
NODES: Final = 3_000


def small(problem: Problem) -> bool:
    """Whether this search is for the problem."""
    return (
        problem.n_entries <= MOST
        and problem.n_adversaries <= WIDE
        and not len(problem.history)
        and not problem.coalitions
        and problem.trusted is None
        and problem.capacity is None
        and pairs_only(problem)
    )


def searched(problem: Problem) -> Solution | None:
    """Return the optimum; None where there is no plan, or after ``NODES`` nodes.

    Parameters
    ----------
    problem : Problem
        One that is :func:`small`.
    """
    search = _Search(problem)
    if not search.run() or search.best < 0:
        return None
    value: Fraction = search.best * problem.weights.unit
    pairs = [
        (d, a)
        for d, mask in enumerate(search.plan)
        for a in range(search.k)
        if mask >> a & 1
    ]
    return Solution(
        Verdict.SOLVED,
        Plan.of(pairs),
        value=value,
        bound=value,
        tried=("components of pairs, searched",),
        stopped="optimal",
    )


@dataclass
class _Search:
    """Depth first; an entry with the fewest adversaries left comes next."""

    problem: Problem
    best: int = -1
    plan: list[int] = field(default_factory=list)
    nodes: int = 0

    def __post_init__(self) -> None:
        problem = self.problem
        n = problem.n_entries
        self.k = problem.n_adversaries
        self.lo, self.hi = problem.lo.tolist(), problem.hi.tolist()
        self.worth = [problem.weights.row(d).tolist() for d in range(n)]
        bits = 1 << np.arange(self.k)
        self.free: list[int] = (able(problem) * bits).sum(axis=1).tolist()
        self.near: list[set[int]] = [set() for _ in range(n)]
        sets = problem.sets
        for one in range(sets.n_sets):
            members = sets.members(one).tolist()
            if len(members) == 2:
                a, b = members
                self.near[a].add(b)
                self.near[b].add(a)
        self.chosen = [0] * n
        self._top: list[dict[int, int]] = [{} for _ in range(n)]
        self._choices: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(n)]

    def run(self) -> bool:
        """Search; whether it was done to the end."""
        self._deepen(0, set(range(len(self.free))))
        return self.nodes <= NODES

    def _ceiling(self, d: int, mask: int) -> int:
        """Return the most that an entry can be worth within a mask; -1: too few."""
        known = self._top[d]
        if mask not in known:
            found = [w for a, w in enumerate(self.worth[d]) if mask >> a & 1]
            found.sort(reverse=True)
            short = len(found) < self.lo[d]
            known[mask] = -1 if short else sum(found[: self.hi[d]])
        return known[mask]

    def _subsets(self, d: int, mask: int) -> list[tuple[int, int]]:
        """(worth, choice) within a mask, best first."""
        known = self._choices[d]
        if mask not in known:
            out = [(0, 0, 0)]
            for a in range(self.k):
                if mask >> a & 1:
                    w = self.worth[d][a]
                    out += [
                        (v + w, c | 1 << a, size + 1)
                        for v, c, size in out
                        if size < self.hi[d]
                    ]
            kept = [(v, c) for v, c, size in out if size >= self.lo[d]]
            known[mask] = sorted(kept, key=lambda x: (-x[0], x[1].bit_count(), x[1]))
        return known[mask]

    def _deepen(self, value: int, left: set[int]) -> None:
        """Give the entries that are left all that may still beat the best plan."""
        self.nodes += 1
        if self.nodes > NODES:
            return
        tops = {d: self._ceiling(d, self.free[d]) for d in left}
        total = value + sum(tops.values())
        if min(tops.values(), default=0) < 0 or total <= self.best:
            return
        loose = self._loose(left)
        if loose is not None:
            for d in left:
                self.chosen[d] = loose[d]
            self.best, self.plan = total, self.chosen.copy()
            return
        d = min(left, key=lambda e: (self.free[e].bit_count(), -len(self.near[e]), e))
        rest = left - {d}
        others = total - value - tops[d]
        near = [e for e in self.near[d] if e in rest]
        for worth, choice in self._subsets(d, self.free[d]):
            if value + worth + others <= self.best or self.nodes > NODES:
                return
            before = [self.free[e] for e in near]
            for e in near:
                self.free[e] &= ~choice
            self.chosen[d] = choice
            self._deepen(value + worth, rest)
            for e, mask in zip(near, before, strict=True):
                self.free[e] = mask

    def _loose(self, left: set[int]) -> dict[int, int] | None:
        """Everybody's best choice, if none of them meet."""
        first = {d: self._subsets(d, self.free[d])[0][1] for d in left}
        for d in left:
            for e in self.near[d]:
                if e in left and first[d] & first[e]:
                    return None
        return first
