"""The cheapest entries to withhold, against all subsets."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judge import judge
from policies.problem import Problem
from policies.sets import InvalidProblem
from policies.solvers import Limits
from policies.solvers.contract import drawn, every_plan
from policies.solvers.withholding import cheapest, without


def priced(problem, prices):
    return replace(problem, prices=np.array(prices, np.int64))


def solved(problem, **limits):
    return cheapest(problem, np.random.default_rng(1), Limits(**limits))


def possible(problem):
    return any(judge(problem, plan).feasible for plan in every_plan(problem))


def brute(problem):
    """Price of the cheapest set, by trying all of them; None if none will do."""
    may = np.flatnonzero(problem.prices).tolist()
    sets = (c for size in range(len(may) + 1) for c in combinations(may, size))
    prices = [
        int(problem.prices[list(chosen)].sum())
        for chosen in sets
        if possible(without(problem, chosen))
    ]
    return min(prices, default=None)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 400), data=st.data())
def test_nothing_cheaper_would_do_and_the_rest_has_a_plan(seed, data):
    problem = drawn(seed)
    n = problem.n_entries
    prices = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    problem = priced(problem, prices)
    found = solved(problem)
    expected = brute(problem)
    if expected is None:
        assert found is None
        return
    assert found.price == expected == found.bound
    assert found.proven
    assert judge(without(problem, found.entries), found.plan).feasible
    assert all(problem.prices[d] > 0 for d in found.entries)


def triangle(prices, capacity=None) -> Problem:
    """Three entries of which no two may share one of two adversaries."""
    base = drawn(0)
    sets = replace(
        base.sets,
        n_entries=3,
        owner=np.zeros(3, np.int64),
        start=np.array([0, 2, 4, 6]),
        entry=np.array([0, 1, 1, 2, 0, 2]),
        amount=np.ones(6, np.int64),
        cap=np.ones(3, np.int64),
        full=np.full(3, 2),
        classes=np.zeros(3, np.bool_),
    )
    weights = replace(
        base.weights, kind=np.zeros(3, np.int64), base=np.ones(3, np.int64),
        factor=np.ones((2, 1), np.int64),
    )  # fmt: skip
    ones = np.ones(3, np.int64)
    return Problem(
        sets=sets, lo=ones, hi=ones, weights=weights, capacity=capacity,
        prices=np.array(prices, np.int64),
    )  # fmt: skip


def test_the_cheapest_of_three_that_clash_is_withheld():
    found = solved(triangle([5, 2, 3]))
    assert (found.entries, found.price, found.proven) == ((1,), 2, True)


def test_capacities_count():
    found = solved(triangle([5, 2, 3], capacity=np.array([1, 0])))
    assert (found.entries, found.price) == ((1, 2), 5)


def test_what_may_not_be_withheld_is_not():
    assert solved(triangle([0, 0, 9])).entries == (2,)
    assert solved(triangle([0, 0, 0])) is None
    assert solved(replace(triangle([1, 1, 1]), prices=None)) is None


def test_prices_fit_the_entries():
    with pytest.raises(InvalidProblem, match="prices"):
        triangle([1, 2])
    with pytest.raises(InvalidProblem, match="prices"):
        triangle([1, 2, -1])


def test_without_time_for_the_model_nothing_is_told():
    """Rows that are left out of it would withhold too little."""
    seed = next(s for s in range(400) if drawn(s).n_entries and not possible(drawn(s)))
    problem = drawn(seed)
    free = priced(problem, [1] * problem.n_entries)
    assert solved(free) is not None
    assert solved(free, stopped=lambda: True) is None
