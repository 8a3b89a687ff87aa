"""Delta evaluation: the effect of one pair, in O(sets of the entry).

Giving entry d to adversary a changes only the loads of d's sets for the observers of a,
so f follows from those, where the paper's algorithms (section 5) evaluate G of whole
plans. A maximum that has lost the last unit at its level is recomputed by
:func:`find_level`.

Floats guide a search only: a plan counts only once the judge has recomputed it.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Final

from policies.model.sets import Ints
from policies.solvers.kernels.plan_state import (
    ABOVE,
    AMOUNT,
    ATTAIN,
    BY_MEAN,
    BY_TRIAL,
    BY_WORST,
    CAP,
    CLASSES,
    COSINE,
    COUNTED,
    COUNTING,
    COUNTING_ONCE,
    DEGREE,
    DIVISOR,
    FULL,
    GIVEN,
    KIND,
    LEVEL,
    LIMIT,
    LINEAR,
    LO,
    MASS,
    MATE,
    MISSING,
    NO_AGGREGATE,
    POWERED,
    ROOM,
    ROWS,
    SEEN,
    SLOT,
    STEP,
    SUM,
    TRIED,
    UNIT,
    WHOLE,
    F,
    State,
    U,
)

ENTRY_POINTS: Final = ("give_pairs",)

INLINED: Final = ("settle", "copy_levels")
"""Short and called often: passing all arrays on would take as long as the work.

With ``assess``, ``risen`` and ``is_past_limit`` inlined too, the search kernels compile in
10.0 instead of 9.0 s of CPU and run up to a fifth faster (GRASPL on 500 entries, 50 sets,
k = 10)."""


def grouped_change(
    s: State, d: int, o: int, row: int, sign: int
) -> tuple[int, int, int, int]:
    """Return the row of the next unit, and the changes of load and of the ends' squares.

    For units with several rows an entry. A class counts with its first entry. The
    product of the counts of two entries at the same place of a link counts while the
    observer holds both.
    """
    unit, stop = s.row[row, UNIT], s.entry[d + 1, ROWS]
    load, left, right = 0, 0, 0
    while row < stop and s.row[row, UNIT] == unit:
        amount, slot = s.row[row, AMOUNT], s.row[row, SLOT]
        if s.unit[unit, KIND] == CLASSES:
            alone = s.part[slot, o] == (0 if sign > 0 else 1)
            load += sign if alone else 0
        else:
            mate, count = s.row[row, MATE], 0
            if mate == d:  # a link of an entry with itself counts at the left end
                count = s.entry[d, MASS] if slot % 2 == 0 else 0
            elif mate >= 0 and s.copies[mate, o] > 0:
                count = s.entry[mate, MASS]
            load += sign * amount * count
            if slot % 2 == 0:
                left += sign * amount * amount
            else:
                right += sign * amount * amount
        row += 1
    return row, load, left, right


def disclosure(kind: int, full: int, load: int, left: int, right: int) -> float:
    """Return f of a unit at a load, with the squares at the ends of a link.

    See :mod:`policies.model.disclosure` and :mod:`policies.model.links`.
    """
    f = 0.0
    if kind <= COSINE:
        if load > 0:
            f = 1.0
            if kind == COSINE:
                f = load / sqrt(float(left) * float(right))
    elif load >= full:
        f = 1.0
    elif kind > STEP:
        part = load / full
        f = part
        while kind > LINEAR:
            f *= part
            kind -= 1
    return f if f < 1.0 else 1.0


def aggregated(kind: int, root: int, bar: float, factor: float, f: float) -> float:
    """Return a unit's contribution at this f to its observer's part of an aggregate."""
    value = factor
    if kind == POWERED:
        for _ in range(root):
            value *= f
        return value
    if kind >= COUNTING:
        return value if f > bar + 1e-12 else 0.0
    return value * f


def find_level(s: State, o: int) -> None:
    """Recompute the observer's worst unit after the last one at its level has fallen."""
    top, count = 0.0, 0
    for unit in range(len(s.load)):
        if s.unit[unit, COUNTED] == 1 and s.judged[unit, o]:
            f = s.f[unit, o]
            if s.aggregate != NO_AGGREGATE:
                f = aggregated(
                    s.aggregate, s.root, s.bar, s.weight[s.mean.shape[1], unit], f
                )
            if f > top:
                top, count = f, 0
            if f == top:
                count += 1
    s.observer[o, LEVEL] = top
    s.observer[o, ATTAIN] = count


def settle(s: State) -> None:
    """Bring f, with and without each adversary, up to date with the levels."""
    first, second, total, at = 0.0, 0.0, 0.0, -1
    for o in range(len(s.observer)):
        level = s.observer[o, LEVEL]
        if s.aggregate == POWERED:  # a soft maximum: the root of the sum of powers
            level = exp(log(level) / s.root) if level > 0.0 else 0.0
        total += level
        if level > first:
            first, second, at = level, first, o
        elif level > second:
            second = level
    s.total[F] = total if s.summed else first
    if s.aggregate == NO_AGGREGATE:
        for a in range(len(s.other)):
            s.other[a] = second if a == at else first


def copy_levels(s: State, source: int, target: int, a: int) -> None:
    """Copy one column of the observers who see the adversary to another."""
    for j in range(s.adversary[a, SEEN], s.adversary[a + 1, SEEN]):
        o = s.seen[j]
        s.observer[o, target] = s.observer[o, source]


def give(s: State, d: int, a: int, sign: int, levels: int) -> None:
    """Plan the pair (sign 1) or take it back (-1).

    ``levels``: to undo a change, the column with the levels before it, as sums drift by
    rounding; else ``LEVEL``.
    """
    start, stop = s.entry[d, ROWS], s.entry[d + 1, ROWS]
    rows, units, loads, fs = s.row, s.unit, s.load, s.f  # plain Python looks up slowly
    judged, observer, total = s.judged, s.observer, s.total
    average, caps = s.average, s.mean.shape[1]
    for j in range(s.adversary[a, SEEN], s.adversary[a + 1, SEEN]):
        o = s.seen[j]
        before = s.copies[d, o]
        s.copies[d, o] += sign
        if before > (0 if sign > 0 else 1):
            continue  # only the first and the last copy change loads
        row = start
        while row < stop:
            unit, at = rows[row, UNIT], row
            kind, full = units[unit, KIND], units[unit, FULL]
            load, left, right = sign * rows[row, AMOUNT], 0, 0
            row += 1
            if kind <= CLASSES:
                row, load, left, right = grouped_change(s, d, o, at, sign)
                if kind == COSINE:
                    left += s.part[full, o]
                    right += s.part[full + 1, o]
            now, old = loads[unit, o] + load, fs[unit, o]
            if kind == LINEAR and now < full:
                new = now / full
            else:
                new = disclosure(kind, full, now, left, right)
            loads[unit, o] = now
            fs[unit, o] = new
            while kind <= CLASSES and at < row:
                amount = 1 if kind == CLASSES else rows[at, AMOUNT] * rows[at, AMOUNT]
                s.part[rows[at, SLOT], o] += sign * amount
                at += 1
            if not judged[unit, o]:
                continue
            if kind != COSINE and (new >= 1.0) != (old >= 1.0):
                total[WHOLE] += 1.0 if new >= 1.0 else -1.0
            for i in range(caps):
                s.mean[SUM, i, o] += s.weight[i, unit] * (new - old)
            if units[unit, COUNTED] == 0 or new == old:
                continue
            if s.aggregate != NO_AGGREGATE:
                factor = s.weight[s.mean.shape[1], unit]
                old = aggregated(s.aggregate, s.root, s.bar, factor, old)
                new = aggregated(s.aggregate, s.root, s.bar, factor, new)
                if s.aggregate == COUNTING_ONCE:  # the first and last observer count
                    change = 1 if new > old else -1 if new < old else 0
                    units[unit, ABOVE] += change
                    seen = units[unit, ABOVE]
                    old = old if change < 0 and seen == 0 else 0.0
                    new = new if change > 0 and seen == 1 else 0.0
            if average:
                observer[o, LEVEL] += (new - old) / observer[o, DIVISOR]
                continue
            level = observer[o, LEVEL]
            if new > level:
                observer[o, LEVEL] = new
                observer[o, ATTAIN] = 1
                continue
            if new == level:
                observer[o, ATTAIN] += 1
            if old == level:
                observer[o, ATTAIN] -= 1
        if not s.average and s.observer[o, LEVEL] > 0 and s.observer[o, ATTAIN] == 0:
            find_level(s, o)
    lacking = s.entry[d, LO] - s.entry[d, DEGREE]  # before
    if sign > 0:
        s.total[MISSING] -= 1.0 if lacking > 0 else 0.0
    else:
        s.total[MISSING] += 1.0 if lacking >= 0 else 0.0
    s.chosen[d, a] = sign > 0
    s.entry[d, DEGREE] += sign
    s.adversary[a, GIVEN] += sign
    s.total[U] += sign * s.worth[d, a]
    if s.average and levels != LEVEL:
        copy_levels(s, levels, LEVEL, a)
    settle(s)


def is_past_limit(s: State, d: int, a: int) -> bool:
    """Whether a limit that the entry touches is exceeded now."""
    if s.total[F] > s.ceiling:
        return True
    for j in range(s.adversary[a, SEEN], s.adversary[a + 1, SEEN]):
        o = s.seen[j]
        for i in range(s.mean.shape[1]):
            if s.mean[SUM, i, o] > s.mean[LIMIT, i, o]:
                return True
        for row in range(s.entry[d, ROWS], s.entry[d + 1, ROWS]):
            unit = s.row[row, UNIT]
            if not s.judged[unit, o]:
                continue
            if s.unit[unit, KIND] <= COSINE:
                if s.f[unit, o] >= s.tau - 1e-12:
                    return True
            elif s.load[unit, o] > s.unit[unit, CAP]:
                return True
    return False


def assess(
    s: State, d: int, a: int, valued: bool, most: float
) -> tuple[bool, float, float]:
    """Evaluate a pair without planning it.

    Parameters
    ----------
    s
    d, a : int
    valued : bool
        Whether its value is asked for.
    most : float
        The highest value of use to the caller (:func:`useful`); inf for any.

    Returns
    -------
    blocked : bool
        Whether it may not be planned now, or its value is above ``most``; copies of the
        entry are the caller's task.
    value, whole : float
        If ``valued``: its value (see the modes), and the change of ``WHOLE``.
    """
    value, whole = 0.0, 0.0
    no_room = s.adversary[a, GIVEN] >= s.adversary[a, ROOM]
    if s.chosen[d, a] or not s.able[d, a] or no_room:
        return True, value, whole
    by_mean, summed = s.mode == BY_MEAN, valued and s.mode != BY_TRIAL
    start, stop = s.entry[d, ROWS], s.entry[d + 1, ROWS]
    rows, units, judged, capped = s.row, s.unit, s.judged, s.capped
    loads, fs = s.load, s.f
    if by_mean:  # of the sum
        most *= s.observer[a, DIVISOR]
    for j in range(s.adversary[a, SEEN], s.adversary[a + 1, SEEN]):
        if not s.capped and not summed:
            break
        o = s.seen[j]
        held = s.copies[d, o] > 0
        row = start
        while row < stop:
            if value > most:  # no row lowers it
                return True, value, whole
            unit, at = rows[row, UNIT], row
            kind, full = units[unit, KIND], units[unit, FULL]
            load, left, right = rows[row, AMOUNT], 0, 0
            row += 1
            if kind <= CLASSES:
                row, load, left, right = grouped_change(s, d, o, at, 1)
                if kind == COSINE:
                    left += s.part[full, o]
                    right += s.part[full + 1, o]
            if not judged[unit, o]:
                continue
            now = loads[unit, o]
            then = now if held else now + load
            if capped and kind > COSINE and then > units[unit, CAP]:
                return True, value, whole
            if held or not summed:
                continue
            if kind == LINEAR and by_mean:
                if (
                    now < full
                ):  # by loads: a difference of f varies with the load in bits
                    whole += 1.0 if then >= full else 0.0
                    if units[unit, COUNTED] == 1:
                        value += float((full if then > full else then) - now) / full
                continue
            if kind == LINEAR and then < full:
                new = then / full
            else:
                new = disclosure(kind, full, then, left, right)
            if new >= 1.0 and fs[unit, o] < 1.0 and kind != COSINE:
                whole += 1.0
            if units[unit, COUNTED] == 0:
                continue
            if by_mean:
                value += new - fs[unit, o]
            elif new > value:
                value = new
    if s.mode == BY_MEAN:
        value /= s.observer[a, DIVISOR]
    if s.careful or (valued and s.mode == BY_TRIAL):
        copy_levels(s, LEVEL, TRIED, a)
        before = s.total[WHOLE]
        give(s, d, a, 1, LEVEL)
        past = s.careful and is_past_limit(s, d, a)
        if s.mode == BY_TRIAL:
            value, whole = s.total[F], s.total[WHOLE] - before
        give(s, d, a, -1, TRIED)
        return past, value, whole
    return False, value, whole


def useful(s: State, a: int, p: float, q: float, g: float, gain: float) -> float:
    """Return the highest value with which a pair may still be better than another.

    For pairs that only raise f: from f = g / lambda on, a pair gains no more than the
    other. A share of 10^-9 is added, a million times the rounding error of either test,
    so that the caller's own test decides and no choice changes.

    Parameters
    ----------
    s
    a : int
    p, q : float
        The pair's changes of missing copies and complete units, less the other's.
    g, gain : float
        The pair's gain if it left f at 0; the other's.
    """
    if p != 0.0 or q != 0.0 or s.lambda_ <= 0.0:
        return inf
    f = (g - gain + 1e-9 * (abs(g) + abs(gain))) / s.lambda_
    return f - s.observer[a, LEVEL] if s.mode == BY_MEAN else f


def risen(s: State, a: int, value: float) -> float:
    """Return f after a pair of this value went to the adversary."""
    other = value
    if s.mode == BY_WORST:
        other = s.total[F]
    elif s.mode == BY_MEAN:
        other = s.other[a]
        value += s.observer[a, LEVEL]
    return value if value > other else other


def give_pairs(s: State, entry: Ints, adversary: Ints, sign: int) -> None:
    """Plan pairs (sign 1) or take them back (-1)."""
    settle(s)
    for i in range(len(entry)):
        give(s, entry[i], adversary[i], sign, LEVEL)
