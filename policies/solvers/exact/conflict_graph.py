"""CLIQUE: limits that all read "not both of these two", as a conflict graph.

Where every sensitive set is a pair (friends' entries at one place, the edges of a graph),
a plan is a list colouring with weights: entries in conflict share no adversary.

* Entries of a clique are all in conflict, so an adversary may be given at most one of
  them: sum of x_da over the clique <= 1. That one row replaces the size (size - 1) / 2
  rows x_da + x_ea <= 1, with the same integer solutions, and cuts off the fractional
  ones of 1/2 each (clique inequalities: Padberg, On the facial structure of set packing
  polyhedra, 1973).
* Check-ins of friends fall into a thousand components of a handful of entries, where a
  model would cost more than the search: depth-first search solves them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.model.sets import SetSystem
from policies.solvers.interfaces import Limits, Solution, Solver, Verdict, answer

Edge = tuple[int, int]

MOST: Final = 40  # entries of a component that is searched, at most
WIDE: Final = 12  # adversaries, at most: choices are subsets of them
NODES: Final = 3_000
"""Nodes of one component's search, at most; beyond it is solved like any other.

1,000 and 9,000 end in the same plans in the same CPU seconds: five seeds of 400 drawn
check-ins (:mod:`benchmarks.paper_data`), three adversaries.
"""


@dataclass(frozen=True)
class Clique:
    """Exact for sets of two, with any number of entries, by components.

    Attributes
    ----------
    solver : Solver
        Solves by components, and over cliques within them.
    """

    solver: Solver

    def supports(self, problem: Problem) -> bool:
        """Whether all limits read "not both of these two"."""
        return pairs_only(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve over cliques; the plan is judged over the pairs."""
        found = self.solver(problem, rng, limits)
        if found.verdict is not Verdict.SOLVED:
            return found
        return answer(
            problem,
            found.plan,
            bound=found.bound,
            tried=("cliques by component",),
            stopped=found.stopped,
        )


def pairs_only(problem: Problem) -> bool:
    """Whether all limits read "not both of these two", and nothing else counts."""
    sets = problem.sets
    links = problem.links
    if problem.utilities is not None:
        return False
    if links is not None and links.limited:
        return False
    if problem.goal.objective is not Objective.DISC_BUDGET or problem.averages:
        return False
    size = np.diff(sets.start)
    plain = (size <= 2) & (sets.cap == size - 1) & ~sets.classes & (sets.full == size)
    ones = bool((sets.amount == 1).all())
    step = sets.has_only_steps
    return bool(sets.n_sets and plain.all() and ones and step)


def covered(problem: Problem) -> tuple[Problem, list[list[int]]]:
    """Return the same problem with one set a clique, and the old sets of each clique.

    Trust differs by property, so problems with trusted adversaries are left as they
    are.
    """
    sets = problem.sets
    same = [[one] for one in range(sets.n_sets)]
    if problem.trusted is not None or problem.coalitions:
        return problem, same
    groups = _cover(sets)
    size = np.array([len(entries) for entries, _ in groups], np.int64)
    cliques = SetSystem(
        n_entries=sets.n_entries,
        properties=sets.properties,
        measures=sets.measures,
        owner=sets.owner[np.array([says[0] for _, says in groups], np.int64)],
        start=np.concatenate([[0], np.cumsum(size)]),
        entry=np.array([d for entries, _ in groups for d in entries], np.int64),
        amount=np.ones(int(size.sum()), np.int64),
        cap=np.minimum(size - 1, 1),
        full=np.minimum(size, 2),
        classes=np.zeros(len(groups), np.bool_),
    )
    return replace(problem, sets=cliques), [says for _, says in groups]


def _cover(sets: SetSystem) -> list[tuple[list[int], list[int]]]:
    """Return cliques that cover all edges, each with the sets it implies; singles first."""
    near: dict[int, set[int]] = defaultdict(set)
    number: dict[Edge, int] = {}
    found: list[tuple[list[int], list[int]]] = []
    for one in range(sets.n_sets):
        members = sorted(sets.members(one).tolist())
        if len(members) < 2:
            found.append((members, [one]))
            continue
        a, b = members
        near[a].add(b)
        near[b].add(a)
        number[a, b] = one
    left = dict(number)
    for a, b in number:
        if (a, b) not in left:
            continue
        clique = _grown(a, b, near, left)
        says = []
        for i, c in enumerate(clique):
            for d in clique[i + 1 :]:
                says.append(number[c, d])
                left.pop((c, d), None)
        found.append((clique, says))
    return found


def _grown(
    a: int, b: int, near: dict[int, set[int]], left: dict[Edge, int]
) -> list[int]:
    """Grow an edge to a maximal clique by the entry that covers most remaining edges."""
    clique = [a, b]
    able = near[a] & near[b]
    while able:
        fresh = {d: sum((min(c, d), max(c, d)) in left for c in clique) for d in able}
        room = {d: len(near[d] & able) for d in able}
        chosen = -max((fresh[d], room[d], -d) for d in able)[2]
        clique.append(chosen)
        able = able & near[chosen]
    return sorted(clique)


def small(problem: Problem) -> bool:
    """Whether a problem is small enough for this search."""
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
        Must be :func:`small`.
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
    """Depth-first branch and bound on the entry with the fewest remaining adversaries.

    A node's bound is its value plus the sum over the remaining entries of the most that
    each could add alone, with its conflicts ignored. That is a relaxation, so a node
    whose bound is not above the best plan contains no better one. Choices of an entry
    are tried best first, so the first that fails ends its node. If the best choices of
    all entries do not conflict, the bound is reached. Weights are integers: nothing is
    rounded, and a search that ends within ``NODES`` proves its optimum.
    """

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
        """Search; return whether the search was completed."""
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
        """Assign the remaining entries in all ways that may still beat the best plan."""
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
        """Return everybody's best choice, if none of them conflict."""
        first = {d: self._subsets(d, self.free[d])[0][1] for d in left}
        for d in left:
            for e in self.near[d]:
                if e in left and first[d] & first[e]:
                    return None
        return first
