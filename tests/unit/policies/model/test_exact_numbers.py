"""Decimal numbers as exact integers over one denominator."""

from fractions import Fraction

import numpy as np
import pytest

from policies.model.exact_numbers import fraction, grid, shares


def test_sixths_and_tenths_are_what_they_say():
    """0.1666... is one sixth; six of them are exactly 1."""
    assert fraction(0.16666666666666666) == Fraction(1, 6)
    assert shares([1 / 6] * 6) == ([1] * 6, 6)
    assert shares([0.1, 0.2, 0.7]) == ([1, 2, 7], 10)


def test_what_does_not_fit_is_counted_high():
    """17 digits each: rounded up by less than 2^-60."""
    values = [0.12345678901234567, 0.23456789012345678, 0.31415926535897931]
    amounts, full = shares(values)
    assert full < 2**62
    for value, amount in zip(values, amounts, strict=True):
        assert 0 <= Fraction(amount, full) - fraction(value) < Fraction(1, 2**59)


def test_decimals_are_kept_exactly():
    """12 digits after the point: integers in units of 10^-12."""
    steps, unit = grid([[0.039296615427, 1.0]], 10**15)
    assert unit == Fraction(1, 10**12)
    assert steps.tolist() == [[39296615427, 10**12]]


def test_huge_numbers_get_coarse_steps():
    """3 * 10^20 does not fit: the step grows instead."""
    steps, unit = grid([[3e20, 1.0]], 10**15)
    assert steps.max() <= 10**15
    assert float(steps[0, 0] * unit) == pytest.approx(3e20, rel=1e-12)


def test_numbers_of_numpy_and_fractions_stay_what_they_are():
    assert fraction(np.float64(0.1)) == Fraction(1, 10)
    assert fraction(np.int64(3)) == 3
    assert fraction(Fraction(1, 10**9)) == Fraction(1, 10**9)
