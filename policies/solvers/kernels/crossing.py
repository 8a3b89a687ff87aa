"""Annealing across limits: a hand may be past a limit on the way, at a fixed price.

Plain functions, compiled. A step of a few sets costs some fifty nanoseconds: nothing is
kept but loads, and nothing is looked through.
"""

from __future__ import annotations

from math import log
from typing import Final, NamedTuple

from policies.solvers.kernels.array_types import Bools2, Floats, Floats2, Ints, Ints2

DRAWS: Final = 5
"""Numbers for a step: entry, adversary, move or more, which copy goes, whether taken."""

EVEN: Final = 0.5  # chance that a copy moves where one more could be given, too

# places of numbers
PRICE, HEAT, WORTH, BEST, SIZE = range(5)

ENTRY_POINTS: Final = ("walk",)


class State(NamedTuple):
    """What changes with the plan; n entries, k adversaries, m sets.

    Attributes
    ----------
    chosen, best : bool array, shape (n, k)
        The plan, and the best one that was past no limit.
    degree : int64 array, shape (n,)
    load : int64 array, shape (m, k)
    over : int64 array, shape (1,)
        By how much loads are past limits, in all.
    """

    chosen: Bools2
    best: Bools2
    degree: Ints
    load: Ints2
    over: Ints


class Fixed(NamedTuple):
    """What does not.

    Attributes
    ----------
    start, unit, part
        Sets of each entry, and its part of their loads (CSR).
    cap : int64 array, shape (m, k)
    may : bool array, shape (n, k)
    lo, hi : int64 array, shape (n,)
    worth : float64 array, shape (n, k)
    """

    start: Ints
    unit: Ints
    part: Ints
    cap: Ints2
    may: Bools2
    lo: Ints
    hi: Ints
    worth: Floats2


def change(
    s: State, it: Fixed, d: int, b: int, one: float, two: float
) -> tuple[int, int]:
    """Draw a change of entry d: who loses it and who gets it, -1 for nobody."""
    degree = s.degree[d]
    if s.chosen[d, b]:
        return (b if degree > it.lo[d] else -1), -1
    if not it.may[d, b]:
        return -1, -1
    if degree < it.hi[d] and (one < EVEN or degree == 0):
        return -1, b
    skip = int(two * degree)
    for a in range(s.chosen.shape[1]):
        if s.chosen[d, a]:
            if skip == 0:
                return a, b
            skip -= 1
    return -1, -1


def crossed(s: State, it: Fixed, d: int, a: int, sign: int) -> int:
    """Return by how much more loads are past limits after giving (1) or taking (-1)."""
    more = 0
    for r in range(it.start[d], it.start[d + 1]):
        q = it.unit[r]
        past = s.load[q, a] - it.cap[q, a]
        more += max(past + sign * it.part[r], 0) - max(past, 0)
    return more


def turn(s: State, it: Fixed, d: int, a: int, sign: int) -> None:
    """Give (sign 1) or take (-1) a pair."""
    s.chosen[d, a] = sign > 0
    s.degree[d] += sign
    for r in range(it.start[d], it.start[d + 1]):
        s.load[it.unit[r], a] += sign * it.part[r]


def keep(s: State, numbers: Floats) -> None:
    """Keep the plan: it is past no limit, and the best so far."""
    numbers[BEST] = numbers[WORTH]
    for d in range(s.chosen.shape[0]):
        for a in range(s.chosen.shape[1]):
            s.best[d, a] = s.chosen[d, a]


def walk(s: State, it: Fixed, numbers: Floats, draws: Floats2) -> None:
    """Make one step for each row of ``draws``, shape (steps, ``DRAWS``)."""
    n, k = it.worth.shape
    for i in range(len(draws)):
        d = int(draws[i, 0] * n)
        b = int(draws[i, 1] * k)
        a, c = change(s, it, d, b, draws[i, 2], draws[i, 3])
        if a < 0 and c < 0:
            continue
        gain, more = 0.0, 0
        if a >= 0:
            gain -= it.worth[d, a]
            more += crossed(s, it, d, a, -1)
        if c >= 0:
            gain += it.worth[d, c]
            more += crossed(s, it, d, c, 1)
        won = gain - numbers[PRICE] * more
        if won < 0.0 and won < numbers[HEAT] * log(max(draws[i, 4], 1e-300)):
            continue
        if a >= 0:
            turn(s, it, d, a, -1)
        if c >= 0:
            turn(s, it, d, c, 1)
        numbers[WORTH] += gain
        s.over[0] += more
        if s.over[0] == 0 and numbers[WORTH] > numbers[BEST]:
            keep(s, numbers)
