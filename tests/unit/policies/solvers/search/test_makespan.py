"""One copy an entry, linear average: scheduling, with its guarantee."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal
from policies.model.sets import NO_CAP
from policies.solvers import Limits, Verdict
from policies.solvers.load_tables import Balance, load_tables, relaxed_balance
from policies.solvers.search.makespan import Makespan, longest_first, matched_slots
from tests.unit.policies.tiny import Made, Tiny, pairs_of

GOAL = Goal(Objective.TRADEOFF, Fraction(9), Fraction(0), average=True)


def jobs(lengths, k, **changed):
    """One set whose weights are the lengths: f is the makespan over their sum."""
    made = Made(dict(enumerate(lengths)), NO_CAP, sum(lengths))
    return Tiny(
        len(lengths), k, [made], measures=(Measure.LINEAR,), goal=GOAL, **changed
    )


def solve(tiny):
    return Makespan()(tiny.problem(), np.random.default_rng(0), Limits())


def objective(tiny, pairs):
    held = [{d for d, b in pairs if b == a} for a in range(tiny.k)]
    f = max(tiny.share(tiny.sets[0], h) for h in held)
    return tiny.utility(pairs) - tiny.goal.lambda_ * f


@st.composite
def schedules(draw):
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    k = draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 3), min_size=k, max_size=k)
    return jobs(
        lengths,
        k,
        weights=[draw(row) for _ in lengths],
        capacity=draw(st.none() | st.lists(st.integers(1, 4), min_size=k, max_size=k)),
    )


@given(tiny=schedules())
@settings(max_examples=60, deadline=None)
def test_value_and_bound_enclose_the_best_plan(tiny):
    """Brute force over all schedules lies between them."""
    found = solve(tiny)
    values = [objective(tiny, p) for p in tiny.plans() if tiny.feasible(p)]
    if found.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == objective(tiny, pairs_of(found.plan)) <= max(values)
    if values:
        assert max(values) <= found.bound


@given(tiny=schedules())
@settings(max_examples=60, deadline=None)
def test_matching_loses_no_utility_and_one_share_at_most(tiny):
    """Shmoys and Tardos: u of the relaxation, its f and the largest cost."""
    b = Balance.of(load_tables(tiny.problem()))
    x = relaxed_balance(b, Limits())[0]
    if not x.any():  # the capacities leave nothing
        return
    chosen = matched_slots(b, x)
    assert chosen is not None
    assert b.it.worth[chosen].sum() >= (b.it.worth * x).sum() - 1e-6
    assert b.means(chosen).max() <= (b.cost * x).sum(axis=0).max() + b.cost.max() + 1e-6


def test_longest_job_first_by_hand():
    """3 3 2 2 2 on two machines: 3 2 2 and 3 2, where 3 3 and 2 2 2 would be best."""
    b = Balance.of(load_tables(jobs([3, 3, 2, 2, 2], 2).problem()))
    assert sorted(b.means(longest_first(b)) * 12) == pytest.approx([5, 7])


def test_capacities_that_leave_no_plan_are_not_answered_with_one():
    """Three jobs, two places."""
    assert solve(jobs([1, 1, 1], 2, capacity=[1, 1])).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "changed",
    [
        {"hi": [2, 1, 1]},
        {"lo": [0, 1, 1], "hi": [1, 1, 1]},
        {"goal": Goal()},
        {"measures": (Measure.QUADRATIC,)},
    ],
)
def test_other_problems_are_left_to_others(changed):
    """Several copies, entries that may be withheld, budgets, squares."""
    assert Makespan().supports(jobs([1, 1, 1], 2).problem())
    assert not Makespan().supports(replace(jobs([1, 1, 1], 2), **changed).problem())
