"""Searching over pairs: the paper's algorithms 2, 3 and 4 as kernels.

A candidate has a rank (p, q, g): copies that become missing, units that come to f = 1,
and what the objective gains; lower p, then lower q, then higher g, then the lower id
``d * k + a`` is better. That order is total, so no order of looking changes a choice.
In mode paper p = q = 0 and missing copies are a penalty in g (section 5, G - C).
"""

from __future__ import annotations

from typing import Final

from policies.model.sets import Ints
from policies.solvers.kernels.changes import (
    back,
    crossed,
    give,
    keep,
    look,
    risen,
    settle,
    wall,
)
from policies.solvers.kernels.tape import (
    AVERAGE,
    CAREFUL,
    CHOSEN,
    DEGREE,
    GIVEN,
    HI,
    LAMBDA,
    LEVEL,
    LO,
    MISSING,
    PAPER,
    ROOM,
    ROW_START,
    ROW_UNIT,
    SAVED,
    SEEN,
    SEEN_START,
    UNIT_ENTRY,
    UNIT_START,
    WHOLE,
    WORTH,
    F,
    Floats,
    K,
    N,
    U,
)

EPS: Final = 1e-12  # a gain below it is no gain: floats can not tell


def rank(
    z: Ints, r: Floats, missing: float, whole: float, u: float, f: float
) -> tuple[float, float, float]:
    """Return (p, q, g) of these changes."""
    g = u - r[LAMBDA] * f
    if z[PAPER] == 1:
        return 0.0, 0.0, g - missing
    return missing, whole, g


def improves(p: float, q: float, g: float) -> bool:
    """Whether a rank is better than leaving things as they are."""
    if p != 0.0:
        return p < 0.0
    if q != 0.0:
        return q < 0.0
    return g > EPS


def ahead(p: float, q: float, g: float, one: float, other: Floats) -> bool:
    """Whether a candidate comes before another one (p, q, g, id)."""
    if p != other[0]:
        return bool(p < other[0])
    if q != other[1]:
        return bool(q < other[1])
    if g != other[2]:
        return bool(g > other[2])
    return bool(one < other[3])


def insert(p: float, q: float, g: float, one: float, top: Floats, count: int) -> int:
    """Put a candidate into the list of the best; return how many there are."""
    if count == len(top) and not ahead(p, q, g, one, top[count - 1]):
        return count
    count = min(count + 1, len(top))
    at = count - 1
    while at > 0 and ahead(p, q, g, one, top[at - 1]):
        for j in range(4):
            top[at, j] = top[at - 1, j]
        at -= 1
    top[at, 0], top[at, 1], top[at, 2], top[at, 3] = p, q, g, one
    return count


def myopic(z: Ints, r: Floats, order: Ints, draws: Floats, top: Floats) -> int:
    """Give each entry of the order its next best adversary (section 5, extensions).

    Returns how many entries got one.
    """
    k = z[K]
    made = 0
    for i in range(len(order)):
        d = order[i]
        count = 0
        if z[z[DEGREE] + d] < z[z[HI] + d]:
            short = -1.0 if z[z[DEGREE] + d] < z[z[LO] + d] else 0.0
            for a in range(k):
                if not wall(z, r, d, a):
                    value, whole = look(z, r, d, a)
                    f = risen(z, r, a, value) - r[F]
                    p, q, g = rank(z, r, short, whole, r[z[WORTH] + d * z[K] + a], f)
                    if improves(p, q, g):
                        count = insert(p, q, g, float(a), top, count)
        if count > 0:
            give(z, r, d, int(top[int(draws[i] * count), 3]), 1)
            made += 1
    return made


def deal(z: Ints, r: Floats, order: Ints, ranked: Ints, most: Ints) -> None:
    """Give each entry to the first adversaries of its row that may have it, ``most[d]``."""
    for i in range(len(order)):
        d = order[i]
        for j in range(ranked.shape[1]):
            if z[z[DEGREE] + d] >= most[d]:
                break
            if not wall(z, r, d, ranked[d, j]):
                give(z, r, d, ranked[d, j], 1)


def adding(z: Ints, r: Floats, d: int, but: int, base: Floats, best: Floats) -> None:
    """Rank the neighbours that add the entry to an adversary; ``best`` keeps the best.

    ``base`` is what has changed before: missing, whole, u, f at the start, and the
    adversary whom the entry was taken from (or -1).
    """
    short = -1.0 if z[z[DEGREE] + d] < z[z[LO] + d] else 0.0
    if z[z[DEGREE] + d] >= z[z[HI] + d]:
        return
    for a in range(z[K]):
        if a == but or wall(z, r, d, a):
            continue
        value, whole = look(z, r, d, a)
        f = risen(z, r, a, value) - base[3]
        p, q, g = rank(
            z,
            r,
            base[0] + short,
            base[1] + whole,
            base[2] + r[z[WORTH] + d * z[K] + a],
            f,
        )
        better(p, q, g, but, a, best)


def better(p: float, q: float, g: float, gone: int, new: int, best: Floats) -> None:
    """Keep a neighbour if it is better than the best; ties keep what was first."""
    if improves(p - best[0], q - best[1], g - best[2]):
        best[0], best[1], best[2], best[3], best[4] = p, q, g, gone, new


def local(z: Ints, r: Floats, order: Ints, base: Floats, best: Floats) -> int:
    """Move to the best neighbour, entry by entry (algorithm 4); return the moves.

    Neighbours: the entry added to one more adversary, taken from one, or moved. The
    plan as it is comes first, so that a tie changes nothing. ``base`` and ``best`` are
    scratch, of 4 and 5 numbers.
    """
    moves = 0
    for i in range(len(order)):
        d = order[i]
        best[0], best[1], best[2], best[3], best[4] = 0.0, 0.0, 0.0, -1.0, -1.0
        base[0], base[1], base[2], base[3] = 0.0, 0.0, 0.0, r[F]
        adding(z, r, d, -1, base, best)
        for a in range(z[K]):
            if z[z[CHOSEN] + d * z[K] + a]:
                taking(z, r, d, a, base, best)
        if best[3] >= 0:
            give(z, r, d, int(best[3]), -1)
        if best[4] >= 0:
            give(z, r, d, int(best[4]), 1)
        moves += 1 if best[3] >= 0 or best[4] >= 0 else 0
    return moves


def taking(z: Ints, r: Floats, d: int, a: int, base: Floats, best: Floats) -> None:
    """Rank the neighbours that take the entry from an adversary."""
    missing, whole = r[MISSING], r[WHOLE]
    keep(z, r, a, 0)
    give(z, r, d, a, -1)
    base[0] = r[MISSING] - missing
    base[1] = r[WHOLE] - whole
    base[2] = -r[z[WORTH] + d * z[K] + a]
    if z[CAREFUL] == 0 or not crossed(z, r, d, a):
        p, q, g = rank(z, r, base[0], base[1], base[2], r[F] - base[3])
        better(p, q, g, a, -1, best)
        adding(z, r, d, a, base, best)
    back(z, r, d, a, -1, 0)


def swap(z: Ints, r: Floats, order: Ints) -> int:
    """Exchange what two adversaries hold, entry by entry; return the exchanges.

    Partners: entries of a common unit, and all entries of an adversary who is full.
    """
    moves = 0
    for i in range(len(order)):
        d = order[i]
        for row in range(z[z[ROW_START] + d], z[z[ROW_START] + d + 1]):
            unit = z[z[ROW_UNIT] + row]
            for j in range(z[z[UNIT_START] + unit], z[z[UNIT_START] + unit + 1]):
                for b in range(z[K]):
                    moves += traded(z, r, d, z[z[UNIT_ENTRY] + j], b)
        for b in range(z[K]):
            full = z[z[GIVEN] + b] >= z[z[ROOM] + b]
            if full and z[z[DEGREE] + d] > 0 and not z[z[CHOSEN] + d * z[K] + b]:
                for e in range(z[N]):
                    moves += traded(z, r, d, e, b)
    return moves


def traded(z: Ints, r: Floats, d: int, e: int, b: int) -> int:
    """Exchange an adversary's copy of ``e`` for one of ``d`` if it is better: 1, or 0."""
    if d == e or z[z[CHOSEN] + d * z[K] + b] or not z[z[CHOSEN] + e * z[K] + b]:
        return 0
    for a in range(z[K]):
        if z[z[CHOSEN] + d * z[K] + a] and not z[z[CHOSEN] + e * z[K] + a]:
            keep(z, r, a, 0)
            keep(z, r, b, 0)
            if exchanged(z, r, d, a, e, b):
                return 1
            if z[AVERAGE] == 1:
                revert(z, r, a)
                revert(z, r, b)
                settle(z, r)
    return 0


def exchanged(z: Ints, r: Floats, d: int, a: int, e: int, b: int) -> bool:
    """Give ``d`` to ``b`` and ``e`` to ``a``, or leave all as it was if that is no better."""
    u, whole, f = r[U], r[WHOLE], r[F]
    give(z, r, d, a, -1)
    give(z, r, e, b, -1)
    if not wall(z, r, d, b):
        give(z, r, d, b, 1)
        if not wall(z, r, e, a):
            give(z, r, e, a, 1)
            p, q, g = rank(z, r, 0.0, r[WHOLE] - whole, r[U] - u, r[F] - f)
            past = z[CAREFUL] == 1 and (crossed(z, r, d, a) or crossed(z, r, e, b))
            if improves(p, q, g) and not past:
                return True
            give(z, r, e, a, -1)
        give(z, r, d, b, -1)
    give(z, r, e, b, 1)
    give(z, r, d, a, 1)
    return False


def revert(z: Ints, r: Floats, a: int) -> None:
    """Put back the levels that :func:`keep` remembered."""
    for j in range(z[z[SEEN_START] + a], z[z[SEEN_START] + a + 1]):
        r[z[LEVEL] + z[z[SEEN] + j]] = r[z[SAVED] + z[z[SEEN] + j]]


NAMES: Final = (
    *("swap", "traded", "exchanged", "revert"),
    *("rank", "improves", "ahead", "insert", "myopic", "deal"),
    *("better", "adding", "taking", "local"),
)

DOORS: Final = ("hold", "give", "settle", "myopic", "deal", "local", "swap")
