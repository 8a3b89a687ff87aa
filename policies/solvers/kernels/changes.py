"""What one pair changes: counters, gains and limits, in O(sets of the entry).

Plain Python over two tapes of numbers (:mod:`policies.solvers.kernels.tape`), which numba
compiles as it stands: two arguments a call, where forty arrays would cost more than the
work. A unit is a sensitive set or a link; a hand is an adversary or a coalition. Floats
guide a search only: no plan counts before the judge has seen it.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from policies.model.sets import Ints
from policies.solvers.kernels.folds import folded, gathered, shared
from policies.solvers.kernels.tape import (
    ABLE,
    ATTAIN,
    AVERAGE,
    BY_MEAN,
    BY_TRIAL,
    BY_WORST,
    CAP,
    CAPPED,
    CAPS,
    CAREFUL,
    CEILING,
    CHOSEN,
    CLASSES,
    COPIES,
    COSINE,
    COUNTED,
    DEGREE,
    FOLD,
    FULL,
    GIVEN,
    JUDGED,
    KIND,
    LEVEL,
    LIMIT,
    LINEAR,
    LO,
    LOAD,
    MASS,
    MEAN,
    MISSING,
    MODE,
    OTHER,
    OVER,
    PART,
    PLAIN,
    QUADRATIC,
    ROOM,
    ROW_AMOUNT,
    ROW_MATE,
    ROW_SLOT,
    ROW_START,
    ROW_UNIT,
    SAVED,
    SEEN,
    SEEN_START,
    SHARED,
    TAU,
    WEIGHT,
    WHOLE,
    WORTH,
    F,
    Floats,
    H,
    K,
    Q,
    U,
)

NAMES: Final = (
    *("share", "moved", "shift", "book", "hold", "note", "scan", "settle", "give"),
    *("met", "keep", "back", "sight", "attempt", "look", "rise", "risen"),
    *("crossed", "wall", "barred"),
)


def share(kind: int, load: int, full: int, left: int, right: int) -> float:
    """Return f of one unit: see policies.model.disclosure and policies.model.links."""
    f = 0.0
    if kind >= COSINE:
        if load > 0:
            f = 1.0
            if kind == COSINE:
                f = load / sqrt(float(left) * float(right))
    elif load >= full:
        f = 1.0
    elif kind == LINEAR:
        f = load / full
    elif kind == QUADRATIC:
        f = load / full
        f *= f
    return f if f < 1.0 else 1.0


def moved(z: Ints, d: int, h: int, row: int, sign: int) -> tuple[int, int, int, int]:
    """Return the next unit's row, and what load and the ends' squares change by."""
    unit, stop = z[z[ROW_UNIT] + row], z[z[ROW_START] + d + 1]
    if z[z[KIND] + unit] < CLASSES:  # such a unit has one row an entry
        return row + 1, sign * z[z[ROW_AMOUNT] + row], 0, 0
    load, left, right = 0, 0, 0
    while row < stop and z[z[ROW_UNIT] + row] == unit:
        amount, slot = z[z[ROW_AMOUNT] + row], z[z[ROW_SLOT] + row]
        if z[z[KIND] + unit] == CLASSES:
            alone = z[z[PART] + slot * z[H] + h] == (0 if sign > 0 else 1)
            load += sign if alone else 0
        else:
            load += sign * amount * met(z, d, h, row)
            if slot % 2 == 0:
                left += sign * amount * amount
            else:
                right += sign * amount * amount
        row += 1
    return row, load, left, right


def met(z: Ints, d: int, h: int, row: int) -> int:
    """Count of what the hand holds at the same place at the other end of the link."""
    mate, count = z[z[ROW_MATE] + row], 0
    if mate == d:  # a link of an entry with itself: told at its left end
        count = z[z[MASS] + d] if z[z[ROW_SLOT] + row] % 2 == 0 else 0
    elif mate >= 0 and z[z[COPIES] + mate * z[H] + h] > 0:
        count = z[z[MASS] + mate]
    return count


def shift(z: Ints, unit: int, h: int, load: int, left: int, right: int) -> float:
    """Return f of the unit once load and squares have changed by so much."""
    one, two = 0, 0
    if z[z[KIND] + unit] == COSINE:
        slot = z[z[FULL] + unit]
        one, two = (
            z[z[PART] + slot * z[H] + h] + left,
            z[z[PART] + (slot + 1) * z[H] + h] + right,
        )
    return share(
        z[z[KIND] + unit],
        z[z[LOAD] + unit * z[H] + h] + load,
        z[z[FULL] + unit],
        one,
        two,
    )


def book(z: Ints, d: int, h: int, row: int, load: int, sign: int) -> None:
    """Write what the entry changes in the unit of this row."""
    unit, stop = z[z[ROW_UNIT] + row], z[z[ROW_START] + d + 1]
    z[z[LOAD] + unit * z[H] + h] += load
    kind = z[z[KIND] + unit]
    while kind >= CLASSES and row < stop and z[z[ROW_UNIT] + row] == unit:
        amount = z[z[ROW_AMOUNT] + row]
        amount = 1 if kind == CLASSES else amount * amount
        z[z[PART] + z[z[ROW_SLOT] + row] * z[H] + h] += sign * amount
        row += 1


def hold(z: Ints, r: Floats, d: int, h: int, sign: int) -> None:
    """Give a copy of the entry to a hand, or take one."""
    before = z[z[COPIES] + d * z[H] + h]
    z[z[COPIES] + d * z[H] + h] += sign
    if before > (0 if sign > 0 else 1):
        return
    row = z[z[ROW_START] + d]
    while row < z[z[ROW_START] + d + 1]:
        unit, first = z[z[ROW_UNIT] + row], row
        row, load, left, right = moved(z, d, h, row, sign)
        old = shift(z, unit, h, 0, 0, 0)
        new = shift(z, unit, h, load, left, right)
        book(z, d, h, first, load, sign)
        if z[z[JUDGED] + unit * z[H] + h]:
            note(z, r, unit, h, old, new)
    if z[AVERAGE] == 0 and r[z[LEVEL] + h] > 0 and z[z[ATTAIN] + h] == 0:
        scan(z, r, h)


def note(z: Ints, r: Floats, unit: int, h: int, old: float, new: float) -> None:
    """Count one unit's new f."""
    if z[z[KIND] + unit] != COSINE:
        r[WHOLE] += (1.0 if new >= 1.0 else 0.0) - (1.0 if old >= 1.0 else 0.0)
    for i in range(z[CAPS]):
        r[z[MEAN] + i * z[H] + h] += r[z[WEIGHT] + i * z[Q] + unit] * (new - old)
    if not z[z[COUNTED] + unit] or new == old:
        return
    if z[FOLD] != PLAIN:
        old, new = folded(z, r, unit, old), folded(z, r, unit, new)
        if z[FOLD] == SHARED:
            old, new = shared(z, unit, old, new)
    if z[AVERAGE] == 1:
        r[z[LEVEL] + h] += (new - old) / r[z[OVER] + h]
    elif new > r[z[LEVEL] + h]:
        r[z[LEVEL] + h] = new
        z[z[ATTAIN] + h] = 1
    else:
        if new == r[z[LEVEL] + h]:
            z[z[ATTAIN] + h] += 1
        if old == r[z[LEVEL] + h]:
            z[z[ATTAIN] + h] -= 1


def scan(z: Ints, r: Floats, h: int) -> None:
    """Find the hand's worst unit afresh."""
    top, count = 0.0, 0
    for unit in range(z[Q]):
        if z[z[COUNTED] + unit] and z[z[JUDGED] + unit * z[H] + h]:
            f = shift(z, unit, h, 0, 0, 0)
            if z[FOLD] != PLAIN:
                f = folded(z, r, unit, f)
            if f > top:
                top, count = f, 0
            if f == top:
                count += 1
    r[z[LEVEL] + h] = top
    z[z[ATTAIN] + h] = count


def settle(z: Ints, r: Floats) -> None:
    """Bring f, and what it is without each adversary, up to date."""
    if z[FOLD] != PLAIN:
        gathered(z, r)
        return
    first, second, at = 0.0, 0.0, -1
    for h in range(z[H]):
        if r[z[LEVEL] + h] > first:
            first, second, at = r[z[LEVEL] + h], first, h
        elif r[z[LEVEL] + h] > second:
            second = r[z[LEVEL] + h]
    r[F] = first
    for a in range(z[K]):
        r[z[OTHER] + a] = second if a == at else first


def give(z: Ints, r: Floats, d: int, a: int, sign: int) -> None:
    """Plan the pair, or take it back."""
    for j in range(z[z[SEEN_START] + a], z[z[SEEN_START] + a + 1]):
        hold(z, r, d, z[z[SEEN] + j], sign)
    if sign > 0:
        r[MISSING] -= 1.0 if z[z[DEGREE] + d] < z[z[LO] + d] else 0.0
    else:
        r[MISSING] += 1.0 if z[z[DEGREE] + d] <= z[z[LO] + d] else 0.0
    z[z[CHOSEN] + d * z[K] + a] = 1 if sign > 0 else 0
    z[z[DEGREE] + d] += sign
    z[z[GIVEN] + a] += sign
    r[U] += sign * r[z[WORTH] + d * z[K] + a]
    settle(z, r)


def keep(z: Ints, r: Floats, a: int, place: int) -> None:
    """Remember the levels of the hands that see the adversary."""
    for j in range(z[z[SEEN_START] + a], z[z[SEEN_START] + a + 1]):
        r[z[SAVED] + place * z[H] + z[z[SEEN] + j]] = r[z[LEVEL] + z[z[SEEN] + j]]


def back(z: Ints, r: Floats, d: int, a: int, sign: int, place: int) -> None:
    """Undo :func:`give` to the last bit."""
    give(z, r, d, a, -sign)
    if z[AVERAGE] == 1:
        for j in range(z[z[SEEN_START] + a], z[z[SEEN_START] + a + 1]):
            r[z[LEVEL] + z[z[SEEN] + j]] = r[z[SAVED] + place * z[H] + z[z[SEEN] + j]]
        settle(z, r)


def attempt(z: Ints, r: Floats, d: int, a: int) -> tuple[float, float, bool]:
    """Plan a pair and take it back: f, the change of units with f = 1, limits passed."""
    keep(z, r, a, 1)
    before = r[WHOLE]
    give(z, r, d, a, 1)
    f, whole, bad = r[F], r[WHOLE] - before, crossed(z, r, d, a)
    back(z, r, d, a, 1, 1)
    return f, whole, bad


def look(z: Ints, r: Floats, d: int, a: int) -> tuple[float, float]:
    """Return a pair's value (see the modes) and the change of units with f = 1."""
    value, whole = 0.0, 0.0
    if z[MODE] == BY_TRIAL:
        value, whole, _ = attempt(z, r, d, a)
        return value, whole
    for j in range(z[z[SEEN_START] + a], z[z[SEEN_START] + a + 1]):
        h = z[z[SEEN] + j]
        if z[z[COPIES] + d * z[H] + h] == 0:
            value, whole = sight(z, d, h, value, whole)
    return (value / r[z[OVER] + a] if z[MODE] == BY_MEAN else value), whole


def sight(z: Ints, d: int, h: int, value: float, whole: float) -> tuple[float, float]:
    """Add what one hand would see of the entry to a pair's value."""
    row = z[z[ROW_START] + d]
    while row < z[z[ROW_START] + d + 1]:
        unit = z[z[ROW_UNIT] + row]
        row, load, left, right = moved(z, d, h, row, 1)
        if z[z[JUDGED] + unit * z[H] + h] == 0:
            continue
        new = shift(z, unit, h, load, left, right)
        old = shift(z, unit, h, 0, 0, 0)
        if new >= 1.0 and old < 1.0 and z[z[KIND] + unit] != COSINE:
            whole += 1.0
        if z[z[COUNTED] + unit] == 1:
            if z[MODE] == BY_MEAN:
                linear = z[z[KIND] + unit] == LINEAR
                value += rise(z, unit, h, load) if linear else new - old
            elif new > value:
                value = new
    return value, whole


def rise(z: Ints, unit: int, h: int, load: int) -> float:
    """Return what a linear unit's f gains by more load: to the bit, at every load."""
    now, full = z[z[LOAD] + unit * z[H] + h], z[z[FULL] + unit]
    return float(min(now + load, full) - min(now, full)) / float(full)


def risen(z: Ints, r: Floats, a: int, value: float) -> float:
    """Return f once a pair of this value went to the adversary."""
    other = value
    if z[MODE] == BY_WORST:
        other = r[F]
    elif z[MODE] == BY_MEAN:
        other = r[z[OTHER] + a]
        value += r[z[LEVEL] + a]
    return value if value > other else other


def crossed(z: Ints, r: Floats, d: int, a: int) -> bool:
    """Whether a limit that the entry touches is passed now."""
    if r[F] > r[CEILING]:
        return True
    for j in range(z[z[SEEN_START] + a], z[z[SEEN_START] + a + 1]):
        h = z[z[SEEN] + j]
        for i in range(z[CAPS]):
            if r[z[MEAN] + i * z[H] + h] > r[z[LIMIT] + i * z[H] + h]:
                return True
        for row in range(z[z[ROW_START] + d], z[z[ROW_START] + d + 1]):
            unit = z[z[ROW_UNIT] + row]
            if not z[z[JUDGED] + unit * z[H] + h]:
                continue
            if z[z[KIND] + unit] >= COSINE:
                if shift(z, unit, h, 0, 0, 0) >= r[TAU] - 1e-12:
                    return True
            elif z[z[LOAD] + unit * z[H] + h] > z[z[CAP] + unit]:
                return True
    return False


def wall(z: Ints, r: Floats, d: int, a: int) -> bool:
    """Whether the pair may not be planned now; degrees are the caller's."""
    if (
        z[z[CHOSEN] + d * z[K] + a]
        or not z[z[ABLE] + d * z[K] + a]
        or z[z[GIVEN] + a] >= z[z[ROOM] + a]
    ):
        return True
    return z[CAPPED] == 1 and barred(z, r, d, a)


def barred(z: Ints, r: Floats, d: int, a: int) -> bool:
    """Whether the pair would cross a limit."""
    for j in range(z[z[SEEN_START] + a], z[z[SEEN_START] + a + 1]):
        h = z[z[SEEN] + j]
        row = z[z[ROW_START] + d]
        while row < z[z[ROW_START] + d + 1]:
            unit = z[z[ROW_UNIT] + row]
            row, load, _, _ = moved(z, d, h, row, 1)
            load = 0 if z[z[COPIES] + d * z[H] + h] > 0 else load
            sets = z[z[JUDGED] + unit * z[H] + h] == 1 and z[z[KIND] + unit] < COSINE
            if sets and z[z[LOAD] + unit * z[H] + h] + load > z[z[CAP] + unit]:
                return True
    if z[CAREFUL] == 0:
        return False
    _, _, bad = attempt(z, r, d, a)
    return bad
