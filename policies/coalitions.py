"""Coalitions: adversaries who pool what they hold.

A **hand** is whoever sees together: hands 0 .. k - 1 are the adversaries one by one,
the next ones are the coalitions. A coalition holds the union of what its members hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Final

import numpy as np

from policies.sets import Bools, Ints, InvalidProblem

MOST: Final = 200_000
"""Coalitions that are listed; a problem with more is refused."""


@dataclass(frozen=True)
class Coalitions:
    """Who is expected to pool.

    Attributes
    ----------
    groups : tuple of tuple of int
        Declared groups, each with adversaries once.
    any_m : int
        Every coalition of so many adversaries too, >= 1 (1: none).
    """

    groups: tuple[tuple[int, ...], ...] = ()
    any_m: int = 1

    def __post_init__(self) -> None:
        if self.any_m < 1:
            raise InvalidProblem(f"any_m is {self.any_m}, expected >= 1")

    def __bool__(self) -> bool:
        return bool(self.groups) or self.any_m > 1

    def check(self, k: int) -> None:
        """Raise unless all members are among k adversaries and the list stays short."""
        for group in self.groups:
            for a in group:
                if not 0 <= a < k:
                    raise InvalidProblem(
                        f"a coalition names adversary {a}, expected 0 to {k - 1}"
                    )
        count = comb(k, min(self.any_m, k)) if self.any_m > 1 else 0
        if count > MOST:
            raise InvalidProblem(
                f"any_m = {self.any_m} of {k} adversaries makes {count} coalitions, "
                f"expected at most {MOST}"
            )

    def listed(self, k: int) -> tuple[tuple[int, ...], ...]:
        """Coalitions of two and more, each once."""
        found = {tuple(sorted(set(group))) for group in self.groups}
        if self.any_m > 1:
            found |= set(combinations(range(k), min(self.any_m, k)))
        return tuple(sorted(g for g in found if len(g) > 1))


NOBODY: Final = Coalitions()
"""Nobody pools."""


def membership(hands: tuple[tuple[int, ...], ...], k: int) -> Bools:
    """Who is in which hand, shape (k + coalitions, k): the identity comes first."""
    table = np.zeros((k + len(hands), k), np.bool_)
    table[:k] = np.eye(k, dtype=np.bool_)
    for row, group in enumerate(hands, start=k):
        table[row, list(group)] = True
    return table


def pooled(
    hands: tuple[tuple[int, ...], ...], k: int, entry: Ints, adversary: Ints
) -> tuple[Ints, Ints]:
    """Pairs (entry, hand) of what is held by adversaries and by coalitions.

    Parameters
    ----------
    hands : tuple of tuple of int
        The coalitions.
    k : int
        Number of adversaries.
    entry, adversary : int64 array, shape (pairs,)

    Returns
    -------
    entry, hand : int64 array
        May repeat a pair.
    """
    entries, holders = [entry], [adversary]
    inside = membership(hands, k)[k:]
    for row in range(len(hands)):
        mine = inside[row][adversary]
        entries.append(entry[mine])
        holders.append(np.full(int(mine.sum()), k + row, np.int64))
    return np.concatenate(entries), np.concatenate(holders)
