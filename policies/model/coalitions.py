"""Coalitions: adversaries who pool what they hold.

An **observer** is an adversary or a coalition: observers 0 .. k - 1 are the adversaries,
the following ones the coalitions. A coalition holds the union of what its members hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations
from math import comb
from typing import Final

import numpy as np

from policies.model.sets import Bools, Ints, InvalidProblem

MOST_COALITIONS: Final = 200_000
"""Largest number of coalitions; a problem with more is refused."""


@dataclass(frozen=True)
class Coalitions:
    """Which adversaries are expected to pool what they hold.

    Attributes
    ----------
    groups : tuple of tuple of int
        Declared groups, each with adversaries once.
    any_m : int
        Every ``any_m`` adversaries are a coalition too; >= 1, and 1 adds none.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    any_m: int = 1

    def __post_init__(self) -> None:
        if self.any_m < 1:
            raise InvalidProblem(f"any_m is {self.any_m}, expected >= 1")

    def __bool__(self) -> bool:
        return bool(self.groups) or self.any_m > 1

    def check(self, k: int) -> None:
        """Raise unless all members are among k adversaries and coalitions are few enough."""
        for group in self.groups:
            for a in group:
                if not 0 <= a < k:
                    raise InvalidProblem(
                        f"a coalition names adversary {a}, expected 0 to {k - 1}"
                    )
        count = comb(k, min(self.any_m, k)) if self.any_m > 1 else 0
        if count > MOST_COALITIONS:
            raise InvalidProblem(
                f"any_m = {self.any_m} of {k} adversaries makes {count} coalitions, "
                f"expected at most {MOST_COALITIONS}"
            )

    def listed(self, k: int) -> tuple[tuple[int, ...], ...]:
        """Return all coalitions of two and more adversaries, each once."""
        found = {tuple(sorted(set(group))) for group in self.groups}
        if self.any_m > 1:
            found |= set(combinations(range(k), min(self.any_m, k)))
        return tuple(sorted(g for g in found if len(g) > 1))


NOBODY: Final = Coalitions()
"""No coalitions."""


def membership(observers: tuple[tuple[int, ...], ...], k: int) -> Bools:
    """Mask of the members of each observer, shape (k + coalitions, k)."""
    table = np.zeros((k + len(observers), k), np.bool_)
    table[:k] = np.eye(k, dtype=np.bool_)
    row, member = _members(observers)
    table[k + row, member] = True
    return table


def sights(observers: tuple[tuple[int, ...], ...], k: int) -> tuple[Ints, Ints]:
    """Return the pairs (adversary, observer) of :func:`membership`, by adversary.

    The observer that is an adversary alone comes first. A table of them would have k x k
    numbers: 37 GB for 200,000 adversaries.
    """
    row, member = _members(observers)
    own, width = np.arange(k), k + len(observers)
    found = np.unique(np.concatenate([own, member]) * width + np.append(own, k + row))
    return found // width, found % width


def _members(observers: tuple[tuple[int, ...], ...]) -> tuple[Ints, Ints]:
    """Return columns: the number of each coalition, and one of its members."""
    sizes = np.array([len(group) for group in observers], np.int64)
    member = np.fromiter(chain.from_iterable(observers), np.int64, int(sizes.sum()))
    return np.repeat(np.arange(len(observers)), sizes), member


def pooled(
    observers: tuple[tuple[int, ...], ...], k: int, entry: Ints, adversary: Ints
) -> tuple[Ints, Ints]:
    """Return the pairs (entry, observer) that adversaries and coalitions hold.

    Parameters
    ----------
    observers : tuple of tuple of int
        The coalitions.
    k : int
        Number of adversaries.
    entry, adversary : int64 array, shape (pairs,)

    Returns
    -------
    entry, observer : int64 array
        A pair may be repeated.
    """
    row, member = _members(observers)
    by_hand = np.argsort(adversary, kind="stable")
    start = np.searchsorted(adversary[by_hand], np.arange(k + 1))
    times = (start[1:] - start[:-1])[member]
    offset = np.repeat(start[:-1][member] - np.cumsum(times) + times, times)
    mine = entry[by_hand[offset + np.arange(len(offset))]]
    holders = np.repeat(k + row, times)
    return np.concatenate([entry, mine]), np.concatenate([adversary, holders])
