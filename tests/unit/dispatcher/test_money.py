"""Amounts are counted in whole millionths, and written as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.money import money_of, parts_of


@given(st.integers(0, 10**15))
def test_an_amount_is_what_its_millionths_make(parts):
    assert parts_of(money_of(parts, "GBP")) == parts


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (0, "GBP:0.00"),
        (1_200_000, "GBP:1.20"),
        (10_000, "GBP:0.01"),
        (5_000, "GBP:0.005"),
        (1, "GBP:0.000001"),
        (10**12, "GBP:1000000.00"),
    ],
)
def test_an_amount_has_two_digits_or_as_many_as_it_needs(parts, text):
    assert str(money_of(parts, "GBP")) == text
