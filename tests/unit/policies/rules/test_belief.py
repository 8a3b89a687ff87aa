"""Beliefs over finite tables, worked out by hand."""

from fractions import Fraction
from itertools import product
from math import log2 as real_log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.sets import InvalidProblem
from policies.rules.belief import (
    Beliefs,
    World,
    closure,
    information_gain,
    log2,
    posterior,
)

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
    assert information_gain(xor(), [1]) == 0
    assert information_gain(xor(), [0, 1]) == 1


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


def test_information_gain_is_never_below_the_true_share():
    """H(V) = H(1/4) = .8113; H(V|S) = 10/16 H(1/10) + 6/16 H(1/2)."""

    def h(p):
        return -p * real_log2(p) - (1 - p) * real_log2(1 - p)

    share = (h(1 / 4) - (10 * h(1 / 10) + 6 * h(1 / 2)) / 16) / h(1 / 4)
    found = information_gain(skewed(), [0])
    assert float(found) == pytest.approx(share, abs=1e-12)


def test_a_secret_that_was_certain_can_not_be_disclosed():
    """Prior 1, entropy 0."""
    sure = Beliefs((World((0,), "x", HALF), World((1,), "x", HALF)))
    assert posterior(sure, [0], sure.worlds[0]) == 0
    assert information_gain(sure, [0]) == 0


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


def test_closures_of_many_entries_are_refused():
    """2^17 subsets are too many."""
    with pytest.raises(InvalidProblem, match="17 entries"):
        closure(lambda held: Fraction(len(held)), range(17))


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
    with pytest.raises(InvalidProblem, match=told):
        Beliefs(worlds)


def test_a_true_world_that_can_not_be_is_refused():
    """Nothing agrees with it."""
    with pytest.raises(InvalidProblem, match="no chance"):
        posterior(xor(), [0], World((7, 0), 0, HALF))


@given(st.fractions(min_value=1, max_value=10**6))
@settings(max_examples=60)
def test_logarithms_are_enclosed(value):
    """low <= log2 <= high, and close to each other."""
    low, high = log2(value)
    assert high - low <= Fraction(1, 2**60)
    assert float(low) == pytest.approx(real_log2(value), abs=1e-9)
