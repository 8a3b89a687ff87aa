"""Sets of two as a graph, and its edges covered by cliques.

Entries of a clique are all in conflict: an adversary may be given one of them at most.
One row says what size * (size - 1) / 2 rows of pairs say, and more tightly.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Problem
from policies.model.sets import Measure, SetSystem

Edge = tuple[int, int]


def pairs_only(problem: Problem) -> bool:
    """Whether all limits are "not both of these two", and nothing else counts."""
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
    step = all(m is Measure.STEP for m in sets.measures)
    return bool(sets.n_sets and plain.all() and ones and step)


def covered(problem: Problem) -> tuple[Problem, list[list[int]]]:
    """Return the same problem with a set a clique, and the old sets that each says.

    Trust differs by property, so problems with trusted adversaries stay as they are.
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
    """Cliques that cover all edges, each with the sets that it says; singles first."""
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
    """Grow an edge to a maximal clique, by whoever covers most edges that are left."""
    clique = [a, b]
    able = near[a] & near[b]
    while able:
        fresh = {d: sum((min(c, d), max(c, d)) in left for c in clique) for d in able}
        room = {d: len(near[d] & able) for d in able}
        chosen = -max((fresh[d], room[d], -d) for d in able)[2]
        clique.append(chosen)
        able = able & near[chosen]
    return sorted(clique)
