"""Meeting in the middle, against all plans and all pairs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.sets import NO_CAP, Measure
from policies.solvers import halves
from policies.solvers.balance import Balance
from policies.solvers.halves import Boxes, Half, nearest
from policies.solvers.loads import loads
from policies.solvers.turns import Choices, Turns
from tests.unit.policies.tiny import Made, Tiny, priced, uncapped


def never():
    return False


def balance(tiny):
    return Balance.of(loads(tiny.problem()))


def least(b, prices, tiny):
    """What the best of all plans loses at the prices, by its definition."""
    grid = np.zeros((tiny.n, tiny.k), np.bool_)
    losses = []
    for plan in tiny.plans():
        if tiny.feasible(plan):
            chosen = grid.copy()
            for d, a in plan:
                chosen[d, a] = True
            losses.append(b.bound(prices) - b.value(chosen))
    return min(losses, default=None)


@given(
    tiny=uncapped((Measure.LINEAR,), average=True, least=1),
    weights=st.lists(st.integers(0, 5), min_size=5, max_size=5),
    dense=st.sampled_from([0, 300_000]),
)
@settings(max_examples=150, deadline=None)
def test_every_plan_loses_what_is_said_and_one_loses_no_more(tiny, weights, dense):
    """At any prices, with every adversary by itself; by boxes, and pair by pair."""
    b = balance(replace(tiny, capacity=None))
    prices = np.array(weights[: tiny.k], np.float64)
    true = least(b, prices, replace(tiny, capacity=None))
    if true is None or not b.it.lambda_:
        return
    gap = true + 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halves, "_DENSE", dense)
        row = np.arange(tiny.k)
        plan, lost, whole = nearest(b, prices, row, gap, 10**6, never)
    assert whole
    assert lost == pytest.approx(true, abs=1e-7)
    assert b.bound(prices) - b.value(plan) == pytest.approx(true, abs=1e-7)


@given(tiny=uncapped((Measure.LINEAR,), average=True, least=1))
@settings(max_examples=60, deadline=None)
def test_adversaries_taken_for_one_lose_no_more(tiny):
    """What is lost with all in one row is a bound for every plan."""
    b = balance(replace(tiny, capacity=None))
    prices = np.ones(tiny.k)
    true = least(b, prices, replace(tiny, capacity=None))
    if true is None or not b.it.lambda_:
        return
    row = np.zeros(tiny.k, np.int64)
    plan, lost, whole = nearest(b, prices, row, true + 1.0, 10**6, never)
    assert whole
    assert lost <= true + 1e-7
    assert b.bound(prices) - b.value(plan) >= true - 1e-7


def uneven():
    """Seven entries of seven weights, three workers: no even split."""
    one = Made({d: 2 * d + 3 for d in range(7)}, NO_CAP, 63)
    return Tiny(7, 3, [one], measures=(Measure.LINEAR,), goal=priced(6, average=True))


def test_nothing_is_said_beyond_the_gap_that_was_asked_for():
    """63 is cut into 21, 21, 21 by weights 3 to 15; a gap below that finds no plan."""
    b = balance(replace(uneven(), weights=[[4, 2, 1]] * 7))
    prices = np.array([1.0, 1.0, 1.0])
    row = np.arange(3)
    true = least(b, prices, replace(uneven(), weights=[[4, 2, 1]] * 7))
    plan, lost, whole = nearest(b, prices, row, true / 2, 10**6, never)
    assert (plan, whole) == (None, True)
    assert lost == true / 2


def test_a_search_that_is_cut_keeps_the_bound_of_its_last_whole_step():
    """With five sets of turns a half little is said, but nothing false."""
    tiny = replace(uneven(), weights=[[4, 2, 1]] * 7)
    b, prices = balance(tiny), np.array([1.0, 1.0, 1.0])
    true = least(b, prices, tiny)
    _, lost, whole = nearest(b, prices, np.arange(3), true + 1, 5, never)
    assert not whole
    assert 0 <= lost <= true


def test_when_time_is_over_nothing_is_searched():
    """The bound stays what the prices prove."""
    b = balance(uneven())
    plan, lost, _ = nearest(b, np.ones(3), np.arange(3), 1.0, 10**6, lambda: True)
    assert (plan, lost) == (None, 0.0)


def test_a_half_lists_each_set_of_its_turns_once():
    """Three entries with one, two and one turns: twelve sets, those within 3 listed."""
    turns = Turns(
        entry=np.array([0, 1, 1, 4]),
        subset=np.zeros(4, np.int64),
        loss=np.array([1.0, 1.0, 2.0, 2.5]),
        shift=np.array([[1.0], [10.0], [20.0], [100.0]]),
        best=np.zeros(5, np.int64),
        start=np.zeros(1),
    )
    half = Half.of(turns, np.ones(4, np.bool_), 3.0, 100, never)
    expected = {0.0, 1.0, 10.0, 20.0, 100.0, 11.0, 21.0}
    assert set(half.shift[:, 0]) == expected
    assert len(half.loss) == len(expected)
    assert (np.diff(half.loss) >= 0).all()
    for at, height in enumerate(half.shift[:, 0]):
        assert turns.shift[half.turns(at), 0].sum() == height
    assert Half.of(turns, np.ones(4, np.bool_), 3.0, 6, never) is None


@given(
    points=st.lists(st.tuples(*[st.floats(-1, 1)] * 2), min_size=1, max_size=30),
    corners=st.lists(st.tuples(*[st.floats(-2, 2)] * 2), min_size=1, max_size=10),
    width=st.tuples(*[st.sampled_from([1e-3, 0.1, 0.7, 1e12])] * 2),
)
def test_boxes_leave_out_no_point_above_a_corner(points, corners, width):
    """Each is yielded once, with others near it."""
    points, corners, width = (np.array(x) for x in (points, corners, width))
    found = [
        pair
        for i, j in Boxes.of(points, width).within(corners)
        for pair in zip(i.tolist(), j.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    for i, j in product(range(len(corners)), range(len(points))):
        if ((points[j] >= corners[i]) & (points[j] < corners[i] + width)).all():
            assert (i, j) in found


def test_choices_of_many_adversaries_are_not_listed():
    """Up to four copies among twelve: 793 sets."""
    tiny = Tiny(2, 12, [Made({0: 1, 1: 1}, NO_CAP, 2)], measures=(Measure.LINEAR,))
    goal = priced(1, average=True)
    it = loads(replace(tiny, lo=[1, 1], hi=[4, 4], goal=goal).problem())
    assert Choices.of(it, it.worth, np.arange(12)) is None
    it = loads(replace(tiny, lo=[1, 1], hi=[2, 2], goal=goal).problem())
    assert Choices.of(it, it.worth, np.arange(12)).subset.shape == (78, 12)
