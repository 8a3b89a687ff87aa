"""Shares, caps and loads."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import disclosure
from policies.model.disclosure import (
    cap_below,
    loads,
    raise_parts,
    reachable,
    reached_at,
)
from policies.model.measures import MEASURES, Measure
from policies.model.problem import Pairs
from tests.unit.policies.tiny import (
    CUBIC,
    Made,
    classes,
    pairs_of,
    step,
    system,
    tinies,
)


@given(
    st.sampled_from([*MEASURES.values(), CUBIC]),
    st.integers(1, 12),
    st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=20),
)
def test_cap_is_the_highest_load_strictly_below_tau(measure, full, tau):
    """f(cap) < tau <= f(cap + 1), exactly."""
    cap = cap_below(measure, full, tau)
    assert measure.disclosure(cap, full) < tau <= measure.disclosure(cap + 1, full)


def test_no_load_is_below_a_limit_of_zero():
    """f < 0 never holds."""
    assert cap_below(Measure.LINEAR, 4, Fraction(0)) == -1


@pytest.mark.parametrize("measure", [*MEASURES.values(), CUBIC])
def test_f_in_floats_is_f_and_leads_back_to_the_load(measure):
    part, power = np.array([[0.0, 0.25, 0.5, 1.0]]), np.array([measure.power])
    f = raise_parts(part.copy(), power)
    assert f[0].tolist() == [
        float(measure.disclosure(load, 4)) for load in (0, 1, 2, 4)
    ]
    if not measure.is_step:
        assert reached_at(f[0], power) == pytest.approx(part, abs=1e-12)


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
