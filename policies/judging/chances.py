"""Chances of crossing a limit when each entry's copies are assigned uniformly.

:mod:`policies.judging.certificates` uses these chances. They also give a plan: if fewer
than one crossing is expected, the method of conditional expectations assigns copies one
by one so that the expectation never rises. It ends with a number of crossings, an
integer below 1, so there is none. All numbers are exact rationals.

References
----------
Erdos, Selfridge. On a combinatorial game. J. Combinatorial Theory A 14 (1973).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, prod
from typing import Final

import numpy as np

from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import NO_CAP

LARGEST_DRAW: Final = 200_000
"""Largest number of set members times observers for which chances are computed."""

_MOST_LOADS: Final = 4_000  # distinct loads of one set; above, its chance counts as 1

Observer = frozenset[int]


@dataclass(eq=False)
class Draw:
    """A uniform, independent choice of each entry's adversaries.

    Entry d goes to ``left[d]`` more adversaries of ``pool[d]``.

    Attributes
    ----------
    problem : Problem
    observers : tuple of frozenset of int
        Adversaries and coalitions, without those contained in another one that is
        judged by the same properties.
    judged : dict of frozenset to tuple of bool
        By observer: whether each property is judged for it.
    held : dict of frozenset to frozenset of int
        What each observer held before; observers who held nothing are left out.
    pool : list of set of int
        Adversaries that may still get each entry.
    left : list of int
        Copies still to be given.
    given : list of set of int
        Adversaries that have been given each entry.
    """

    problem: Problem
    observers: tuple[Observer, ...]
    judged: dict[Observer, tuple[bool, ...]]
    held: dict[Observer, frozenset[int]]
    pool: list[set[int]]
    left: list[int]
    given: list[set[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.given = [set() for _ in self.left]

    @classmethod
    def of(cls, problem: Problem) -> Draw | None:
        """Return the draw of ``lo`` copies of every entry; None where it proves nothing.

        It proves nothing about capacities, caps on means and limits on links, nor if an
        entry must go to more adversaries than may have it, nor above
        :data:`LARGEST_DRAW`.
        """
        k, links = problem.n_adversaries, problem.links
        limited = links is not None and links.limited
        if problem.capacity is not None or problem.averages or limited or not k:
            return None
        if len(problem.sets.entry) * (k + len(problem.groups)) > LARGEST_DRAW:
            return None
        pool = [set(range(k)) for _ in range(problem.n_entries)]
        for d, a in _pairs_of(problem.forbidden):
            pool[d].discard(a)
        left = problem.lo.tolist()
        if any(copies > len(may) for copies, may in zip(left, pool, strict=True)):
            return None
        observers, judged = _judged_observers(problem)
        seen: dict[int, set[int]] = {}
        for d, a in _pairs_of(problem.history):
            seen.setdefault(a, set()).add(d)
        held = {
            observer: frozenset().union(*(seen.get(a, ()) for a in observer))
            for observer in observers
            if not observer.isdisjoint(seen)
        }
        return cls(problem, observers, judged, held, pool, left)

    def chances(self) -> tuple[Fraction, ...]:
        """Bound the chance that some observer crosses each set, shape (sets,)."""
        n_sets = self.problem.sets.n_sets
        return tuple(min(self.crossings(one), Fraction(1)) for one in range(n_sets))

    def crossings(self, one: int) -> Fraction:
        """Expected number of observers that cross the set, or add to it when past it.

        Observers of one size have the same chance, unless history, forbidden pairs or
        fixed copies distinguish them.
        """
        sets = self.problem.sets
        owner, members = int(sets.owner[one]), sets.members(one).tolist()
        special = set().union(*(self.given[d] for d in members))
        every = set(range(self.problem.n_adversaries))
        for d in members:
            special |= every - self.pool[d]
        alike: Counter[int] = Counter()
        example: dict[int, Observer] = {}
        total = Fraction(0)
        for observer in self.observers:
            if not self.judged[observer][owner]:
                continue
            if observer in self.held or not special.isdisjoint(observer):
                total += self.chance(one, observer)
            else:
                alike[len(observer)] += 1
                example[len(observer)] = observer
        for size, count in alike.items():
            total += count * self.chance(one, example[size])
        return total

    def chance(self, one: int, observer: Observer) -> Fraction:
        """Chance that this observer crosses the set, or adds to it when past it."""
        sets = self.problem.sets
        cap = int(sets.cap[one])
        if cap == NO_CAP:
            return Fraction(0)
        rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
        members = list(
            zip(sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True)
        )
        before = self.held.get(observer, frozenset())
        held = [w for d, w in members if d in before]
        classed = bool(sets.classes[one])
        base = len(set(held)) if classed else sum(held)
        if base > cap:
            if self.problem.strict_history:
                return Fraction(1)
            missed = (1 - self.reach(d, observer) for d in {d for d, _ in members})
            return 1 - prod(missed, start=Fraction(1))
        fresh = [(d, w) for d, w in members if d not in before]
        if not classed:
            return tail_chance(
                [(w, self.reach(d, observer)) for d, w in fresh], cap - base
            )
        if len({d for d, _ in members}) < len(members):
            return Fraction(1)  # an entry in two classes: they are not independent
        miss: dict[int, Fraction] = {}
        for d, w in fresh:
            if w not in held:
                miss[w] = miss.get(w, Fraction(1)) * (1 - self.reach(d, observer))
        return tail_chance([(1, 1 - m) for m in miss.values()], cap - base)

    def reach(self, entry: int, observer: Observer) -> Fraction:
        """Chance that some member of the observer gets the entry."""
        if not observer.isdisjoint(self.given[entry]):
            return Fraction(1)
        pool, copies = self.pool[entry], self.left[entry]
        others = len(pool) - len(pool & observer)
        return 1 - Fraction(comb(others, copies), comb(len(pool), copies))

    def give(self, entry: int, adversary: int) -> None:
        """Fix one copy of an entry."""
        self.pool[entry].remove(adversary)
        self.given[entry].add(adversary)
        self.left[entry] -= 1

    def take(self, entry: int, adversary: int) -> None:
        """Undo :meth:`give`."""
        self.pool[entry].add(adversary)
        self.given[entry].remove(adversary)
        self.left[entry] += 1


def derandomized_plan(
    problem: Problem, over: Callable[[], bool] = lambda: False
) -> Plan | None:
    """Return a plan by conditional expectations, if fewer than one crossing is expected.

    Each copy goes where the expectation is least. The mean over all adversaries who may
    get it equals the expectation before, so the least never exceeds it (Erdos and
    Selfridge).

    Parameters
    ----------
    problem : Problem
    over : callable
        True once time is over: exact fractions are slow.

    Returns
    -------
    Plan or None
        None if the expectation is 1 or more, is unknown (:meth:`Draw.of`), would have
        to be computed too often, or if time is over.
    """
    draw = Draw.of(problem)
    if draw is None:
        return None
    looks = len(problem.sets.entry) * len(draw.observers) * problem.n_adversaries
    if looks > LARGEST_DRAW:
        return None
    expected = Fraction(0)
    for one in range(problem.sets.n_sets):
        expected += min(draw.crossings(one), Fraction(1))
        if expected >= 1 or over():
            return None
    start, row = problem.sets.by_entry()
    set_of = problem.sets.member_set
    pairs = []
    for entry in range(problem.n_entries):
        around = np.unique(set_of[row[start[entry] : start[entry + 1]]]).tolist()
        while draw.left[entry]:
            if over():
                return None
            costs = []
            for adversary in sorted(draw.pool[entry]):
                draw.give(entry, adversary)
                cost = sum((draw.crossings(one) for one in around), Fraction(0))
                costs.append((cost, adversary))
                draw.take(entry, adversary)
            least = min(costs)[1]
            draw.give(entry, least)
            pairs.append((entry, least))
    return Plan.of(pairs)


def tail_chance(terms: list[tuple[int, Fraction]], room: int) -> Fraction:
    """Chance that the sum of independent random weights exceeds ``room``.

    Parameters
    ----------
    terms : list of (int, Fraction)
        Each weight, and the probability that it counts.
    room : int

    Returns
    -------
    Fraction
        Exact; 1 if there are more than ``_MOST_LOADS`` different sums.
    """
    below: dict[int, Fraction] = {0: Fraction(1)}
    for weight, p in terms:
        if not p or not weight:
            continue
        after: dict[int, Fraction] = {}
        for load, q in below.items():
            after[load] = after.get(load, Fraction(0)) + q * (1 - p)
            if load + weight <= room:
                more = load + weight
                after[more] = after.get(more, Fraction(0)) + q * p
        below = after
        if len(below) > _MOST_LOADS:
            return Fraction(1)
    return 1 - sum(below.values(), Fraction(0))


def _pairs_of(pairs: Pairs) -> list[tuple[int, int]]:
    return list(zip(pairs.entry.tolist(), pairs.adversary.tolist(), strict=True))


def _judged_observers(
    problem: Problem,
) -> tuple[tuple[Observer, ...], dict[Observer, tuple[bool, ...]]]:
    """Return the observers to judge: a member crosses no set that its coalition does not."""
    k = problem.n_adversaries
    every = [frozenset((a,)) for a in range(k)] + [frozenset(g) for g in problem.groups]
    mask = problem.judged()
    n = len(problem.sets.properties)
    judged = {
        observer: (True,) * n if mask is None else tuple(mask[:, i].tolist())
        for i, observer in enumerate(every)
    }
    wide = [observer for observer in every if len(observer) > 1]
    inside = {a for observer in wide for a in observer} if mask is None else set()
    singles = [frozenset((a,)) for a in range(k) if a not in inside]
    return tuple(dict.fromkeys([*singles, *wide])), judged
