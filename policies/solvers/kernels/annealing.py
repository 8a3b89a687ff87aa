"""Annealing: change plans at random, accepting worse ones less and less often.

One annealer with two kinds of steps on the arrays of
:mod:`policies.solvers.kernels.plan_state`. :func:`anneal` covers everything that sets
can require. The maximum of many f is smoothed to log(sum of exp(beta f)) / beta, which
moves with every load and is within log(terms) / beta of the maximum. A load past its
limit costs a price, which rises while the plan exceeds a limit and falls while it keeps
them all. :func:`anneal_across` maximises utility below limits on weighted sets alone,
at a price set by the caller; its steps cost a fifth, as only loads are kept up to date.

Both accept a change that loses ``x`` with probability exp(-x / temperature) (Metropolis
et al. 1953; Kirkpatrick, Gelatt and Vecchi 1983). Nothing here is exact or proven: the
best plan is judged afterwards.

Of the plan state they keep ``chosen``, ``copies``, ``load``, ``part``, ``total[U]`` and
the counts of entries and adversaries up to date; disclosure is computed from the loads.
"""

from __future__ import annotations

from math import exp, log
from typing import Final, NamedTuple

from policies.model.problem_arrays import Floats
from policies.solvers.kernels.plan_state import (
    AMOUNT,
    CLASSES,
    DEGREE,
    ENTRY,
    FULL,
    GIVEN,
    HI,
    KIND,
    LINEAR,
    LO,
    MEMBERS,
    ROOM,
    ROWS,
    SEEN,
    SLOT,
    STEP,
    UNIT,
    Bools2,
    Floats2,
    Ints2,
    State,
    U,
)

ENTRY_POINTS: Final = ("anneal", "anneal_across")

LAMBDA, BETA, TEMPERATURE, PRICE, LOW, HIGH, RATE, LIMIT, REF, BEST, LOOK = range(11)
"""Indices of a run's parameters: prices of f and of limits (from low to high), and the
step by which they change; the limit on a mean; the f subtracted in the exponential; the
value of the best plan; steps between two evaluations of the true objective."""

NUMBERS: Final = 11  # of them

DRAWS: Final = 8  # random numbers per step
DRAWS_ACROSS: Final = 5  # the same for ``anneal_across``

EVEN: Final = 0.5  # chance of moving a copy where one more could be given instead
SWAPS: Final = 0.5  # share of moves in which an entry of the same set comes back

SUM, OVER, _SUMS = range(3)  # indices of ``sums``
SUMS: Final = _SUMS


class Annealing(NamedTuple):
    """Annealing's data beside the plan state; n entries, k adversaries, h observers.

    Attributes
    ----------
    best : bool array, shape (n, k)
        The best plan so far within all limits.
    cap : int64 array, shape (q, h)
        The highest load that the limit allows.
    term : float64 array, shape (q, h)
        Exponentials of f of each set; for means, in the first row.
    listed : float64 array, shape (q, loads)
        Exponentials by load, up to that of f = 1; without columns where there are too
        many loads.
    mean : float64 array, shape (h,)
    sums : float64 array, shape (SUMS,)
        The sum of all terms; the total excess over limits.
    divisor : float
        Divisor of a sum of f for its mean; 0 for the worst set.
    smooth : bool
        Whether f counts, not just limits.
    """

    best: Bools2
    cap: Ints2
    term: Floats2
    listed: Floats2
    mean: Floats
    sums: Floats
    divisor: float
    smooth: bool


def set_disclosure(s: State, q: int, load: int) -> float:
    """Return f of a set at a load."""
    full = s.unit[q, FULL]
    if load >= full:
        return 1.0
    kind = s.unit[q, KIND]
    if kind <= STEP:
        return 0.0
    part = float(load) / float(full)
    f = part
    while kind > LINEAR:  # inlined: a function call would cost a fifth of the time
        f *= part
        kind -= 1
    return f


def excess(s: State, x: Annealing, q: int, o: int, load: int) -> float:
    """Return the excess of a load over its limit: 1, and a part for how far it is."""
    if load <= x.cap[q, o]:
        return 0.0
    return 1.0 + float(load - x.cap[q, o]) / float(max(s.unit[q, FULL], 1))


def set_term(x: Annealing, q: int, o: int, term: float) -> None:
    """Set a term of the sum of exponentials."""
    x.sums[SUM] += term - x.term[q, o]
    x.term[q, o] = term


def exponential(f: float, numbers: Floats) -> float:
    """Return exp(beta (f - ref)), clipped to the range of floats."""
    return exp(min(numbers[BETA] * (f - numbers[REF]), 300.0))


def term_at(s: State, x: Annealing, numbers: Floats, q: int, load: int) -> float:
    """Return the term of a set at a load."""
    if x.listed.shape[1] > 0:
        return float(x.listed[q, min(load, s.unit[q, FULL])])
    return exponential(set_disclosure(s, q, load), numbers)


def plan_pair(
    s: State, x: Annealing, numbers: Floats, d: int, a: int, sign: int
) -> None:
    """Plan a pair (sign 1) or take it back (-1), for all observers who see it."""
    s.chosen[d, a] = sign > 0
    s.entry[d, DEGREE] += sign
    s.adversary[a, GIVEN] += sign
    s.total[U] += sign * s.worth[d, a]
    first = 1 if sign > 0 else 0
    for i in range(s.adversary[a, SEEN], s.adversary[a + 1, SEEN]):
        o = s.seen[i]
        s.copies[d, o] += sign
        if s.copies[d, o] != first:
            continue  # only the first and the last copy change loads
        for r in range(s.entry[d, ROWS], s.entry[d + 1, ROWS]):
            q, by = s.row[r, UNIT], sign * s.row[r, AMOUNT]
            if s.unit[q, KIND] == CLASSES:
                slot = s.row[r, SLOT]
                s.part[slot, o] += sign
                if s.part[slot, o] != first:
                    continue
                by = sign
            old = s.load[q, o]
            new = old + by
            s.load[q, o] = new
            x.sums[OVER] += excess(s, x, q, o, new) - excess(s, x, q, o, old)
            if not x.smooth or not s.judged[q, o]:
                continue
            if x.divisor > 0:
                rise = set_disclosure(s, q, new) - set_disclosure(s, q, old)
                x.mean[o] += rise / x.divisor
            else:
                set_term(x, q, o, term_at(s, x, numbers, q, new))
        if x.divisor > 0 and x.smooth:
            set_term(x, 0, o, exponential(x.mean[o], numbers))


def highest(s: State, x: Annealing) -> float:
    """Return f of the plan: of the worst set, or the highest mean."""
    top = 0.0
    if x.divisor > 0:
        for o in range(len(x.mean)):
            top = max(top, x.mean[o])
        return top
    for q in range(len(s.load)):
        for o in range(s.load.shape[1]):
            if s.judged[q, o]:
                top = max(top, set_disclosure(s, q, s.load[q, o]))
    return top


def add_up(s: State, x: Annealing, numbers: Floats) -> None:
    """Recompute all sums from the loads: they drift, and beta changes."""
    x.sums[SUM] = 0.0 if x.smooth else 1.0
    x.sums[OVER] = 0.0
    s.total[U] = 0.0
    for d in range(s.worth.shape[0]):
        for a in range(s.worth.shape[1]):
            if s.chosen[d, a]:
                s.total[U] += s.worth[d, a]
    for o in range(s.load.shape[1]):
        x.mean[o] = 0.0
    for q in range(len(s.load)):  # rows of loads are contiguous
        for o in range(s.load.shape[1]):
            x.term[q, o] = 0.0
            x.sums[OVER] += excess(s, x, q, o, s.load[q, o])
            if x.divisor > 0 and s.judged[q, o]:
                x.mean[o] += set_disclosure(s, q, s.load[q, o]) / x.divisor
    numbers[REF] = highest(s, x)
    if not x.smooth:
        return
    if x.divisor > 0:
        for o in range(s.load.shape[1]):
            set_term(x, 0, o, exponential(x.mean[o], numbers))
        return
    for q in range(len(x.listed)):
        for load in range(min(x.listed.shape[1], s.unit[q, FULL] + 1)):
            x.listed[q, load] = exponential(set_disclosure(s, q, load), numbers)
    for q in range(len(s.load)):
        for o in range(s.load.shape[1]):
            if s.judged[q, o]:
                set_term(x, q, o, term_at(s, x, numbers, q, s.load[q, o]))


def look(s: State, x: Annealing, numbers: Floats) -> None:
    """Keep the plan if it is the best within all limits; adjust the prices of limits."""
    top = highest(s, x) if x.smooth else 0.0
    past = top > numbers[LIMIT]
    if numbers[LIMIT] < 1.0:
        step = numbers[RATE] if past else -numbers[RATE]
        numbers[LAMBDA] = min(max(numbers[LAMBDA] * exp(step), 1e-200), 1e200)
    wide = x.sums[OVER] > EVEN
    price = numbers[PRICE] * exp(numbers[RATE] if wide else -numbers[RATE])
    numbers[PRICE] = min(max(price, numbers[LOW]), numbers[HIGH])
    value = s.total[U]
    if numbers[LIMIT] >= 1.0:
        value -= numbers[LAMBDA] * top
    if not past and not wide and value > numbers[BEST]:
        keep(s, x, numbers, value)


def keep(s: State, x: Annealing, numbers: Floats, value: float) -> None:
    """Keep the plan as the best so far; it keeps all limits."""
    numbers[BEST] = value
    for d in range(s.chosen.shape[0]):
        for a in range(s.chosen.shape[1]):
            x.best[d, a] = s.chosen[d, a]


def holder(s: State, d: int, skip: int) -> int:
    """Return the holder of an entry after skipping so many."""
    for a in range(s.chosen.shape[1]):
        if s.chosen[d, a]:
            if skip == 0:
                return a
            skip -= 1
    return -1


def mate(s: State, d: int, a: int, b: int, full: bool, one: float, two: float) -> int:
    """Draw an entry that can go from b to a for entry d; -1 if the one drawn cannot.

    It shares a set with d. If b is ``full``, some entry must go: any that b holds.
    """
    if full:
        n = len(s.worth)
        for i in range(n):
            e = (int(one * n) + i) % n
            if s.chosen[e, b] and not s.chosen[e, a] and s.able[e, a]:
                return e
        return -1
    rows = s.entry[d + 1, ROWS] - s.entry[d, ROWS]
    if rows == 0:
        return -1
    q = s.row[s.entry[d, ROWS] + int(one * rows), UNIT]
    size = s.unit[q + 1, MEMBERS] - s.unit[q, MEMBERS]
    e = s.member[s.unit[q, MEMBERS] + int(two * size), ENTRY]
    fits = s.chosen[e, b] and not s.chosen[e, a] and s.able[e, a]
    return int(e) if fits else -1


def change(s: State, d: int, b: int, one: float, two: float) -> tuple[int, int]:
    """Draw a change of entry d: who loses it and who gets it; -1 for nobody."""
    degree = s.entry[d, DEGREE]
    if s.chosen[d, b]:
        return (b if degree > s.entry[d, LO] else -1), -1
    full = s.adversary[b, GIVEN] >= s.adversary[b, ROOM]
    if not s.able[d, b] or (full and degree == 0):
        return -1, -1
    if not full and degree < s.entry[d, HI] and (one < EVEN or degree == 0):
        return -1, b
    return holder(s, d, int(two * degree)), b


def move(
    s: State, x: Annealing, numbers: Floats, d: int, source: int, target: int
) -> None:
    """Move an entry from one adversary to another; -1: nobody, or no entry."""
    if d < 0:
        return
    if target >= 0:
        plan_pair(s, x, numbers, d, target, 1)
    if source >= 0:
        plan_pair(s, x, numbers, d, source, -1)


def anneal(s: State, x: Annealing, numbers: Floats, draws: Floats2) -> None:
    """Make one step for each row of ``draws``, shape (steps, ``DRAWS``).

    A change loses -(change of u) + lambda / beta (change of log(sum of terms)) + price
    (change of the total excess over limits).
    """
    n, k = s.worth.shape
    add_up(s, x, numbers)
    every = int(numbers[LOOK])
    for i in range(len(draws)):
        if i % every == every - 1:
            look(s, x, numbers)
        d = int(draws[i, 0] * n)
        a, c = change(s, d, int(draws[i, 1] * k), draws[i, 2], draws[i, 3])
        if a < 0 and c < 0:
            continue
        e = -1
        if a >= 0 and c >= 0:
            full = s.adversary[c, GIVEN] >= s.adversary[c, ROOM]
            if full or draws[i, 6] < SWAPS:
                e = mate(s, d, a, c, full, draws[i, 5], draws[i, 7])
            if full and e < 0:
                continue
        terms, over, u = x.sums[SUM], x.sums[OVER], s.total[U]
        move(s, x, numbers, d, a, c)
        move(s, x, numbers, e, c, a)
        won = s.total[U] - u - numbers[PRICE] * (x.sums[OVER] - over)
        if x.smooth:
            rise = log(max(x.sums[SUM], 1e-300)) - log(max(terms, 1e-300))
            won -= numbers[LAMBDA] * rise / numbers[BETA]
        if won < numbers[TEMPERATURE] * log(max(draws[i, 4], 1e-300)):
            move(s, x, numbers, e, a, c)
            move(s, x, numbers, d, c, a)
            x.sums[SUM], x.sums[OVER], s.total[U] = terms, over, u
        elif not x.smooth and x.sums[OVER] < EVEN and s.total[U] > numbers[BEST]:
            look(s, x, numbers)
    look(s, x, numbers)


def crossed(s: State, x: Annealing, d: int, a: int, sign: int) -> int:
    """Return the increase of loads past limits on giving (1) or taking (-1) a pair."""
    more = 0
    for r in range(s.entry[d, ROWS], s.entry[d + 1, ROWS]):
        q = s.row[r, UNIT]
        past = s.load[q, a] - x.cap[q, a]
        more += max(past + sign * s.row[r, AMOUNT], 0) - max(past, 0)
    return more


def plan_plain_pair(s: State, d: int, a: int, sign: int) -> None:
    """Plan a pair (sign 1) or take it back (-1) for weighted sets: loads alone."""
    s.chosen[d, a] = sign > 0
    s.entry[d, DEGREE] += sign
    s.adversary[a, GIVEN] += sign
    for r in range(s.entry[d, ROWS], s.entry[d + 1, ROWS]):
        s.load[s.row[r, UNIT], a] += sign * s.row[r, AMOUNT]


def anneal_across(s: State, x: Annealing, numbers: Floats, draws: Floats2) -> None:
    """Make one step for each row of ``draws``, shape (steps, ``DRAWS_ACROSS``).

    For weighted sets without capacities, coalitions and history: nobody is full, and
    every adversary is its only observer. A change loses -(change of u) + price (change
    of the total excess of loads over caps).
    """
    n, k = s.worth.shape
    for i in range(len(draws)):
        d = int(draws[i, 0] * n)
        a, c = change(s, d, int(draws[i, 1] * k), draws[i, 2], draws[i, 3])
        if a < 0 and c < 0:
            continue
        gain, more = 0.0, 0
        if a >= 0:
            gain -= s.worth[d, a]
            more += crossed(s, x, d, a, -1)
        if c >= 0:
            gain += s.worth[d, c]
            more += crossed(s, x, d, c, 1)
        won = gain - numbers[PRICE] * more
        if won < 0.0 and won < numbers[TEMPERATURE] * log(max(draws[i, 4], 1e-300)):
            continue
        if a >= 0:
            plan_plain_pair(s, d, a, -1)
        if c >= 0:
            plan_plain_pair(s, d, c, 1)
        s.total[U] += gain
        x.sums[OVER] += more
        if x.sums[OVER] < EVEN and s.total[U] > numbers[BEST]:
            keep(s, x, numbers, s.total[U])
