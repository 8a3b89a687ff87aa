"""Search over pairs: the paper's algorithms 2 and 4 (section 5) as kernels.

A candidate has a rank (p, q, g): increases of missing copies and of units with f = 1,
and the gain of the objective. Lower p, then lower q, then higher g, then the lower id
``d * k + a`` is better. That order is total, so the order of visits changes no choice.
In mode paper p = q = 0 and missing copies are a penalty in g (section 5, G - C).
"""

from __future__ import annotations

from math import inf
from typing import Final

from policies.model.problem_arrays import Floats
from policies.model.sets import Ints
from policies.solvers.kernels.moves import (
    assess,
    copy_levels,
    give,
    is_past_limit,
    risen,
    settle,
    useful,
)
from policies.solvers.kernels.plan_state import (
    BY_MEAN,
    BY_TRIAL,
    DEGREE,
    ENTRY,
    GIVEN,
    HI,
    KEPT,
    LEVEL,
    LO,
    MEMBERS,
    MISSING,
    ROOM,
    ROWS,
    UNIT,
    WHOLE,
    F,
    Floats2,
    Ints2,
    State,
    U,
)

ENTRY_POINTS: Final = ("assign", "local", "swap")

EPS: Final = 1e-12  # smaller gains are rounding errors


def rank(
    paper: bool, lambda_: float, missing: float, whole: float, u: float, f: float
) -> tuple[float, float, float]:
    """Return (p, q, g) of these changes."""
    g = u - lambda_ * f
    if paper:
        return 0.0, 0.0, g - missing
    return missing, whole, g


def improves(p: float, q: float, g: float) -> bool:
    """Whether a rank is better than no change."""
    if p != 0.0:
        return p < 0.0
    if q != 0.0:
        return q < 0.0
    return g > EPS


def ahead(p: float, q: float, g: float, pair: float, best: Floats2, i: int) -> bool:
    """Whether a candidate comes before row i of ``best``: (p, q, g, id)."""
    if p != best[i, 0]:
        return bool(p < best[i, 0])
    if q != best[i, 1]:
        return bool(q < best[i, 1])
    if g != best[i, 2]:
        return bool(g > best[i, 2])
    return bool(pair < best[i, 3])


def insert(p: float, q: float, g: float, pair: float, best: Floats2, count: int) -> int:
    """Insert a candidate into the list of the best; return its length."""
    if count == len(best) and not ahead(p, q, g, pair, best, count - 1):
        return count
    count = min(count + 1, len(best))
    at = count - 1
    while at > 0 and ahead(p, q, g, pair, best, at - 1):
        for j in range(4):
            best[at, j] = best[at - 1, j]
        at -= 1
    best[at, 0], best[at, 1], best[at, 2], best[at, 3] = p, q, g, pair
    return count


def is_rising(s: State) -> bool:
    """Whether one more pair can only raise f and the number of complete units.

    Then a pair that would be no better if it raised neither need not be assessed: the
    choices stay the same. Valued by trial, sums drift by rounding, and ties with them.
    """
    return not s.falling and s.mode != BY_TRIAL


def assign(
    s: State,
    order: Ints,
    draws: Floats,
    best: Floats2,
    ranked: Ints2,
    most: Ints,
) -> int:
    """Give entries, in an order, to adversaries; return how many pairs were planned.

    Parameters
    ----------
    s
    order : int64 array, shape (entries,)
    draws : float64 array, shape (entries,)
        Without ``most``: an entry gets its next best adversary (section 5,
        extensions), drawn from the best few.
    best : float64 array, shape (width, 4)
        Scratch for the best few.
    ranked : int64 array, shape (n, k)
        Adversaries by weight, the highest first and then the lowest id, so that the rest
        is no better than one that is not; with ``most``, in the order of who may get it.
    most : int64 array, shape (n,) or (0,)
        Number of copies that go to the first adversaries of a row that may have them.
    """
    made, k, valued = 0, s.worth.shape[1], len(most) == 0
    rises = valued and is_rising(s)
    for i in range(len(order)):
        d = order[i]
        short = -1.0 if s.entry[d, DEGREE] < s.entry[d, LO] else 0.0
        count, limit, highest = 0, s.entry[d, HI] if valued else most[d], inf
        for j in range(k):
            if s.entry[d, DEGREE] >= limit:
                break
            a = ranked[d, j]
            if rises:
                p, q, g = rank(s.paper, s.lambda_, short, 0.0, s.worth[d, a], 0.0)
                if not improves(p, q, g):
                    break
                if count == len(best) and not ahead(p, q, g, a, best, count - 1):
                    break
                last, g = 0.0, g + s.lambda_ * s.total[F]
                if count == len(best):
                    p, q = p - best[count - 1, 0], q - best[count - 1, 1]
                    last = best[count - 1, 2]
                highest = useful(s, a, p, q, g, last)
            blocked, value, whole = assess(s, d, a, valued, highest)
            if blocked:
                continue
            if not valued:
                give(s, d, a, 1, LEVEL)
                made += 1
                continue
            f = risen(s, a, value) - s.total[F]
            p, q, g = rank(s.paper, s.lambda_, short, whole, s.worth[d, a], f)
            if improves(p, q, g):
                count = insert(p, q, g, float(a), best, count)
        if count > 0:
            give(s, d, int(best[int(draws[i] * count), 3]), 1, LEVEL)
            made += 1
    return made


def may_improve(
    s: State, d: int, a: int, lost: float, full: float, gain: float
) -> bool:
    """Whether taking a pair away, or moving it, may be better than a change of this rank.

    Where observers are adversaries and pairs only raise f: without the pair f is at
    least that of the others, and what another sees of the entry does not depend on it.
    """
    least, worths = s.other[a] - s.total[F], s.worth
    p, q, g = rank(s.paper, s.lambda_, 0.0, -s.total[WHOLE], -worths[d, a], least)
    if improves(p - lost, q - full, g - gain):
        return True
    if p != lost or q != full:  # no gain makes up for that
        return False
    price, now = s.lambda_ * least, s.lambda_ * s.total[F]
    for b in range(worths.shape[1]):
        u = worths[d, b] - worths[d, a]
        if u - price - gain <= EPS or s.chosen[d, b]:
            continue
        highest = useful(s, b, 0.0, 0.0, u + now, gain)
        blocked, value, _ = assess(s, d, b, True, highest)
        if blocked:
            continue
        f = value + (s.observer[b, LEVEL] if s.mode == BY_MEAN else 0.0) - s.total[F]
        g = u - s.lambda_ * (f if f > least else least)
        if g - gain > EPS:
            return True
    return False


def local(s: State, order: Ints) -> int:
    """Move to the best neighbour, entry by entry (algorithm 4); return the moves made.

    Neighbours: the entry given to one more adversary, taken from one, or moved. The
    unchanged plan comes first, and ties keep what came first, so a tie changes nothing.
    """
    moves, k, rises, highest = 0, s.worth.shape[1], is_rising(s), inf
    alone = rises and len(s.observer) == k  # without a pair, f >= that of the others
    for i in range(len(order)):
        d, before = order[i], s.total[F]
        lost, full, gain, source, target = 0.0, 0.0, 0.0, -1, -1
        for a in range(-1, k):  # -1: from nobody
            if a >= 0 and not s.chosen[d, a]:
                continue
            missing, whole, u, past = 0.0, 0.0, 0.0, False
            if a >= 0 and alone and not may_improve(s, d, a, lost, full, gain):
                continue
            if a >= 0:
                missing, whole = s.total[MISSING], s.total[WHOLE]
                copy_levels(s, LEVEL, KEPT, a)
                give(s, d, a, -1, LEVEL)
                missing, whole = s.total[MISSING] - missing, s.total[WHOLE] - whole
                u = -s.worth[d, a]
                past = s.careful and is_past_limit(s, d, a)
                if not past:
                    f = s.total[F] - before
                    p, q, g = rank(s.paper, s.lambda_, missing, whole, u, f)
                    if improves(p - lost, q - full, g - gain):
                        lost, full, gain, source, target = p, q, g, a, -1
            if not past and s.entry[d, DEGREE] < s.entry[d, HI]:
                missing += -1.0 if s.entry[d, DEGREE] < s.entry[d, LO] else 0.0
                least = s.total[F] - before
                for b in range(k):
                    if b == a:
                        continue
                    if rises:
                        worth = u + s.worth[d, b]
                        p, q, g = rank(s.paper, s.lambda_, missing, whole, worth, least)
                        if not improves(p - lost, q - full, g - gain):
                            continue
                        g += s.lambda_ * s.total[F]
                        highest = useful(s, b, p - lost, q - full, g, gain)
                    blocked, value, new = assess(s, d, b, True, highest)
                    if blocked:
                        continue
                    f = risen(s, b, value) - before
                    new, worth = whole + new, u + s.worth[d, b]
                    p, q, g = rank(s.paper, s.lambda_, missing, new, worth, f)
                    if improves(p - lost, q - full, g - gain):
                        lost, full, gain, source, target = p, q, g, a, b
            if a >= 0:
                give(s, d, a, 1, KEPT)
        for sign in range(-1, 2, 2):
            a = source if sign < 0 else target
            if a >= 0:
                give(s, d, a, sign, LEVEL)
        moves += 1 if source >= 0 or target >= 0 else 0
    return moves


def swap(s: State, order: Ints) -> int:
    """Exchange entries of two adversaries, entry by entry; return the exchanges made.

    Partners: entries of a common unit, and all entries of an adversary who is full.
    """
    moves, n, k = 0, s.worth.shape[0], s.worth.shape[1]
    for i in range(len(order)):
        d = order[i]
        first, rows = s.entry[d, ROWS], s.entry[d + 1, ROWS] - s.entry[d, ROWS]
        for part in range(
            rows + k
        ):  # units of the entry, then adversaries who are full
            begin, end, low, high = 0, n, part - rows, part - rows + 1
            if part < rows:
                unit = s.row[first + part, UNIT]
                begin, end = s.unit[unit, MEMBERS], s.unit[unit + 1, MEMBERS]
                low, high = 0, k
            else:
                full = s.adversary[low, GIVEN] >= s.adversary[low, ROOM]
                if not full or s.entry[d, DEGREE] == 0 or s.chosen[d, low]:
                    continue
            for j in range(begin, end):
                e = s.member[j, ENTRY] if part < rows else j
                for b in range(low, high):
                    if d == e or s.chosen[d, b] or not s.chosen[e, b]:
                        continue
                    for a in range(k):
                        if not s.chosen[d, a] or s.chosen[e, a]:
                            continue
                        copy_levels(s, LEVEL, KEPT, a)
                        copy_levels(s, LEVEL, KEPT, b)
                        u, whole, f = s.total[U], s.total[WHOLE], s.total[F]
                        done = 0  # of four changes: two entries go, two come
                        while done < 4:
                            x = d if done % 2 == 0 else e
                            y = a if (done == 0) or (done == 3) else b
                            if done >= 2:
                                blocked, _, _ = assess(s, x, y, False, inf)
                                if blocked:
                                    break
                            give(s, x, y, -1 if done < 2 else 1, LEVEL)
                            done += 1
                        better = False
                        if done == 4:
                            q, u = s.total[WHOLE] - whole, s.total[U] - u
                            f = s.total[F] - f
                            p, q, g = rank(s.paper, s.lambda_, 0.0, q, u, f)
                            better = improves(p, q, g)
                            if better and s.careful:
                                better = not (
                                    is_past_limit(s, d, a) or is_past_limit(s, e, b)
                                )
                        if better:
                            moves += 1
                            break
                        while done > 0:  # undo in reverse order
                            done -= 1
                            x = d if done % 2 == 0 else e
                            y = a if (done == 0) or (done == 3) else b
                            give(s, x, y, 1 if done < 2 else -1, LEVEL)
                        if s.average:  # sums drift by rounding
                            copy_levels(s, KEPT, LEVEL, a)
                            copy_levels(s, KEPT, LEVEL, b)
                            settle(s)
    return moves
