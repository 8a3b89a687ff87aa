"""Decimal numbers of a file as exact integers over one denominator.

A number written as 0.16666666666666666 means one sixth, and 0.1 means one tenth: the
simplest fraction that reads as the same double. So six sixths are exactly 1, and no
rounding decides whether ``f < tau``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from numbers import Rational
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.sets import Ints

LARGEST_DENOMINATOR: Final = 10**5
"""Largest denominator of a simple fraction; other numbers are read as decimals."""

ROUNDED_DENOMINATOR: Final = 2**60
"""Denominator used where the exact one would not fit 64 bits."""

_MOST_DIGITS = 15


def fraction(value: float | Rational) -> Fraction:
    """Return the fraction meant by a number: a simple one, else the decimal as written.

    Integers and fractions, numpy's too, are returned as they are.

    Examples
    --------
    >>> fraction(0.3333333333333333), fraction(0.039296615427)
    (Fraction(1, 3), Fraction(39296615427, 1000000000000))
    """
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    text = Fraction(repr(float(value)))
    if text.denominator <= LARGEST_DENOMINATOR:
        return text
    simple = text.limit_denominator(LARGEST_DENOMINATOR)
    return simple if float(simple) == value else text


def shares(values: Sequence[float]) -> tuple[list[int], int]:
    """Return parts of a whole as integers, and the integer for 1.

    Parameters
    ----------
    values : sequence of float
        Finite, >= 0, sum at most about 1.

    Returns
    -------
    amounts : list of int
    full : int
        ``amounts[i] / full`` is values[i]; where that would not fit 64 bits it is
        rounded up by less than 2^-60, so that f is counted high, never low.
    """
    read: dict[float, Fraction] = {v: fraction(v) for v in set(values)}
    full = lcm(*(f.denominator for f in read.values()))
    top = sum((read[v] for v in values), Fraction(0))
    if full < 2**62 and full * top < 2**62:
        return [int(read[v] * full) for v in values], full
    return [
        -int(-read[v] * ROUNDED_DENOMINATOR // 1) for v in values
    ], ROUNDED_DENOMINATOR


def proportions(values: Sequence[float]) -> list[int]:
    """Return integers in exactly the same proportions; only 0 maps to 0.

    Parameters
    ----------
    values : sequence of int or float
        Finite, >= 0; an int counts as it is written, however large.

    Examples
    --------
    >>> proportions([0.5, 2, 1e-3])
    [500, 2000, 1]
    """
    read: dict[float, Fraction] = {v: fraction(v) for v in set(values)}
    scale = lcm(*(f.denominator for f in read.values()))
    if (
        scale >= ROUNDED_DENOMINATOR
    ):  # of many simple fractions: powers of ten stay within reason
        read = {v: Fraction(repr(v)) for v in read}
        scale = lcm(*(f.denominator for f in read.values()))
    return [int(read[v] * scale) for v in values]


def grid(values: npt.ArrayLike, most: int) -> tuple[Ints, Fraction]:
    """Return a table of numbers as integers times one unit.

    Parameters
    ----------
    values : real array, shape (...), finite and >= 0
    most : int
        Bound on the largest integer, >= 1.

    Returns
    -------
    integers : int64 array, shape as ``values``
    unit : Fraction
        > 0. Exact for decimals of up to 15 digits that fit; else rounded to the
        nearest step, 1 / unit steps to one.
    """
    array = np.asarray(values, dtype=np.float64)
    top = float(array.max(initial=0.0))
    for digits in range(_MOST_DIGITS + 1):
        scale = 10**digits
        if top * scale >= min(most, 2**53):
            break
        steps = np.rint(array * scale)
        if (steps / scale == array).all():
            return steps.astype(np.int64), Fraction(1, scale)
    power = int(np.floor(np.log2(most))) - int(np.frexp(top)[1])
    steps = np.rint(np.ldexp(array, power))
    return steps.astype(np.int64), Fraction(1) / Fraction(2) ** power
