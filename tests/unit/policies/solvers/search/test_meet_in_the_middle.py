"""Meeting in the middle, against all plans and all pairs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.measures import Measure
from policies.model.sets import NO_CAP
from policies.solvers import Limits
from policies.solvers.load_tables import Balance, load_tables, relaxed_balance
from policies.solvers.search.exchange import proven
from policies.solvers.search.meet_in_the_middle import (
    Boxes,
    Choices,
    Deviations,
    Half,
    nearest,
)
from tests.unit.policies.tiny import Made, Tiny, priced, uncapped


def never():
    return False


def balance(tiny):
    return Balance.of(load_tables(tiny.problem()))


def grids(tiny):
    """All feasible plans as tables (entries, adversaries)."""
    for plan in tiny.plans():
        if tiny.feasible(plan):
            chosen = np.zeros((tiny.n, tiny.k), np.bool_)
            for d, a in plan:
                chosen[d, a] = True
            yield chosen


def least(b, prices, tiny):
    """What the best of all plans loses at the prices, by its definition."""
    losses = [b.bound(prices) - b.value(chosen) for chosen in grids(tiny)]
    return min(losses, default=None)


@given(
    tiny=uncapped((Measure.LINEAR,), average=True, least=1),
    weights=st.lists(st.integers(0, 5), min_size=5, max_size=5),
    dense=st.sampled_from([0, 300_000]),
)
@settings(max_examples=60, deadline=None)
def test_every_plan_loses_what_is_said_and_one_loses_no_more(tiny, weights, dense):
    """At any prices, with every adversary by itself; by boxes, and pair by pair."""
    b = balance(replace(tiny, capacity=None))
    prices = np.array(weights[: tiny.k], np.float64)
    true = least(b, prices, replace(tiny, capacity=None))
    if true is None or not b.it.lambda_:
        return
    gap = true + 1.0
    row = np.arange(tiny.k)
    plan, lost, whole = nearest(b, prices, row, gap, 10**6, never, dense=dense)
    assert whole
    assert lost == pytest.approx(true, abs=1e-7)
    assert b.bound(prices) - b.value(plan) == pytest.approx(true, abs=1e-7)


@given(
    tiny=uncapped((Measure.LINEAR,), average=True, least=1),
    row=st.lists(st.integers(0, 2), min_size=5, max_size=5),
    weights=st.lists(st.integers(0, 5), min_size=3, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_adversaries_taken_for_one_count_by_the_mean_of_their_means(tiny, row, weights):
    """Rows of any size; what is lost is what the best plan loses by its rows' means."""
    tiny = replace(tiny, capacity=None)
    b = balance(tiny)
    row = np.unique(row[: tiny.k], return_inverse=True)[1]
    prices = np.array(weights, np.float64)[row]
    if not b.it.lambda_ or not tiny.k:
        return
    losses = []
    for chosen in grids(tiny):
        mean = np.bincount(row, b.means(chosen)) / np.bincount(row)
        u = b.it.shift + b.it.worth[chosen].sum()
        losses.append(b.bound(prices) - u + b.it.lambda_ * mean.max())
    if not losses:
        return
    plan, lost, whole = nearest(b, prices, row, min(losses) + 1.0, 10**6, never)
    assert whole
    assert lost == pytest.approx(min(losses), abs=1e-7)
    assert plan is not None


@given(
    tiny=uncapped((Measure.LINEAR,), average=True, least=1),
    most=st.integers(1, 30),
    at=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_no_plan_is_above_what_was_proven_wherever_the_search_is_cut(tiny, most, at):
    """From any plan to start with, and with searches of any size."""
    b = balance(tiny)
    plans = list(grids(tiny))
    if not plans:
        return
    x, prices, rent = relaxed_balance(b, Limits())
    start, top = plans[at % len(plans)].copy(), b.bound(prices, rent)
    best, bound, _ = proven(b, start, prices, top, most, Limits())
    assert max(map(b.value, plans)) <= bound + 1e-7
    assert b.value(plans[at % len(plans)]) <= b.value(best) + 1e-12
    assert x.shape == best.shape


@pytest.mark.parametrize("most", range(4, 9))
def test_what_pairs_lose_is_held_against_the_bound_of_the_prices(most):
    """Two alike workers and one that pays otherwise, and the second best plan to start.

    The search over rows of one price lowers the bound first. With four sets of deviations a
    half the pairs that it would fix at that bound are those of the best plan.
    """
    pay = [(13, 8), (9, 8), (9, 7), (11, 12), (7, 8), (11, 7)]
    one = Made(dict(enumerate([4, 4, 4, 2, 2, 2])), NO_CAP, 10)
    made = {"measures": (Measure.LINEAR,), "goal": priced(17, average=True)}
    tiny = Tiny(6, 3, [one], weights=[[a, a, c] for a, c in pay], **made)
    b = balance(tiny)
    assert b.cost.max() == pytest.approx(0.4)
    plans = sorted(grids(tiny), key=b.value)
    values = np.round(np.unique(np.round([b.value(p) for p in plans], 9)), 9)
    start = next(p for p in plans if abs(b.value(p) - values[-2]) < 1e-6)
    _, prices, rent = relaxed_balance(b, Limits())
    top = b.bound(prices, rent)
    _, bound, _ = proven(b, start.copy(), prices, top, most, Limits())
    assert values[-1] <= bound + 1e-7


def test_a_thousand_alike_entries_are_too_many_to_list_and_no_overflow():
    """Sets of deviations of 1,201 entries that lose nothing are counted by their bits."""
    deviations = Deviations(
        entry=np.repeat(np.arange(1201), 3),
        subset=np.zeros(3603, np.int64),
        loss=np.zeros(3603),
        shift=np.zeros((3603, 2)),
        best=np.zeros(1201, np.int64),
        start=np.zeros(2),
    )
    assert Half.of(deviations, np.ones(3603, np.bool_), 1.0, 10**6, never) is None


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
    """With five sets of deviations a half little is said, but nothing false."""
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
    """Three entries with one, two and one deviations: twelve sets, those within 3 listed."""
    deviations = Deviations(
        entry=np.array([0, 1, 1, 4]),
        subset=np.zeros(4, np.int64),
        loss=np.array([1.0, 1.0, 2.0, 2.5]),
        shift=np.array([[1.0], [10.0], [20.0], [100.0]]),
        best=np.zeros(5, np.int64),
        start=np.zeros(1),
    )
    half = Half.of(deviations, np.ones(4, np.bool_), 3.0, 100, never)
    expected = {0.0, 1.0, 10.0, 20.0, 100.0, 11.0, 21.0}
    assert set(half.shift[:, 0]) == expected
    assert len(half.loss) == len(expected)
    assert (np.diff(half.loss) >= 0).all()
    for at, height in enumerate(half.shift[:, 0]):
        assert deviations.shift[half.deviations(at), 0].sum() == height
    assert Half.of(deviations, np.ones(4, np.bool_), 3.0, 6, never) is None


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
    it = load_tables(replace(tiny, lo=[1, 1], hi=[4, 4], goal=goal).problem())
    assert Choices.of(it, it.worth, np.arange(12)) is None
    it = load_tables(replace(tiny, lo=[1, 1], hi=[2, 2], goal=goal).problem())
    assert Choices.of(it, it.worth, np.arange(12)).subset.shape == (78, 12)
