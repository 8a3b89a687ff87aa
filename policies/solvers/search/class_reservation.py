"""CLASS RESERVATION: which classes each adversary should keep away from.

Under a rule like "any name with any disease of one patient" an adversary can serve
names or diseases, never both. If a patient has more copies than there are adversaries,
spreading the names over all of them would leave nobody for a disease, or only as many
as a repair frees: then one task that is returned can never be given to another worker.
So every adversary is assigned a class in advance, in shares that follow the square root
of the copies. (Balancing load would take the copies themselves, balancing spare
adversaries equal shares. Of 270 classes of patients with 20 to 60 names, fewer reasons
and drugs, 6 to 16 adversaries and 1 to 3 copies, every entry could be returned once on
223, on 243 with roots, and on 252.) A reservation is a preference of the greedy search,
never a limit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations, product
from math import comb, prod, sqrt
from typing import Final

import numpy as np

from policies.model.problem import Problem
from policies.model.sets import Bools, Ints

MOST_CHOICES: Final = 256
"""Choices weighed for one group of sets, at most; groups with more get none.

Groups of Synthea backlogs of 60 and 100 patients have 2 or 4: it bounds the time of others.
"""

Place = tuple[int, int]  # set, class
Kind = frozenset[Place]  # entries with the same places are of one kind


@dataclass(frozen=True)
class _Group:
    """Sets of classes that share entries.

    Attributes
    ----------
    sets : list of int
    kinds : dict of Kind to list of int
        Entries of each kind.
    """

    sets: list[int]
    kinds: dict[Kind, list[int]]


class ClassReservation:
    """The reserved class of every adversary, for every group of sets of classes.

    Parameters
    ----------
    problem : Problem
        Adversaries keep the class that their history puts them in.
    rng : Generator
        Decides which adversary gets which class.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._mask_of: dict[int, Bools] = {}
        crowded = _crowded(problem)
        if not len(crowded):
            return
        for group in _groups(crowded, _places(problem, crowded)):
            self._take_sides(problem, group, rng)

    def away(self, entry: int) -> Bools | None:
        """Mask of the adversaries not meant for the entry; None if all are."""
        return self._mask_of.get(entry)

    def _take_sides(
        self, problem: Problem, group: _Group, rng: np.random.Generator
    ) -> None:
        choices = _choices(problem, group)
        if len(choices) < 2:
            return
        kinds = list(group.kinds)
        serves = np.array([[not kind & c for kind in kinds] for c in choices])
        holds = _holds(problem, group)
        most = max(int(problem.lo[e].max()) for e in group.kinds.values())
        floor = min(most, problem.n_adversaries // len(kinds))
        weight = np.array([sqrt(problem.lo[group.kinds[k]].sum()) for k in kinds])
        kept = np.zeros(len(kinds))
        away = np.zeros((len(kinds), problem.n_adversaries), np.bool_)
        order = rng.permutation(problem.n_adversaries).tolist()
        for a in sorted(order, key=lambda a: a not in holds):
            worth = serves @ (weight / (1 + kept) + 1e9 * (kept < floor))
            against = [len(c & holds.get(a, frozenset())) for c in choices]
            chosen = int(np.lexsort((-worth, np.array(against)))[0])
            kept += serves[chosen]
            away[:, a] = ~serves[chosen]
        for kind, mask in zip(kinds, away, strict=True):
            self._mask_of.update(dict.fromkeys(group.kinds[kind], mask))


def _crowded(problem: Problem) -> Ints:
    """Sets of classes with more copies than half the adversaries, or with history."""
    sets, k = problem.sets, problem.n_adversaries
    if not sets.classes.any() or not k:
        return np.empty(0, np.int64)
    shown = np.zeros(problem.n_entries)
    shown[problem.history.entry] = 1
    copies, before = (
        np.bincount(sets.member_set, column[sets.entry], sets.n_sets)
        for column in (problem.lo, shown)
    )
    return np.flatnonzero(
        sets.classes & (copies > 0) & ((2 * copies > k) | (before > 0))
    )


def _places(problem: Problem, chosen: Ints) -> dict[int, list[Place]]:
    """Return the chosen sets that each entry is in, with its class there."""
    sets = problem.sets
    found: dict[int, list[Place]] = defaultdict(list)
    for one in chosen.tolist():
        rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
        pairs = zip(sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True)
        for entry, number in pairs:
            found[entry].append((one, number))
    return found


def _groups(chosen: Ints, places: dict[int, list[Place]]) -> list[_Group]:
    """Group the sets that share an entry."""
    parent = {one: one for one in chosen.tolist()}

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = one = parent[parent[one]]
        return one

    for its in places.values():
        for one, _ in its[1:]:
            parent[root(one)] = root(its[0][0])
    members: dict[int, dict[Kind, list[int]]] = defaultdict(lambda: defaultdict(list))
    for entry, its in places.items():
        members[root(its[0][0])][frozenset(its)].append(entry)
    sets: dict[int, list[int]] = defaultdict(list)
    for one in parent:
        sets[root(one)].append(one)
    return [_Group(sets[one], dict(kinds)) for one, kinds in members.items()]


def _choices(problem: Problem, group: _Group) -> list[Kind]:
    """Return ways to avoid enough classes of every set to stay below its cap."""
    found: list[list[tuple[Place, ...]]] = []
    classes: dict[int, set[int]] = defaultdict(set)
    for kind in group.kinds:
        for one, number in kind:
            classes[one].add(number)
    spare = {one: len(classes[one]) - int(problem.sets.cap[one]) for one in group.sets}
    tight = [one for one in group.sets if 0 < spare[one] <= len(classes[one])]
    if prod(comb(len(classes[s]), spare[s]) for s in tight) > MOST_CHOICES:
        return []
    for one in tight:
        ways = combinations(sorted(classes[one]), spare[one])
        found.append([tuple((one, number) for number in way) for way in ways])
    return [frozenset(p for way in ways for p in way) for ways in product(*found)]


def _holds(problem: Problem, group: _Group) -> dict[int, Kind]:
    """Return the places of the group of which each adversary holds an entry."""
    kind_of = {e: kind for kind, entries in group.kinds.items() for e in entries}
    held: dict[int, set[Place]] = defaultdict(set)
    history = problem.history
    for entry, a in zip(
        history.entry.tolist(), history.adversary.tolist(), strict=True
    ):
        if entry in kind_of:
            held[a] |= kind_of[entry]
    return {a: frozenset(its) for a, its in held.items()}
