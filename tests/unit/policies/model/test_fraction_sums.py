"""Sums of fractions: exact, bounded, and decided by bounds wherever those suffice."""

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from policies.model.aggregates import Aggregate, Parts, Shape
from policies.model.fraction_sums import FractionSum, highest_sum, total

FRACTIONS = st.fractions(min_value=0, max_value=3, max_denominator=50)
BITS = st.integers(1, 12)


@settings(max_examples=60, deadline=None)
@given(st.lists(FRACTIONS, max_size=9), BITS, FRACTIONS, st.booleans())
def test_a_sum_is_exact_and_lies_between_its_bounds(values, bits, limit, strict):
    made, wanted = FractionSum(values), sum(values, Fraction(0))
    low, high = made.between(bits)
    assert total(values) == made.exact == wanted
    assert low <= wanted <= high
    assert (high - low) * 2**bits <= len(values)
    assert low == high or low < wanted
    for one in (limit, wanted, low, high):
        kept = wanted < one if strict else wanted <= one
        assert made.within(one, bits, strict=strict) is kept


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(FRACTIONS, max_size=4), max_size=5), BITS)
def test_the_highest_sum_is_found_however_rough_the_bounds(lists, bits):
    found = highest_sum(map(FractionSum, lists), bits)
    assert found.exact == max((sum(one, Fraction(0)) for one in lists), default=0)


def primes(count):
    found = [2]
    while len(found) < count:
        following = (n for n in range(found[-1] + 1, 10**4))
        found.append(next(n for n in following if all(n % p for p in found)))
    return found


def test_a_power_mean_of_many_denominators_is_decided_by_bounds(monkeypatch):
    """Terms f^32 with primes of their own have no sum that is short."""
    made = Parts(Aggregate(Shape.SOFT_MAX, q=32, over=Fraction(300)))
    for number, prime in enumerate(primes(300)):
        made.add(number, number, number % 2, Fraction(prime // 2 + 1, prime))
    value = made.value
    monkeypatch.setattr(FractionSum, "exact", property(lambda _: pytest.fail("summed")))
    assert made.value == value
    step = Fraction(1, 10**18)
    assert made.kept(value, strict=False)
    assert not made.kept(value - step, strict=False)
    assert made.past(Fraction(1, 2), strict=True) == [0, 1]
