"""Annealing of plans that hands see: plain functions, compiled if there is much to do.

As :mod:`policies.solvers.kernels.annealing`, for all that sets can ask: steps, classes, trust,
coalitions, limits on single sets. What a hand holds of an entry is counted by its members'
copies, so loads change only with the first and the last of them. Limits have a price,
which rises while the plan is past one and falls while it keeps them all.
"""

from __future__ import annotations

from math import exp, log
from typing import Final, NamedTuple

from policies.solvers.kernels.array_types import Bools2, Floats, Floats2, Ints, Ints2

ENTRY_POINTS: Final = ("walk",)

LAMBDA, BETA, HEAT, PRICE, LOW, HIGH, RATE, LIMIT, REF, BEST, LOOK = range(11)
"""Places in the numbers of a walk; the price of limits stays from low to high."""

SIZE: Final = 11

EVEN: Final = 0.5
DRAWS: Final = 8  # for a step
SWAPS: Final = 0.5  # of the moves: an entry of the same set comes back for it

SUM, OVER, WORTH = range(3)
"""Places in ``total``: exponentials, excess, u."""


class State(NamedTuple):
    """What changes with the plan; n entries, k adversaries, m sets, h hands.

    Attributes
    ----------
    chosen, best : bool array, shape (n, k)
        The plan, and the best one that was seen within all limits.
    degree, seats : int64 array, shape (n,), (k,)
        Copies of each entry, pairs of each adversary.
    copies : int64 array, shape (n, h)
        Members of a hand who hold the entry, history included.
    touched : int64 array, shape (classes, h)
        Entries of a class that a hand holds.
    load : int64 array, shape (m, h)
    mean : float64 array, shape (h,)
    heat : float64 array, shape (m, h)
        Exponentials of f of each set; those of the means are in the first row.
    total : float64 array, shape (3,)
        Their sum, what the plan is past its limits by, and u.
    known : float64 array, shape (m, loads)
        Those exponentials by load, up to that of f = 1; without columns where these are
        too many.
    """

    chosen: Bools2
    best: Bools2
    degree: Ints
    seats: Ints
    copies: Ints2
    touched: Ints2
    load: Ints2
    mean: Floats
    heat: Floats2
    total: Floats
    known: Floats2


class Fixed(NamedTuple):
    """What does not.

    Attributes
    ----------
    member_start, member
        Entries of each set (CSR).
    start, unit, amount, slot
        Sets of each entry, what it adds to their loads, and its class or -1 (CSR).
    kind, full : int64 array, shape (m,)
        0 step, 1 linear, 2 quadratic; the load of f = 1.
    cap : int64 array, shape (m, h)
        The highest load that a limit allows.
    judged : bool array, shape (m, h)
        Whether f counts.
    seen_start, seen
        Hands that see what an adversary is given.
    average : float
        What a sum of f is divided by for its mean; 0 for the worst set.
    levelled : bool
        Whether f counts at all.
    may, lo, hi, room
        Which pairs, how many copies and pairs are allowed.
    worth : float64 array, shape (n, k)
    """

    member_start: Ints
    member: Ints
    start: Ints
    unit: Ints
    amount: Ints
    slot: Ints
    kind: Ints
    full: Ints
    cap: Ints2
    judged: Bools2
    seen_start: Ints
    seen: Ints
    average: float
    levelled: bool
    may: Bools2
    lo: Ints
    hi: Ints
    room: Ints
    worth: Floats2


def share(it: Fixed, q: int, load: int) -> float:
    """Return f of a set at a load."""
    if load >= it.full[q]:
        return 1.0
    if it.kind[q] == 0:
        return 0.0
    part = float(load) / float(it.full[q])
    return part * part if it.kind[q] > 1 else part


def excess(it: Fixed, q: int, h: int, load: int) -> float:
    """Return what a load is past its limit by: 1 for that, and a part for how far."""
    if load <= it.cap[q, h]:
        return 0.0
    return 1.0 + float(load - it.cap[q, h]) / float(max(it.full[q], 1))


def heated(s: State, q: int, h: int, heat: float) -> None:
    """Set a term of the sum of exponentials."""
    s.total[SUM] += heat - s.heat[q, h]
    s.heat[q, h] = heat


def reheated(s: State, numbers: Floats, h: int) -> None:
    """Set the term of a mean."""
    power = numbers[BETA] * (s.mean[h] - numbers[REF])
    heated(s, 0, h, exp(min(power, 300.0)))


def fresh(s: State, it: Fixed, numbers: Floats, q: int, load: int) -> float:
    """Return the term of a set at a load."""
    if s.known.shape[1] > 0:
        return float(s.known[q, min(load, it.full[q])])
    power = numbers[BETA] * (share(it, q, load) - numbers[REF])
    return exp(min(power, 300.0))


def shift(s: State, it: Fixed, numbers: Floats, q: int, h: int, by: int) -> None:
    """Change a load, and what follows from it."""
    old = s.load[q, h]
    new = old + by
    s.load[q, h] = new
    s.total[OVER] += excess(it, q, h, new) - excess(it, q, h, old)
    if not it.levelled or not it.judged[q, h]:
        return
    if it.average > 0:
        s.mean[h] += (share(it, q, new) - share(it, q, old)) / it.average
    else:
        heated(s, q, h, fresh(s, it, numbers, q, new))


def turn(s: State, it: Fixed, numbers: Floats, d: int, a: int, sign: int) -> None:
    """Give (sign 1) or take (-1) a pair: loads of all hands that see it."""
    s.chosen[d, a] = sign > 0
    s.degree[d] += sign
    s.seats[a] += sign
    s.total[WORTH] += sign * it.worth[d, a]
    for i in range(it.seen_start[a], it.seen_start[a + 1]):
        h = it.seen[i]
        s.copies[d, h] += sign
        if s.copies[d, h] != (1 if sign > 0 else 0):
            continue
        for r in range(it.start[d], it.start[d + 1]):
            c = it.slot[r]
            if c >= 0:
                s.touched[c, h] += sign
                if s.touched[c, h] != (1 if sign > 0 else 0):
                    continue
            shift(s, it, numbers, it.unit[r], h, sign * it.amount[r])
        if it.average > 0 and it.levelled:
            reheated(s, numbers, h)


def top(s: State, it: Fixed) -> float:
    """Return f of the plan: of the worst set, or the highest mean."""
    highest = 0.0
    if it.average > 0:
        for h in range(s.load.shape[1]):
            highest = max(highest, s.mean[h])
        return highest
    for q in range(len(it.full)):
        for h in range(s.load.shape[1]):
            if it.judged[q, h]:
                highest = max(highest, share(it, q, s.load[q, h]))
    return highest


def settle(s: State, it: Fixed, numbers: Floats) -> None:
    """Add everything up anew, from the loads: sums drift, and so does beta."""
    s.total[SUM] = 0.0 if it.levelled else 1.0
    s.total[OVER] = 0.0
    s.total[WORTH] = 0.0
    for d in range(it.worth.shape[0]):
        for a in range(it.worth.shape[1]):
            if s.chosen[d, a]:
                s.total[WORTH] += it.worth[d, a]
    for h in range(s.load.shape[1]):
        s.mean[h] = 0.0
    for q in range(len(it.full)):  # rows of loads lie together
        for h in range(s.load.shape[1]):
            s.heat[q, h] = 0.0
            s.total[OVER] += excess(it, q, h, s.load[q, h])
            if it.average > 0 and it.judged[q, h]:
                s.mean[h] += share(it, q, s.load[q, h]) / it.average
    numbers[REF] = top(s, it)
    if not it.levelled:
        return
    if it.average > 0:
        for h in range(s.load.shape[1]):
            reheated(s, numbers, h)
        return
    for q in range(s.known.shape[0]):
        for load in range(min(s.known.shape[1], it.full[q] + 1)):
            power = numbers[BETA] * (share(it, q, load) - numbers[REF])
            s.known[q, load] = exp(min(power, 300.0))
    for q in range(len(it.full)):
        for h in range(s.load.shape[1]):
            if it.judged[q, h]:
                heated(s, q, h, fresh(s, it, numbers, q, s.load[q, h]))


def look(s: State, it: Fixed, numbers: Floats) -> None:
    """Keep the plan if it is the best within all limits; move the prices of limits."""
    highest = top(s, it) if it.levelled else 0.0
    past = highest > numbers[LIMIT]
    if numbers[LIMIT] < 1.0:
        step = numbers[RATE] if past else -numbers[RATE]
        numbers[LAMBDA] = min(max(numbers[LAMBDA] * exp(step), 1e-200), 1e200)
    wide = s.total[OVER] > EVEN
    step = numbers[RATE] if wide else -numbers[RATE]
    price = numbers[PRICE] * exp(step)
    numbers[PRICE] = min(max(price, numbers[LOW]), numbers[HIGH])
    value = s.total[WORTH]
    if numbers[LIMIT] >= 1.0:
        value -= numbers[LAMBDA] * highest
    if past or wide or value <= numbers[BEST]:
        return
    numbers[BEST] = value
    for d in range(it.worth.shape[0]):
        for a in range(it.worth.shape[1]):
            s.best[d, a] = s.chosen[d, a]


def holder(s: State, d: int, skip: int) -> int:
    """Return the adversary who holds an entry after so many others."""
    for a in range(s.chosen.shape[1]):
        if s.chosen[d, a]:
            if skip == 0:
                return a
            skip -= 1
    return -1


def partner(s: State, it: Fixed, a: int, b: int, first: int) -> int:
    """Return an entry that can go from b, who is full, to a; -1 without any."""
    n = len(it.lo)
    for i in range(n):
        e = (first + i) % n
        if s.chosen[e, b] and not s.chosen[e, a] and it.may[e, a]:
            return e
    return -1


def mate(s: State, it: Fixed, d: int, a: int, b: int, draws: Floats2, i: int) -> int:
    """Draw an entry that shares a set with d and can go from b to a; -1 if it cannot."""
    rows = it.start[d + 1] - it.start[d]
    if rows == 0:
        return -1
    q = it.unit[it.start[d] + int(draws[i, 5] * rows)]
    size = it.member_start[q + 1] - it.member_start[q]
    e = it.member[it.member_start[q] + int(draws[i, 7] * size)]
    fits = s.chosen[e, b] and not s.chosen[e, a] and it.may[e, a]
    return int(e) if fits else -1


def change(
    s: State, it: Fixed, d: int, b: int, draws: Floats2, i: int
) -> tuple[int, int, int]:
    """Draw a change of entry d: who loses it, who gets it, and what goes back for it.

    -1 for nobody; nobody twice is no change.
    """
    degree = s.degree[d]
    if s.chosen[d, b]:
        return (b if degree > it.lo[d] else -1), -1, -1
    full = s.seats[b] >= it.room[b]
    if not it.may[d, b] or (full and degree == 0):
        return -1, -1, -1
    if not full and degree < it.hi[d] and (draws[i, 2] < EVEN or degree == 0):
        return -1, b, -1
    a = holder(s, d, int(draws[i, 3] * degree))
    if not full:
        return a, b, (mate(s, it, d, a, b, draws, i) if draws[i, 6] < SWAPS else -1)
    e = partner(s, it, a, b, int(draws[i, 5] * len(it.lo)))
    if e < 0:
        return -1, -1, -1
    return a, b, e


def swap(s: State, it: Fixed, numbers: Floats, d: int, c: int, a: int) -> None:
    """Give an entry to c and take it from a; -1 for nobody, and for no entry."""
    if d < 0:
        return
    if c >= 0:
        turn(s, it, numbers, d, c, 1)
    if a >= 0:
        turn(s, it, numbers, d, a, -1)


def lost(s: State, it: Fixed, numbers: Floats, before: float, over: float) -> float:
    """Return what disclosure and limits cost since then, at their prices."""
    cost = float(numbers[PRICE] * (s.total[OVER] - over))
    if it.levelled:
        after = max(s.total[SUM], 1e-300)
        rise = log(after) - log(max(before, 1e-300))
        cost += numbers[LAMBDA] * rise / numbers[BETA]
    return cost


def walk(s: State, it: Fixed, numbers: Floats, draws: Floats2) -> None:
    """Make one step for each row of ``draws``, shape (steps, ``DRAWS``)."""
    n, k = it.worth.shape
    settle(s, it, numbers)
    every = int(numbers[LOOK])
    for i in range(len(draws)):
        if i % every == every - 1:
            look(s, it, numbers)
        d = int(draws[i, 0] * n)
        a, c, e = change(s, it, d, int(draws[i, 1] * k), draws, i)
        if a < 0 and c < 0:
            continue
        heat, over, u = s.total[SUM], s.total[OVER], s.total[WORTH]
        swap(s, it, numbers, d, c, a)
        swap(s, it, numbers, e, a, c)
        won = s.total[WORTH] - u - lost(s, it, numbers, heat, over)
        if won < numbers[HEAT] * log(max(draws[i, 4], 1e-300)):
            swap(s, it, numbers, e, c, a)
            swap(s, it, numbers, d, a, c)
            s.total[SUM], s.total[OVER], s.total[WORTH] = heat, over, u
        elif (
            not it.levelled and s.total[OVER] < EVEN and s.total[WORTH] > numbers[BEST]
        ):
            look(s, it, numbers)
    look(s, it, numbers)
