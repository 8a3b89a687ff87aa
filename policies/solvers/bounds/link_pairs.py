"""Lower bounds on what a conflicting pair of entries discloses of a link.

A cosine is the sum over the places at which both ends are held, divided by the lengths
of what is held of either end. Those lengths are at most the lengths of all that could
ever be held. So each pair adds at least a fixed part: disclosure of links is bounded
from below by a weighted count of pairs, which decomposes by components of pairs.

A limit that history exceeds for good, whatever else is given (:func:`outgrown`), is
found in the same way: a cosine falls again when more of one end is held, so the present
value is not enough. With M the lengths of all that could ever be held, it stays at or
above the product of what is held, divided by M.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Final

import numpy as np

from policies.model.links import (
    LinkMeasure,
    Links,
    LinkSimilarity,
    conflict_sets,
    link_similarities,
)
from policies.model.problem import Pairs, Problem
from policies.model.sets import Bools, Ints, SetSystem
from policies.solvers.interfaces import Cause, Clash

BITS: Final = 40
"""Parts are rounded down to multiples of 2^-BITS."""


@dataclass(frozen=True, eq=False)
class LinkPairs:
    """Pairs of entries in conflict, each once.

    Attributes
    ----------
    sets : SetSystem
        The pairs as sets of two; of one, where a link joins an entry to itself.
    part : list of int
        By pair: a lower bound, summed over all links, on their disclosure to its
        holder, times 2^BITS, rounded down.
    worst : list of Fraction
        By pair: a lower bound on the squared disclosure of some link to its holder.
    before : bool array, shape (pairs,)
        Pairs that somebody held whole before.
    """

    sets: SetSystem
    part: list[int]
    worst: list[Fraction]
    before: Bools

    @classmethod
    def of(cls, problem: Problem) -> LinkPairs:
        """Return all pairs; those that could never be held count too."""
        links = problem.links
        assert links is not None
        sets = conflict_sets(links)
        number = {
            (int(members[0]), int(members[-1])): one
            for one, members in enumerate(map(sets.members, range(sets.n_sets)))
        }
        length = lengths(problem, links)
        link, left, right = links.conflicts()
        times = np.bincount(link, minlength=links.n_links).tolist()
        count = links.count.tolist()
        part, worst = [0] * len(number), [Fraction(0)] * len(number)
        for one, d, e in zip(link.tolist(), left.tolist(), right.tolist(), strict=True):
            at = number[min(d, e), max(d, e)]
            if links.relation is LinkMeasure.COMMON:
                part[at] += (1 << BITS) // times[one]
                square = Fraction(1)
            else:
                square = Fraction((count[d] * count[e]) ** 2, max(length[one], 1))
                part[at] += int(root_down(square) * 2**BITS)
            worst[at] = max(worst[at], square)
        return cls(sets, part, worst, _whole_before(problem, sets))

    def kept_apart(self, chosen: Bools) -> SetSystem:
        """Return these pairs as sets, without those that somebody held whole before."""
        every = np.arange(self.sets.n_entries)
        return self.sets.select(every, np.flatnonzero(chosen & ~self.before))


def _whole_before(problem: Problem, sets: SetSystem) -> Bools:
    """Mask of the sets that some observer held whole before, shape (sets,)."""
    before = problem.held(problem.history)
    observers = problem.n_adversaries + len(problem.groups)
    grid = np.zeros((problem.n_entries, observers), np.int64)
    grid[before.entry, before.adversary] = 1
    held = np.zeros((sets.n_sets, observers), np.int64)
    np.add.at(held, sets.member_set, grid[sets.entry])
    whole: Bools = (held == np.diff(sets.start)[:, None]).any(axis=1)
    return whole


def lengths(problem: Problem, links: Links) -> list[int]:
    """Product of both ends' squared lengths, of all that can be held, by link."""
    can = problem.hi > 0
    can[problem.history.entry] = True
    count = np.where(can, links.count, 0).tolist()
    ends = [[0, 0] for _ in range(links.n_links)]
    rows = zip(
        links.link.tolist(), links.side.tolist(), links.entry.tolist(), strict=True
    )
    for link, side, d in rows:
        ends[link][side] += count[d] ** 2
    return [left * right for left, right in ends]


def root_down(square: Fraction) -> Fraction:
    """Return the root of a number from 0 to 1, rounded down to a multiple of 2^-BITS."""
    whole = 1 << BITS
    root = isqrt((square.numerator << 2 * BITS) // square.denominator)
    return Fraction(min(root, whole), whole)


def members(problem: Problem, chosen: Ints) -> Ints:
    """Return the entries of these links, ascending."""
    links = problem.links
    assert links is not None
    return np.unique(links.entry[np.isin(links.link, chosen)])


def outgrown(problem: Problem) -> Iterator[Clash]:
    """Yield a clash for the first limit of each kind that is exceeded for good.

    Parameters
    ----------
    problem : Problem
        With limited links; a limit on an aggregate is not checked.
    """
    links = problem.links
    assert links is not None
    before, length = problem.held(problem.history), lengths(problem, links)
    seen = [
        (one, _least(one, links.relation, length[one.link]))
        for one in link_similarities(links, before.entry, before.adversary)
    ]
    if links.tau is not None:
        past = (one for one, square in seen if square >= links.tau**2)
        yield from (_clash(problem, before, [one]) for one in past)
    if links.mean_tau is None:
        return
    by_observer: dict[int, list[tuple[LinkSimilarity, Fraction]]] = defaultdict(list)
    for one, square in seen:
        by_observer[one.observer].append((one, root_down(square)))
    over = problem.goal.over or links.n_links
    for parts in by_observer.values():
        if sum(root for _, root in parts) >= links.mean_tau * over:
            yield _clash(problem, before, [one for one, _ in parts])


def _least(seen: LinkSimilarity, relation: LinkMeasure, length: int) -> Fraction:
    """Return a lower bound on the square of what this observer will see of this link."""
    if relation is LinkMeasure.COMMON:
        return Fraction(1)
    return Fraction(seen.dot**2, length)


def _clash(problem: Problem, before: Pairs, seen: list[LinkSimilarity]) -> Clash:
    """Return a clash of the links, and of what the observer holds of them."""
    chosen = sorted({one.link for one in seen})
    mine = before.entry[before.adversary == seen[0].observer]
    inside = np.intersect1d(members(problem, np.array(chosen)), mine)
    return Clash(
        Cause.HISTORY, properties=tuple(chosen), entries=tuple(inside.tolist())
    )
