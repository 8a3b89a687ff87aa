"""The cheapest entries to withhold, against all subsets."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance
from policies.judging.judge import judge
from policies.model.links import LinkMeasure
from policies.model.measures import MEASURES
from policies.model.problem import Average, Pairs, Problem
from policies.model.sets import NO_CAP, InvalidProblem
from policies.model.weights import Weights
from policies.solvers import Limits
from policies.solvers.contract import drawn_problem, every_plan
from policies.solvers.exact import cpsat, linear_model
from policies.solvers.explain import withholding
from policies.solvers.explain.withholding import cheapest, without
from policies.solvers.interfaces import timeless
from tests.unit.policies.solvers.bounds.test_link_bounds import friends
from tests.unit.policies.tiny import Made, Tiny, step


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
    problem = drawn_problem(seed)
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
    base = drawn_problem(0)
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


def test_a_strained_graph_has_a_bound_of_what_is_withheld():
    """60 vertices, 130 edges, two colours: without a relaxation it stayed at 0."""
    rng = np.random.default_rng(0)
    ends = (rng.choice(60, 2, replace=False) for _ in range(1000))
    edges = sorted({tuple(sorted(pair.tolist())) for pair in ends})
    chosen = rng.permutation(len(edges))[:130]
    sets = [step(*edges[i]) for i in chosen.tolist()]
    problem = priced(Tiny(60, 2, sets).problem(), rng.integers(1, 10, 60))
    found = solved(problem, work=0.5)
    assert found.proven
    assert found.price > 0


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
    seed = next(
        s
        for s in range(400)
        if drawn_problem(s).n_entries and not possible(drawn_problem(s))
    )
    problem = drawn_problem(seed)
    free = priced(problem, [1] * problem.n_entries)
    assert solved(free) is not None
    assert solved(free, stopped=lambda: True) is None


# -- limits on what links disclose -----------------------------------------------------


@st.composite
def friends_with_prices(draw):
    """Few visits of three users, a limit on what their links disclose, and prices."""
    spots = [(user, place) for user in range(3) for place in range(2)]
    chosen = draw(st.lists(st.sampled_from(spots), unique=True, min_size=2, max_size=5))
    visits = [(user, place, draw(st.integers(1, 3))) for user, place in chosen]
    pairs = st.sampled_from([(0, 1), (1, 2), (0, 2)])
    ties = draw(st.lists(pairs, unique=True, min_size=1))
    k, n = draw(st.integers(1, 2)), len(visits)
    problem = friends(
        visits,
        ties,
        [[1] * k] * n,
        relation=draw(st.sampled_from(list(LinkMeasure))),
        **{draw(st.sampled_from(["tau", "mean_tau"])): Fraction(draw(st.integers(1, 6)), 6)},
    )  # fmt: skip
    return priced(problem, draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))


@settings(max_examples=60, deadline=None)
@given(problem=friends_with_prices())
def test_nothing_cheaper_would_do_where_links_are_limited(problem):
    found, expected = solved(problem), brute(problem)
    if expected is None:
        assert found is None
        return
    assert (found.price, found.bound) == (expected, expected)
    assert judge(without(problem, found.entries), found.plan).feasible


def test_leaving_out_a_visit_that_lowers_a_cosine_does_not_help():
    """(1, 1) and (1) are alike by .707, and without the second place by 1."""
    visits = [(0, 0, 1), (0, 1, 1), (1, 0, 1)]
    problem = friends(visits, [(0, 1)], [[1]] * 3, tau=Fraction(7, 10))
    assert solved(priced(problem, [9, 1, 5])).entries == (2,)
    assert solved(priced(problem, [0, 1, 0])) is None


def chain(users, **rest):
    """Each user was at one place with the next: two hands do, one does not."""
    visits = [(user, 0, 1) for user in range(users)]
    ties = [(user, user + 1) for user in range(users - 1)]
    return friends(visits, ties, [[1]] * users, **rest)


def test_of_many_visits_so_many_are_withheld_that_nobody_holds_a_link():
    found = solved(priced(chain(21, tau=Fraction(1, 2)), [1] * 21), work=0.5)
    assert (found.price, found.entries) == (10, tuple(range(1, 21, 2)))
    assert not found.proven


def test_what_a_limit_on_the_mean_leaves_room_for_is_put_back():
    """Fewer than 4 of 20 links may be seen: not each second visit need be left out."""
    problem = priced(chain(21, mean_tau=Fraction(4, 20)), [1] * 21)
    found = solved(problem, work=0.5)
    assert found.price < 10
    assert judge(without(problem, found.entries), found.plan).feasible


def test_history_of_a_withheld_visit_stays():
    both = Pairs.of([(0, 0)])
    problem = friends(
        [(0, 0, 1), (1, 0, 1)], [(0, 1)], [[1]] * 2, tau=Fraction(1, 2), history=both
    )
    assert solved(priced(problem, [1, 5])).entries == (1,)


def test_without_time_nothing_is_told_of_links():
    problem = priced(chain(5, tau=Fraction(1, 2)), [1] * 5)
    assert solved(problem).price == 2
    assert solved(problem, stopped=lambda: True) is None


@pytest.fixture
def listings(monkeypatch):
    """Ten seconds of a clock are over with each listing."""
    seen, enumerated = [], withholding.enumerate_plans

    def counted(problem, limits):
        seen.append(10.0)
        return enumerated(problem, limits)

    monkeypatch.setattr(withholding, "enumerate_plans", counted)
    return seen


def crowd(users):
    """All meet all at one place, and there is one hand: it may hold one visit."""
    visits, ties = [(u, 0, 1) for u in range(users)], combinations(range(users), 2)
    problem = friends(visits, [*ties], [[1]] * users, tau=Fraction(1, 2))
    return priced(problem, [1] * users)


def test_half_of_the_time_is_for_listings_and_half_for_keeping_all_apart(listings):
    found = solved(crowd(10), seconds=100, clock=lambda: sum(listings))
    assert len(listings) == 6  # the last of them began at 50 s
    assert (found.price, found.bound) == (9, 1)  # none, and five of the ten by one


def test_listings_count_as_work(listings):
    found = solved(crowd(10), work=0.03)
    assert 0 < len(listings) < 10
    assert found.price == 9
    assert not found.proven


def test_listings_take_half_of_the_default_work(listings, monkeypatch):
    """As if each listing took a unit: a real one of this size takes much less."""
    monkeypatch.setattr(withholding, "looks", lambda _: withholding.LOOKS)
    found = solved(priced(chain(21, tau=Fraction(1, 2)), [1] * 21))
    assert len(listings) == Limits().work / 2
    assert (found.price, found.entries) == (10, tuple(range(1, 21, 2)))
    assert not found.proven


def test_parts_share_the_time(monkeypatch):
    """Each of five triangles is given less than was left by those before it."""
    one, now, given = triangle([5, 2, 3]), [0.0], []
    ends = [one.sets.entry + 3 * i for i in range(5)]
    sets = replace(
        one.sets,
        n_entries=15,
        owner=np.zeros(15, np.int64),
        start=np.arange(0, 31, 2),
        entry=np.concatenate(ends),
        amount=np.ones(30, np.int64),
        cap=np.ones(15, np.int64),
        full=np.full(15, 2),
        classes=np.zeros(15, np.bool_),
    )
    weights = Weights.flat(15, 2)
    lo, prices = np.ones(15, np.int64), np.tile(one.prices, 5)
    five = replace(one, sets=sets, weights=weights, lo=lo, hi=lo, prices=prices)
    search = withholding.run_model

    def slow(built, rng, limits):
        given.append(limits.seconds)
        now[0] += limits.seconds
        return search(built, rng, replace(limits, clock=timeless))

    monkeypatch.setattr(withholding, "run_model", slow)
    assert solved(five, seconds=100, clock=lambda: now[0]).price == 10
    assert len(given) == 5
    assert now[0] <= 100


def test_shares_of_many_digits_are_rounded_down_and_not_left_out(monkeypatch):
    """Their sums need more than 2^50: without those rows no plan stood before the judge."""
    monkeypatch.setattr(withholding, "listable", lambda _: False)
    shares = [
        {
            "entries": [0, 1, 2],
            "a": [0.33829056237815233, 0.3107512349876123, 0.35095820263423537],
        },
        {"entries": [0, 1], "a": [0.4470988127651123, 0.5529011872348877]},
    ]
    problem = read_instance(
        {
            "schema": "sparsi-instance/1",
            "n_entries": 3,
            "n_adversaries": 1,
            "t": 1,
            "weights": [[1]] * 3,
            "properties": shares,
            "disclosure": {"kind": "linear", "aggregation": "average"},
            "problem": "discbudget",
            "tau": 0.5,
            "withhold": [1, 1, 1],
        }
    ).problem
    found = solved(problem)
    assert (found.price, found.bound) == (2, 2)


@st.composite
def shares_at_a_limit(draw):
    """Two sets, what one hand holds of both, and a limit on the mean that it is at."""
    amounts = st.lists(st.integers(1, 200), min_size=4, max_size=4)
    sets = [draw(amounts) for _ in range(2)]
    measures = tuple(draw(st.sampled_from([*MEASURES.values()])) for _ in sets)
    made = [
        Made(dict(enumerate(row)), NO_CAP, sum(row), owner)
        for owner, row in enumerate(sets)
    ]
    held = draw(st.sets(st.integers(0, 3), min_size=1, max_size=3))
    free = Tiny(4, 1, made, measures, lo=[0] * 4, hi=[1] * 4).problem()
    mean = judge(free, Pairs.of((d, 0) for d in held)).f_average
    assume(mean)
    caps = (Average((0, 1), mean),)
    problem = Tiny(4, draw(st.integers(1, 2)), made, measures, averages=caps).problem()
    return priced(problem, draw(st.lists(st.integers(0, 3), min_size=4, max_size=4)))


@settings(max_examples=60, deadline=None)
@given(problem=shares_at_a_limit(), bits=st.integers(4, 20))
def test_rows_on_a_coarser_grid_leave_out_no_choice(problem, bits):
    """However small the numbers that fit: what is cheapest stays within the model.

    Plans that are past a limit by what was rounded off would be listed instead.
    """
    expected = brute(problem)
    with (
        patch.object(linear_model, "MOST", 2**bits),
        patch.object(cpsat, "GRID", max(1, bits - 3)),
        patch.object(withholding, "judge", lambda *_: SimpleNamespace(feasible=True)),
        patch.object(withholding, "listable", lambda _: False),
    ):
        found = solved(problem, work=2.0)
    if expected is not None:
        assert found is not None
        assert found.bound <= expected
