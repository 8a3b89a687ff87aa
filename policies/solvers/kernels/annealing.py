"""Annealing of load tradeoffs on a smoothed maximum: plain functions, compiled if large.

The maximum of many f is replaced by log(sum of exp(beta * f)) / beta, which moves with
every load. ``heat`` holds the terms of that sum, ``total[0]`` the sum.
"""

from __future__ import annotations

from math import exp, log
from typing import Final, NamedTuple

from policies.solvers.kernels.array_types import Bools, Bools2, Floats, Floats2, Ints

ENTRY_POINTS: Final = ("walk",)


class State(NamedTuple):
    """What changes with the plan; n entries, k adversaries, m sets.

    Attributes
    ----------
    chosen : bool array, shape (n, k)
    degree, seats : int64 array, shape (n,), (k,)
        Copies of each entry, pairs of each adversary.
    load : float64 array, shape (m, k)
    mean : float64 array, shape (k,)
    heat : float64 array, shape (m, k) or (1, k)
    total : float64 array, shape (1,)
    """

    chosen: Bools2
    degree: Ints
    seats: Ints
    load: Floats2
    mean: Floats
    heat: Floats2
    total: Floats


class Fixed(NamedTuple):
    """What does not.

    Attributes
    ----------
    start, unit, part
        Sets of each entry, and its part of their loads (CSR).
    square : bool array, shape (m,)
        Whether f is the square of the load.
    held : bool array, shape (n, k)
    average : float
        What a sum of f is divided by for its mean; 0 for the worst set.
    ref : float
        f that is subtracted below the exponential.
    may, lo, hi, room
        Which pairs, how many copies and pairs are allowed.
    worth : float64 array, shape (n, k)
    """

    start: Ints
    unit: Ints
    part: Floats
    square: Bools
    held: Bools2
    average: float
    ref: float
    may: Bools2
    lo: Ints
    hi: Ints
    room: Ints
    worth: Floats2


def turn(s: State, it: Fixed, beta: float, d: int, a: int, sign: int) -> None:
    """Give (sign 1) or take (-1) a pair: its loads, and the sum of exponentials."""
    s.chosen[d, a] = sign > 0
    s.degree[d] += sign
    s.seats[a] += sign
    if it.held[d, a]:
        return
    for r in range(it.start[d], it.start[d + 1]):
        q = it.unit[r]
        old = s.load[q, a]
        new = old + sign * it.part[r]
        s.load[q, a] = new
        f = new * new if it.square[q] else new
        if it.average > 0:
            s.mean[a] += (f - (old * old if it.square[q] else old)) / it.average
        else:
            warm(s, q, a, beta * (f - it.ref))
    if it.average > 0:
        warm(s, 0, a, beta * (s.mean[a] - it.ref))


def warm(s: State, q: int, a: int, power: float) -> None:
    """Set a term of the sum of exponentials."""
    fresh = exp(min(power, 300.0))
    s.total[0] += fresh - s.heat[q, a]
    s.heat[q, a] = fresh


def change(
    s: State, it: Fixed, d: int, b: int, one: float, two: float
) -> tuple[int, int]:
    """Draw a change of entry d: who loses it and who gets it, -1 for nobody."""
    degree = s.degree[d]
    if s.chosen[d, b]:
        return (b if degree > it.lo[d] else -1), -1
    if not it.may[d, b] or s.seats[b] >= it.room[b]:
        return -1, -1
    if degree < it.hi[d] and (one < 0.5 or degree == 0):
        return -1, b
    skip = int(two * degree)
    for a in range(s.chosen.shape[1]):
        if s.chosen[d, a]:
            if skip == 0:
                return a, b
            skip -= 1
    return -1, -1


def walk(s: State, it: Fixed, numbers: Floats, draws: Floats2) -> None:
    """Make one step for each row of ``draws``, shape (steps, 5).

    ``numbers`` is lambda, beta and the temperature.
    """
    lambda_, beta, heat_of = numbers[0], numbers[1], numbers[2]
    n, k = it.worth.shape
    for i in range(len(draws)):
        d, b = int(draws[i, 0] * n), int(draws[i, 1] * k)
        a, c = change(s, it, d, b, draws[i, 2], draws[i, 3])
        if a < 0 and c < 0:
            continue
        before = s.total[0]
        gain = 0.0
        if a >= 0:
            gain -= it.worth[d, a]
            turn(s, it, beta, d, a, -1)
        if c >= 0:
            gain += it.worth[d, c]
            turn(s, it, beta, d, c, 1)
        after = max(s.total[0], 1e-300)
        gain -= lambda_ * (log(after) - log(max(before, 1e-300))) / beta
        if gain < heat_of * log(max(draws[i, 4], 1e-300)):
            if c >= 0:
                turn(s, it, beta, d, c, -1)
            if a >= 0:
                turn(s, it, beta, d, a, 1)
            s.total[0] = before
