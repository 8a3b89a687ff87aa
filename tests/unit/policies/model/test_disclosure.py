"""Shares, caps and loads."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import disclosure
from policies.model.disclosure import cap_below, loads, reachable, share
from policies.model.problem import Pairs
from policies.model.sets import Measure
from tests.unit.policies.tiny import Made, classes, pairs_of, step, system, tinies


@given(
    st.sampled_from(Measure),
    st.integers(1, 12),
    st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=20),
)
def test_cap_is_the_highest_load_strictly_below_tau(measure, full, tau):
    """f(cap) < tau <= f(cap + 1), exactly."""
    cap = cap_below(measure, full, tau)
    assert share(measure, cap, full) < tau <= share(measure, cap + 1, full)


def test_no_load_is_below_a_limit_of_zero():
    """f < 0 never holds."""
    assert cap_below(Measure.LINEAR, 4, Fraction(0)) == -1


@pytest.mark.parametrize(
    ("measure", "load", "expected"),
    [
        (Measure.STEP, 3, Fraction(0)),
        (Measure.STEP, 4, Fraction(1)),
        (Measure.LINEAR, 3, Fraction(3, 4)),
        (Measure.LINEAR, 9, Fraction(1)),  # clamped
        (Measure.QUADRATIC, 3, Fraction(9, 16)),
    ],
)
def test_share_of_four(measure, load, expected):
    """The three functions at full = 4."""
    assert share(measure, load, 4) == expected


@given(tinies(), st.sampled_from([1, 3, 2_000_000]))
def test_loads_agree_with_counting_by_hand(tiny, rows):
    """Every (set, adversary) that holds a member is listed once, however it is cut."""
    problem = tiny.problem()
    plan = Pairs.of((d, d % tiny.k) for d in range(tiny.n))
    old, disclosure._ROWS = disclosure._ROWS, rows
    try:
        pieces = list(loads(problem.sets, plan, problem.history))
    finally:
        disclosure._ROWS = old
    seen = {
        (s, a): (load, fresh)
        for p in pieces
        for s, a, load, fresh in zip(
            p.set.tolist(), p.adversary.tolist(), p.load.tolist(), p.fresh, strict=True
        )
    }
    every = pairs_of(plan) | set(tiny.history)
    expected = {}
    for number, one in enumerate(tiny.sets):
        for a in range(tiny.k):
            held = {d for d, b in every if b == a}
            if held & set(one.members):
                new = {d for d, b in pairs_of(plan) if b == a} & set(one.members)
                expected[number, a] = (tiny.load(one, held), bool(new))
    assert seen == expected


def test_a_set_that_can_disclose_nothing_is_told_apart():
    """k = 3 of two entries, and weights of 0, never reach anything."""
    made = [
        step(0, 1),
        Made({0: 1, 1: 1}, cap=2, full=3),
        Made({0: 0}, cap=1, full=1, owner=1),
        classes((0,), (1,)),
    ]
    sets = system(2, made, (Measure.STEP, Measure.LINEAR))
    assert reachable(sets).tolist() == [True, False, False, True]


def test_nothing_reaches_nothing():
    """No sets."""
    assert reachable(system(0, [], ())).tolist() == []
    assert list(loads(system(0, [], ()), Pairs(), Pairs())) == []
    assert np.array_equal(Pairs().entry, [])
