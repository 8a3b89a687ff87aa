"""Annealing of load tradeoffs on a smoothed maximum: plain functions, compiled if large.

The maximum of many f is replaced by log(sum of exp(beta * f)) / beta, which moves with
every load. ``heat`` holds the terms of that sum, ``total[0]`` the sum.
"""

from __future__ import annotations

from math import exp, log
from typing import Any, Final

NAMES: Final = ("turn", "walk", "change")
DOORS: Final = ("walk",)


def turn(state: Any, fixed: Any, beta: float, d: int, a: int, sign: int) -> None:  # noqa: ANN401
    """Give (sign 1) or take (-1) a pair: its loads, and the sum of exponentials."""
    chosen, degree, seats, load, mean, heat, total = state
    start, unit, part, square, held, average, ref = fixed
    chosen[d, a] = sign > 0
    degree[d] += sign
    seats[a] += sign
    if held[d, a]:
        return
    for r in range(start[d], start[d + 1]):
        q = unit[r]
        old = load[q, a]
        new = old + sign * part[r]
        load[q, a] = new
        f = new * new if square[q] else new
        if average > 0:
            mean[a] += (f - (old * old if square[q] else old)) / average
        else:
            fresh = exp(min(beta * (f - ref), 300.0))
            total[0] += fresh - heat[q, a]
            heat[q, a] = fresh
    if average > 0:
        fresh = exp(min(beta * (mean[a] - ref), 300.0))
        total[0] += fresh - heat[0, a]
        heat[0, a] = fresh


def change(
    state: Any,  # noqa: ANN401
    rules: Any,  # noqa: ANN401
    d: int,
    b: int,
    one: float,
    two: float,
) -> tuple[int, int]:
    """Draw a change of entry d: who loses it and who gets it, -1 for nobody."""
    chosen, degree, seats = state[0], state[1], state[2]
    may, lo, hi, room = rules
    if chosen[d, b]:
        return (b if degree[d] > lo[d] else -1), -1
    if not may[d, b] or seats[b] >= room[b]:
        return -1, -1
    if degree[d] < hi[d] and (one < 0.5 or degree[d] == 0):
        return -1, b
    skip = int(two * degree[d])
    for a in range(chosen.shape[1]):
        if chosen[d, a]:
            if skip == 0:
                return a, b
            skip -= 1
    return -1, -1


def walk(
    state: Any,  # noqa: ANN401
    fixed: Any,  # noqa: ANN401
    rules: Any,  # noqa: ANN401
    worth: Any,  # noqa: ANN401
    numbers: Any,  # noqa: ANN401
    draws: Any,  # noqa: ANN401
) -> None:
    """Make one step for each row of ``draws``, shape (steps, 5).

    ``numbers`` is lambda, beta and the temperature.
    """
    lambda_, beta, heat_of = numbers[0], numbers[1], numbers[2]
    total = state[6]
    n, k = worth.shape
    for i in range(draws.shape[0]):
        d, b = int(draws[i, 0] * n), int(draws[i, 1] * k)
        a, c = change(state, rules, d, b, draws[i, 2], draws[i, 3])
        if a < 0 and c < 0:
            continue
        before = total[0]
        gain = 0.0
        if a >= 0:
            gain -= worth[d, a]
            turn(state, fixed, beta, d, a, -1)
        if c >= 0:
            gain += worth[d, c]
            turn(state, fixed, beta, d, c, 1)
        after = max(total[0], 1e-300)
        gain -= lambda_ * (log(after) - log(max(before, 1e-300))) / beta
        if gain < heat_of * log(max(draws[i, 4], 1e-300)):
            if c >= 0:
                turn(state, fixed, beta, d, c, -1)
            if a >= 0:
                turn(state, fixed, beta, d, a, 1)
            total[0] = before
