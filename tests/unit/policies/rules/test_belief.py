"""Beliefs over finite tables, worked out by hand."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import ceil
from math import log2 as real_log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.rules.belief import (
    Beliefs,
    InvalidBeliefs,
    World,
    highest_posterior,
    information_gain,
    log2,
    mean_information_gain,
)
from tests.unit.policies.rules.belief_referee import closure, posterior

HALF = Fraction(1, 2)


def xor():
    """Two fair coins; the secret is whether they differ."""
    return Beliefs(
        tuple(
            World((a, b), a ^ b, Fraction(1, 4)) for a, b in product((0, 1), repeat=2)
        )
    )


def test_one_coin_says_nothing_and_both_say_all():
    """Prior 1/2; with both the belief is 1."""
    true = World((0, 1), 1, Fraction(0))
    assert posterior(xor(), [0], true) == 0
    assert posterior(xor(), [0, 1], true) == 1
    assert highest_posterior(xor(), [0]) == 0
    assert highest_posterior(xor(), [0, 1]) == 1
    for gain in (information_gain, mean_information_gain):
        assert gain(xor(), [1]) == 0
        assert gain(xor(), [0, 1]) == 1


def skewed():
    """Secret 1 has prior 1/4; a sign is right three times of four, whichever it is."""
    chances = {(0, 0): 9, (1, 0): 3, (0, 1): 1, (1, 1): 3}
    return Beliefs(
        tuple(World((d,), v, Fraction(c, 16)) for (d, v), c in chances.items())
    )


def test_a_sign_raises_the_belief_by_a_third():
    """Post 3/6 = 1/2, prior 1/4: (1/2 - 1/4) / (3/4) = 1/3; a wrong sign counts 0."""
    assert posterior(skewed(), [0], World((1,), 1, HALF)) == Fraction(1, 3)
    assert posterior(skewed(), [0], World((0,), 1, HALF)) == 0
    wrong = posterior(skewed(), [0], World((0,), 0, HALF))  # 9/10, prior 3/4
    assert highest_posterior(skewed(), [0]) == wrong == Fraction(3, 5)


def test_the_gain_is_that_of_the_most_telling_value_and_the_mean_is_below_it():
    """H(V) = H(1/4) = .8113; a sign of 0 leaves H(1/10) = .4690, one of 1 H(1/2) = 1.

    The mean is over 10 and 6 of 16.
    """

    def h(p):
        return -p * real_log2(p) - (1 - p) * real_log2(1 - p)

    worst = (h(1 / 4) - h(1 / 10)) / h(1 / 4)
    mean = (h(1 / 4) - (10 * h(1 / 10) + 6 * h(1 / 2)) / 16) / h(1 / 4)
    assert float(information_gain(skewed(), [0])) == pytest.approx(worst, abs=2e-12)
    assert float(mean_information_gain(skewed(), [0])) == pytest.approx(mean, abs=2e-12)


def table(*rows):
    """A table of one entry: (value, secret, count)."""
    total = sum(count for *_, count in rows)
    return Beliefs(
        tuple(World((d,), v, Fraction(count, total)) for d, v, count in rows)
    )


def test_a_rare_value_that_makes_the_secret_certain_counts_whole():
    """One in a hundred shows that somebody is ill; the mean hardly sees it."""
    guess = table(("common", "ill", 495), ("common", "well", 495), ("rare", "ill", 10))
    assert information_gain(guess, [0]) == 1
    assert Fraction(9, 1000) < mean_information_gain(guess, [0]) < Fraction(1, 100)


def test_a_value_after_which_more_is_open_gains_nothing():
    """1 in 20 was ill; after "mark" it is one in two: more is open than before.

    H(1/20) = .286; "none" leaves H(1/38) = .176, so what it gains is the worst.
    """
    turned = table(
        ("mark", "ill", 1),
        ("mark", "well", 1),
        ("none", "ill", 1),
        ("none", "well", 37),
    )
    assert 0 < information_gain(turned, [0]) < HALF
    mark = table(("mark", "ill", 1), ("mark", "well", 3), ("none", "ill", 3))
    assert information_gain(mark, [0]) == 1  # "none" tells all


@pytest.mark.parametrize(
    ("rows", "mean"),
    [
        # Nine secrets, of which a value leaves three: log 3 of log 9.
        ([(v // 3, v, 1) for v in range(9)], HALF),
        # 36 secrets; a value leaves six.
        ([(v // 6, v, 5) for v in range(36)], HALF),
        # Eight secrets; a value leaves two: 1 of 3 bits.
        ([(v // 2, v, 1) for v in range(8)], Fraction(666666666667, 10**12)),
    ],
)
def test_a_gain_that_is_a_fraction_is_found_exactly(rows, mean):
    """Irrational logarithms may be in a rational proportion: rounding adds nothing."""
    assert mean_information_gain(table(*rows), [0]) == mean
    assert information_gain(table(*rows), [0]) == mean


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("xyz"),
            st.sampled_from("vw"),
            st.one_of(st.integers(1, 9), st.integers(1, 10**30)),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_gain_is_the_next_multiple_above_itself(rows):
    """By decimals of 200 digits; less than 10^-120 beyond a multiple is none."""

    def entropy(counts):
        shares = [Decimal(c) / sum(counts) for c in counts if c]
        return -sum((p * p.ln() for p in shares), Decimal(0))

    def of(value):
        kept = [(v, c) for d, v, c in rows if value in (None, d)]
        return [sum(c for w, c in kept if w == v) for v in "vw"]

    with localcontext(prec=200):
        before, total = entropy(of(None)), sum(of(None))
        gains = {
            d: (1 - entropy(of(d)) / before if before else Decimal(0), sum(of(d)))
            for d in {d for d, *_ in rows}
        }
        worst = max(gain for gain, _ in gains.values())
        mean = sum(gain * weight for gain, weight in gains.values()) / total
        expected = [
            Fraction(max(0, ceil(gain * 10**12 - Decimal("1e-120"))), 10**12)
            for gain in (worst, mean)
        ]
    assert information_gain(table(*rows), [0]) == expected[0]
    assert mean_information_gain(table(*rows), [0]) == expected[1]


def test_a_secret_that_was_certain_can_not_be_disclosed():
    """Prior 1, entropy 0."""
    sure = Beliefs((World((0,), "x", HALF), World((1,), "x", HALF)))
    assert highest_posterior(sure, [0]) == 0
    assert information_gain(sure, [0]) == mean_information_gain(sure, [0]) == 0


def test_the_closure_remembers_what_a_later_entry_takes_back():
    """Entry 0 alone raises the belief; entry 1 shows that it was a false alarm."""
    table = Beliefs(
        (
            World((1, 0), 1, Fraction(3, 10)),
            World((1, 1), 1, Fraction(1, 10)),
            World((1, 1), 0, Fraction(1, 10)),
            World((0, 0), 0, Fraction(5, 10)),
        )
    )
    true = World((1, 1), 1, HALF)

    def f(held):
        return posterior(table, held, true)

    assert f([0]) > f([0, 1])
    assert closure(f, [0, 1]) == f([0])


@pytest.mark.parametrize(
    ("worlds", "told"),
    [
        ((World((0,), 0, HALF),), "sum to 1/2"),
        ((World((0,), 0, Fraction(3, 2)), World((1,), 0, -HALF)), "negative"),
        ((World((0,), 0, HALF), World((1, 1), 0, HALF)), "differ"),
    ],
)
def test_tables_check_themselves(worlds, told):
    """Sums, signs and widths."""
    with pytest.raises(InvalidBeliefs, match=told):
        Beliefs(worlds)


@given(st.fractions(min_value=1, max_value=10**6))
@settings(max_examples=60)
def test_logarithms_are_enclosed(value):
    """low <= log2 <= high, and close to each other."""
    low, high = log2(value)
    assert high - low <= Fraction(1, 2**60)
    assert float(low) == pytest.approx(real_log2(value), abs=1e-9)
