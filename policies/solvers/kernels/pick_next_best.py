"""PickNextBest over all pairs: the paper's global construction, lazily and exactly.

What every pair would make of f is remembered and brought up to date where a pick
changed it. Each adversary's entries are gone through by weight, which bounds what a
pair can gain, so that most are never looked at.
"""

from __future__ import annotations

from typing import Final

from policies.model.sets import Ints
from policies.solvers.kernels.changes import give, look, risen, wall
from policies.solvers.kernels.search import ahead, improves, insert, rank
from policies.solvers.kernels.tape import (
    ABLE,
    AVERAGE,
    BY_MEAN,
    BY_TRIAL,
    BY_WORST,
    CAP,
    CAPPED,
    CAREFUL,
    CHOSEN,
    CLASSES,
    COPIES,
    COUNTED,
    DEGREE,
    FALLING,
    FULL,
    GIVEN,
    HEAD,
    HI,
    JUDGED,
    KIND,
    LAMBDA,
    LINEAR,
    LO,
    LOAD,
    MODE,
    NEAR,
    NEAR_START,
    OPEN,
    ORDER,
    OTHER,
    QUADRATIC,
    ROOM,
    ROW_START,
    ROW_UNIT,
    STAMP,
    UNIT_AMOUNT,
    UNIT_ENTRY,
    UNIT_START,
    VALUE,
    WHOLES,
    WORTH,
    F,
    Floats,
    H,
    K,
    N,
)


def pick(
    z: Ints, r: Floats, low: int, high: int, memo: Floats, known: Floats, top: Floats
) -> int:
    """Find the best pairs of the adversaries ``low`` to ``high - 1`` (algorithm 3).

    Ranges may be searched side by side: only their own rows of ``memo`` and ``known``
    are written.

    Parameters
    ----------
    z, r
    low, high : int
    memo : float64 array, shape (k, width, 4)
        The best pairs (p, q, g, id) of each adversary.
    known : float64 array, shape (k, 3)
        How many of them there are, or -1 where they must be looked for; f, and f of the
        others, when they were found.
    top : float64 array, shape (width, 4)
        Gets the best pairs; their number is returned.
    """
    count = 0
    for a in range(low, high):
        if z[z[GIVEN] + a] >= z[z[ROOM] + a]:
            continue
        fresh = known[a, 1] == r[F]
        if z[AVERAGE] == 1:
            fresh = fresh and known[a, 2] == r[z[OTHER] + a]
        if known[a, 0] < 0 or not fresh:
            found = sweep(z, r, a, 1, memo[a], 0)
            known[a, 0] = sweep(z, r, a, 0, memo[a], found)
            known[a, 1], known[a, 2] = r[F], r[z[OTHER] + a]
        for j in range(int(known[a, 0])):
            p, q, g, one = memo[a, j, 0], memo[a, j, 1], memo[a, j, 2], memo[a, j, 3]
            count = insert(p, q, g, one, top, count)
    return count


def slack(z: Ints, r: Floats, a: int) -> float:
    """By how much f could fall, at most, by one more pair of the adversary."""
    if z[FALLING] == 0:
        return 0.0
    low = r[z[OTHER] + a] if z[MODE] == BY_MEAN else 0.0
    return float(r[LAMBDA] * (r[F] - low))


def forget(z: Ints, r: Floats, d: int, a: int, memo: Floats, known: Floats) -> None:
    """Mark the adversaries whose best pairs planning (d, a) may have changed."""
    width = memo.shape[1]
    for other in range(z[K]):
        count = int(known[other, 0])
        stale = z[MODE] == BY_TRIAL or z[CAREFUL] == 1 or other == a
        pair = d * z[K] + other
        for j in range(count):
            if memo[other, j, 3] == pair:
                stale = True
        if not stale and count >= 0 and not spent(z, d, other, 0):
            short = -1.0 if z[z[DEGREE] + d] < z[z[LO] + d] else 0.0
            most = r[z[WORTH] + pair] + slack(z, r, other)
            p, q, g = rank(z, r, short, 0.0, most, 0.0)
            stale = count < width
            if not stale:
                stale = ahead(p, q, g, float(pair), memo[other, count - 1])
        if stale:
            known[other, 0] = -1.0
    for j in range(z[z[NEAR_START] + a], z[z[NEAR_START] + a + 1]):
        known[z[z[NEAR] + j], 0] = -1.0


def spent(z: Ints, d: int, a: int, short: int) -> bool:
    """Whether a sweep will never want the pair again."""
    if short == 1 and z[z[DEGREE] + d] >= z[z[LO] + d]:
        return True
    pair = d * z[K] + a
    if z[z[CHOSEN] + pair] == 1 or z[z[ABLE] + pair] == 0:
        return True
    return bool(z[z[DEGREE] + d] >= z[z[HI] + d])


def sweep(z: Ints, r: Floats, a: int, short: int, top: Floats, count: int) -> int:
    """Go through one adversary's entries by weight, as long as they could be best."""
    p, i, spare = -float(short), forward(z, a, short), slack(z, r, a)
    start, holes = i, 0
    order = z[ORDER] + (short * z[K] + a) * z[N]
    while i < z[N]:
        d = z[order + i]
        pair = d * z[K] + a
        if count == len(top):  # could it, or a later one, still be among the best?
            one, q, g = rank(z, r, p, 0.0, r[z[WORTH] + pair] + spare, 0.0)
            best = top[count - 1]
            if not ahead(one, q, g, -1.0, best):
                break
            if not ahead(one, q, g, float(pair), best):
                i = lighter(z, r, order, a, i)  # it ties at most, and ids rise
                continue
        if spent(z, d, a, short):
            holes += 1
        elif z[z[OPEN] + pair] == 1 and short == lacking(z, d):
            f = risen(z, r, a, r[z[VALUE] + pair]) - r[F]
            one, q, g = rank(z, r, p, r[z[WHOLES] + pair], r[z[WORTH] + pair], f)
            if improves(one, q, g):
                count = insert(one, q, g, float(pair), top, count)
        i += 1
    if holes > 16 and 2 * holes > i - start:
        tidy(z, a, short, i)
    return count


def lacking(z: Ints, d: int) -> int:
    """1 for an entry that lacks copies, else 0."""
    return 1 if z[z[DEGREE] + d] < z[z[LO] + d] else 0


def forward(z: Ints, a: int, short: int) -> int:
    """Move a sweep's start past entries that it will never want again."""
    at = z[HEAD] + short * z[K] + a
    order = z[ORDER] + (short * z[K] + a) * z[N]
    while z[at] < z[N] and spent(z, z[order + z[at]], a, short):
        z[at] += 1
    start: int = z[at]
    return start


def tidy(z: Ints, a: int, short: int, stop: int) -> None:
    """Close the holes of an order up to a place, so that they are passed once only."""
    at = z[HEAD] + short * z[K] + a
    order = z[ORDER] + (short * z[K] + a) * z[N]
    to = stop
    for i in range(stop - 1, z[at] - 1, -1):
        d = z[order + i]
        if not spent(z, d, a, short):
            to -= 1
            z[order + to] = d
    z[at] = to


def lighter(z: Ints, r: Floats, order: int, a: int, i: int) -> int:
    """Find the first place of an adversary's order with less weight than place i."""
    weight = r[z[WORTH] + z[order + i] * z[K] + a]
    low, high = i + 1, z[N]
    while low < high:
        middle = (low + high) // 2
        if r[z[WORTH] + z[order + middle] * z[K] + a] < weight:
            high = middle
        else:
            low = middle + 1
    return low


def survey(z: Ints, r: Floats, d: int, a: int) -> None:
    """Look at one pair and remember."""
    if z[z[DEGREE] + d] >= z[z[HI] + d] or z[z[CHOSEN] + d * z[K] + a] == 1:
        return
    z[z[OPEN] + d * z[K] + a] = 0 if wall(z, r, d, a) else 1
    if z[z[OPEN] + d * z[K] + a] == 1:
        r[z[VALUE] + d * z[K] + a], r[z[WHOLES] + d * z[K] + a] = look(z, r, d, a)


def survey_all(z: Ints, r: Floats) -> None:
    """Look at every pair."""
    for d in range(z[N]):
        for a in range(z[K]):
            survey(z, r, d, a)


def prepare(z: Ints, r: Floats) -> None:
    """Make ready for a global construction from the plan as it is."""
    for i in range(2 * z[K]):
        z[z[HEAD] + i] = 0
    for d in range(z[N]):
        z[z[STAMP] + d] = -1
    survey_all(z, r)


def refresh(z: Ints, r: Floats, d: int, a: int, mark: int) -> None:
    """Look again at the pairs that planning (d, a) may have changed."""
    if z[MODE] == BY_TRIAL or z[CAREFUL] == 1:
        survey_all(z, r)
        return
    for row in range(z[z[ROW_START] + d], z[z[ROW_START] + d + 1]):
        unit = z[z[ROW_UNIT] + row]
        if z[H] == z[K] and z[z[KIND] + unit] < CLASSES:
            if z[z[COPIES] + d * z[K] + a] == 1:  # else it was held before
                nudge(z, r, a, unit, mark)
            continue
        for i in range(z[z[UNIT_START] + unit], z[z[UNIT_START] + unit + 1]):
            again(z, r, z[z[UNIT_ENTRY] + i], a, mark)


def again(z: Ints, r: Floats, e: int, a: int, mark: int) -> None:
    """Look again at an entry's pairs with all who share a hand, once a mark."""
    if z[z[STAMP] + e] == mark:
        return
    z[z[STAMP] + e] = mark
    for j in range(z[z[NEAR_START] + a], z[z[NEAR_START] + a + 1]):
        survey(z, r, e, z[z[NEAR] + j])


def nudge(z: Ints, r: Floats, a: int, unit: int, mark: int) -> None:
    """Bring the pairs of a set up to date after its load at an adversary rose.

    What a member would make of the other sets is as it was: only this one is looked at.
    """
    at = unit * z[H] + a
    if z[z[JUDGED] + at] == 0:
        return
    now, full, kind = z[z[LOAD] + at], z[z[FULL] + unit], z[z[KIND] + unit]
    for i in range(z[z[UNIT_START] + unit], z[z[UNIT_START] + unit + 1]):
        e = z[z[UNIT_ENTRY] + i]
        pair = e * z[K] + a
        if z[z[OPEN] + pair] == 0 or z[z[DEGREE] + e] >= z[z[HI] + e]:
            continue
        held = z[z[COPIES] + pair] > 0
        then = now + (0 if held else z[z[UNIT_AMOUNT] + i])
        if z[CAPPED] == 1 and then > z[z[CAP] + unit]:
            z[z[OPEN] + pair] = 0
        elif (not held and then >= full) or kind == QUADRATIC:
            again(z, r, e, a, mark)
        elif not held and kind == LINEAR and z[MODE] == BY_WORST:
            f = then / full
            if z[z[COUNTED] + unit] == 1 and f > r[z[VALUE] + pair]:
                r[z[VALUE] + pair] = f


def construct(
    z: Ints,
    r: Floats,
    draws: Floats,
    memo: Floats,
    known: Floats,
    top: Floats,
    start: int,
    stop: int,
) -> int:
    """Plan the best pair, or one of the n best, again and again (algorithm 2).

    Returns the number of the next iteration, or -1 once nothing improves.
    """
    for i in range(start, stop):
        count = pick(z, r, 0, z[K], memo, known, top)
        if count == 0:
            return -1
        settle_pick(z, r, int(top[int(draws[i] * count), 3]), i + 1, memo, known)
    return stop


def settle_pick(
    z: Ints, r: Floats, pair: int, mark: int, memo: Floats, known: Floats
) -> None:
    """Plan a pair and bring all that is remembered up to date."""
    d, a = pair // z[K], pair % z[K]
    give(z, r, d, a, 1)
    refresh(z, r, d, a, mark)
    forget(z, r, d, a, memo, known)


NAMES: Final = (
    *("pick", "slack", "forget", "settle_pick", "spent", "sweep", "lacking"),
    *("forward", "tidy", "lighter", "survey", "survey_all", "prepare", "refresh"),
    *("again", "nudge", "construct"),
)

DOORS: Final = ("prepare", "construct", "pick", "settle_pick")
