"""Aggregates of f as kernels: what a unit adds to one, and what hands make of it.

See :mod:`policies.model.aggregates`; without one these are not called.
"""

from __future__ import annotations

from math import exp, log
from typing import Final

from policies.model.sets import Ints
from policies.solvers.kernels.tape import (
    ABOVE,
    BAR,
    COUNTING,
    FACTOR,
    FOLD,
    LEVEL,
    POWERED,
    ROOT,
    SUMMED,
    F,
    Floats,
    H,
)

NAMES: Final = ("folded", "shared", "gathered")


def folded(z: Ints, r: Floats, unit: int, f: float) -> float:
    """Return what a unit adds to its hand's part of an aggregate at this f."""
    value: float = r[z[FACTOR] + unit]
    if z[FOLD] == POWERED:
        for _ in range(z[ROOT]):
            value *= f
        return value
    if z[FOLD] >= COUNTING:
        return value if f > r[BAR] + 1e-12 else 0.0
    return value * f


def shared(z: Ints, unit: int, old: float, new: float) -> tuple[float, float]:
    """Return what a hand adds and drops where a unit counts once, and book it."""
    if new > old:
        z[z[ABOVE] + unit] += 1
        return 0.0, new if z[z[ABOVE] + unit] == 1 else 0.0
    if new < old:
        z[z[ABOVE] + unit] -= 1
        return old if z[z[ABOVE] + unit] == 0 else 0.0, 0.0
    return 0.0, 0.0


def gathered(z: Ints, r: Floats) -> None:
    """Bring an aggregate up to date."""
    top, total = 0.0, 0.0
    for h in range(z[H]):
        level = r[z[LEVEL] + h]
        if z[FOLD] == POWERED:
            level = exp(log(level) / z[ROOT]) if level > 0.0 else 0.0
        total += level
        top = max(top, level)
    r[F] = total if z[SUMMED] else top
