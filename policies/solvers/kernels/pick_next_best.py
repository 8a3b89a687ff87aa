"""PickNextBest over all pairs: algorithm 3 of the paper (section 5), lazily and exactly.

The f that every pair would give is remembered, and updated where a pick changed it.
Each adversary's entries are visited by weight, which bounds the gain of a pair, so that
most are never examined.
"""

from __future__ import annotations

from math import inf
from typing import Final

from policies.model.problem_arrays import Floats
from policies.solvers.kernels.local_search import ahead, improves, insert, rank
from policies.solvers.kernels.moves import assess, give, risen
from policies.solvers.kernels.plan_state import (
    ADDED,
    BY_MEAN,
    BY_TRIAL,
    BY_WORST,
    CAP,
    CLASSES,
    COUNTED,
    DEGREE,
    ENTRY,
    FULL,
    GIVEN,
    HI,
    KIND,
    LEVEL,
    LINEAR,
    LO,
    MEMBERS,
    NEAR,
    ROOM,
    ROWS,
    STAMP,
    UNIT,
    Candidates,
    F,
    Floats2,
    State,
)

ENTRY_POINTS: Final = ("construct", "pick")


def pick(
    s: State,
    c: Candidates,
    low: int,
    high: int,
    best: Floats2,
) -> int:
    """Find the best pairs of the adversaries ``low`` to ``high - 1`` (algorithm 3).

    Ranges may be searched in parallel: each writes only its own rows of ``memo`` and
    ``known``.

    Parameters
    ----------
    s, c
    low, high : int
    best : float64 array, shape (width, 4)
        Receives the best pairs; their number is returned.
    """
    count = 0
    for a in range(low, high):
        if s.adversary[a, GIVEN] >= s.adversary[a, ROOM]:
            continue
        fresh = c.known[a, 1] == s.total[F]
        if s.average:
            fresh = fresh and c.known[a, 2] == s.other[a]
        if c.known[a, 0] < 0 or not fresh:
            found = sweep(s, c, a, 1, c.memo[a], 0)
            c.known[a, 0] = sweep(s, c, a, 0, c.memo[a], found)
            c.known[a, 1], c.known[a, 2] = s.total[F], s.other[a]
        for j in range(int(c.known[a, 0])):
            p, q, g = c.memo[a, j, 0], c.memo[a, j, 1], c.memo[a, j, 2]
            count = insert(p, q, g, c.memo[a, j, 3], best, count)
    return count


def greatest_fall(s: State, a: int) -> float:
    """Return the most that the objective could gain as a pair lowers f (cosine)."""
    if not s.falling:
        return 0.0
    low = s.other[a] if s.mode == BY_MEAN else 0.0
    return float(s.lambda_ * (s.total[F] - low))


def is_out(s: State, d: int, a: int, short: int) -> bool:
    """Whether a sweep will never want the pair again."""
    if short == 1 and s.entry[d, DEGREE] >= s.entry[d, LO]:
        return True
    return s.chosen[d, a] or not s.able[d, a] or s.entry[d, DEGREE] >= s.entry[d, HI]


def sweep(
    s: State, c: Candidates, a: int, short: int, best: Floats2, count: int
) -> int:
    """Visit one adversary's entries by weight, as long as they could be best.

    ``short`` 1: only the entries that lack copies, which come before all others.

    Why stopping early is exact: a pair lowers f by nothing, or at most by
    :func:`greatest_fall`, so its rank is at best that of its weight with that fall of
    f. Weights fall along the order, so once the bound of an entry, with the lowest id,
    is not ahead of the last of the best, no later entry's is. Where the bound only
    ties, entries of the same weight have rising ids: none of them is ahead.
    """
    n = s.worth.shape[0]
    p, spare = -float(short), greatest_fall(s, a)
    i = c.head[short, a]
    while i < n and is_out(s, c.order[short, a, i], a, short):
        i += 1
    c.head[short, a] = i
    start, holes = i, 0
    while i < n:
        d = c.order[short, a, i]
        pair = d * s.worth.shape[1] + a
        worth = s.worth[d, a]
        if count == len(best):  # could this or a later one still be among the best?
            one, q, g = rank(s.paper, s.lambda_, p, 0.0, worth + spare, 0.0)
            if not ahead(one, q, g, -1.0, best, count - 1):
                break
            if not ahead(one, q, g, float(pair), best, count - 1):
                low, high = i + 1, n  # a tie at most: skip to the first lighter one
                while low < high:
                    middle = (low + high) // 2
                    if s.worth[c.order[short, a, middle], a] < worth:
                        high = middle
                    else:
                        low = middle + 1
                i = low
                continue
        if is_out(s, d, a, short):
            holes += 1
        elif c.open[d, a] and (short == 1) == (s.entry[d, DEGREE] < s.entry[d, LO]):
            f = risen(s, a, c.value[d, a]) - s.total[F]
            one, q, g = rank(s.paper, s.lambda_, p, c.whole[d, a], worth, f)
            if improves(one, q, g):
                count = insert(one, q, g, float(pair), best, count)
        i += 1
    if holes > 16 and 2 * holes > i - start:  # compact the order
        to = i
        for j in range(i - 1, start - 1, -1):
            d = c.order[short, a, j]
            if not is_out(s, d, a, short):
                to -= 1
                c.order[short, a, to] = d
        c.head[short, a] = to
    return count


def forget(s: State, c: Candidates, d: int, a: int) -> None:
    """Mark the adversaries whose best pairs planning (d, a) may have changed."""
    k, width = s.worth.shape[1], c.memo.shape[1]
    for other in range(k):
        count = int(c.known[other, 0])
        again = s.mode == BY_TRIAL or s.careful or other == a
        pair = d * k + other
        for j in range(count):
            if c.memo[other, j, 3] == pair:
                again = True
        if not again and count >= 0 and not is_out(s, d, other, 0):
            short = -1.0 if s.entry[d, DEGREE] < s.entry[d, LO] else 0.0
            most = s.worth[d, other] + greatest_fall(s, other)
            p, q, g = rank(s.paper, s.lambda_, short, 0.0, most, 0.0)
            again = count < width
            if not again:
                again = ahead(p, q, g, float(pair), c.memo[other], count - 1)
        if again:
            c.known[other, 0] = -1.0
    for j in range(s.adversary[a, NEAR], s.adversary[a + 1, NEAR]):
        c.known[c.near[j], 0] = -1.0


def stale(s: State, c: Candidates, d: int, a: int, mark: int) -> int:
    """List the entries whose pairs planning (d, a) may have changed; return how many.

    If a set's load rose for one adversary alone, a member's effect on its other sets is
    unchanged: for such pairs only the new load is evaluated, at once.
    """
    count, alone = 0, len(s.observer) == s.worth.shape[1]  # without coalitions
    for row in range(s.entry[d, ROWS], s.entry[d + 1, ROWS]):
        unit = s.row[row, UNIT]
        kind, full, now = s.unit[unit, KIND], s.unit[unit, FULL], s.load[unit, a]
        simple = alone and kind > CLASSES
        if simple and (s.copies[d, a] != 1 or not s.judged[unit, a]):
            continue  # it was held before, or does not count
        for i in range(s.unit[unit, MEMBERS], s.unit[unit + 1, MEMBERS]):
            e = s.member[i, ENTRY]
            if simple:
                if not c.open[e, a] or s.entry[e, DEGREE] >= s.entry[e, HI]:
                    continue
                held = s.copies[e, a] > 0
                then = now if held else now + s.member[i, ADDED]
                if s.capped and then > s.unit[unit, CAP]:
                    c.open[e, a] = False
                    continue
                if kind <= LINEAR and (held or then < full):
                    worst = kind == LINEAR and s.mode == BY_WORST and not held
                    if worst and s.unit[unit, COUNTED] == 1:
                        c.value[e, a] = max(c.value[e, a], then / full)
                    continue
            if s.entry[e, STAMP] != mark:
                s.entry[e, STAMP] = mark
                c.queue[count] = e
                count += 1
    return count


def construct(
    s: State, c: Candidates, draws: Floats, best: Floats2, start: int, stop: int
) -> int:
    """Plan the best pair, or one of the best, repeatedly (algorithm 2).

    Parameters
    ----------
    s, c
    draws : float64 array, shape (picks,)
        Random numbers that choose among the best.
    best : float64 array, shape (width, 4)
        Scratch for them.
    start, stop : int
        The picks to make. For the first call, ``start`` is -1 and ``stop`` 0: then all
        pairs are evaluated.

    Returns
    -------
    int
        The number of the next pick, or -1 once nothing improves.
    """
    n, k = s.worth.shape
    for i in range(start, stop):
        every = i < 0 or s.mode == BY_TRIAL or s.careful
        count, first, last = n, 0, k
        d, a = -1, -1
        if i >= 0:
            found = pick(s, c, 0, k, best)
            if found == 0:
                return -1
            pair = int(best[int(draws[i] * found), 3])
            d, a = pair // k, pair % k
            give(s, d, a, 1, LEVEL)
            if not every:
                count = stale(s, c, d, a, i + 1)
                first, last = s.adversary[a, NEAR], s.adversary[a + 1, NEAR]
        for j in range(count):
            e = j if every else c.queue[j]
            for m in range(first, last):
                b = m if every else c.near[m]
                if s.entry[e, DEGREE] >= s.entry[e, HI] or s.chosen[e, b]:
                    continue
                blocked, value, whole = assess(s, e, b, True, inf)
                c.open[e, b] = not blocked
                if not blocked:
                    c.value[e, b], c.whole[e, b] = value, whole
        if i >= 0:
            forget(s, c, d, a)
    return stop
