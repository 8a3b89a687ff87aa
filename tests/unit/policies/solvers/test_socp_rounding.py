"""Quadratic average tradeoffs: values, bounds and refusals, against all plans."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.document.policy import Objective
from policies.problem import Goal
from policies.sets import NO_CAP, Measure
from policies.solvers import Limits, Verdict
from policies.solvers.loads import loads
from policies.solvers.socp_rounding import SocpRounding, tangent_bound
from tests.unit.policies.tiny import Made, Tiny, pairs_of


def goal(lambda_=1, *, average=True):
    return Goal(Objective.TRADEOFF, Fraction(lambda_), Fraction(0), average=average)


def solve(tiny, seed=0, **limits):
    limits = {"work": 0.005} | limits
    return SocpRounding()(tiny.problem(), np.random.default_rng(seed), Limits(**limits))


def mean_objective(tiny, pairs):
    """u - lambda * the highest mean, in plain Python."""
    every = pairs | set(tiny.history)
    held = [{d for d, b in every if b == a} for a in range(tiny.k)]
    sums = [sum((tiny.share(s, h) for s in tiny.sets), Fraction(0)) for h in held]
    u = Fraction(tiny.utility(pairs))
    return u - tiny.goal.lambda_ * max(sums) / len(tiny.sets)


@st.composite
def averages(draw):
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    sets = []
    for _ in range(draw(st.integers(1, 3))):
        members = draw(st.sets(st.integers(0, n - 1), min_size=1))
        weights = {d: draw(st.integers(1, 3)) for d in sorted(members)}
        full = sum(weights.values())
        sets.append(Made(weights, NO_CAP, full, draw(st.integers(0, 1))))
    lo = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    return Tiny(
        n,
        k,
        sets,
        measures=(Measure.QUADRATIC, Measure.LINEAR),
        lo=lo,
        hi=[low + draw(st.integers(0, 1)) for low in lo],
        weights=[draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)) for _ in lo],
        capacity=draw(st.none() | st.lists(st.integers(1, 4), min_size=k, max_size=k)),
        history=draw(st.sampled_from([[], [(0, 0)]])),
        goal=goal(draw(st.sampled_from([0, 1, 5, 20]))),
    )


@given(tiny=averages(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_value_and_bound_enclose_the_best_plan(tiny, data):
    """Brute force lies between them; so it does for any tangent and any prices."""
    found = solve(tiny)
    values = [mean_objective(tiny, p) for p in tiny.plans() if tiny.feasible(p)]
    if found.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == mean_objective(tiny, pairs_of(found.plan))
        assert found.value <= max(values)
    if values:
        assert max(values) <= found.bound
        it = loads(tiny.problem())
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        assert max(values) <= tangent_bound(
            it, rng.random(it.shape), rng.random(tiny.k)
        )


def square(n=6):
    """Every entry in one set, two workers: an even split is best."""
    one = Made(dict.fromkeys(range(n), 1), NO_CAP, n)
    return Tiny(n, 2, [one], measures=(Measure.QUADRATIC,), goal=goal(4))


def test_an_even_split_is_found_and_its_bound_is_tight():
    """u = 6, f = 1/4, lambda = 4."""
    found = solve(square())
    assert found.value == 5
    assert found.bound - found.value < Fraction(1, 10**4)


def test_same_seed_same_plan():
    """A run can be made again."""
    one, two = solve(square(7), seed=3), solve(square(7), seed=3)
    assert pairs_of(one.plan) == pairs_of(two.plan)


def test_without_time_for_the_relaxation_the_bound_is_the_free_one(monkeypatch):
    """The answer is a plan still."""
    monkeypatch.setattr("policies.solvers.socp_rounding.relaxed", lambda *_: None)
    found = solve(square())
    assert found.verdict is Verdict.SOLVED
    assert found.bound == 6


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": Goal()},
        {"goal": goal(average=False)},
        {"measures": (Measure.STEP,)},
        {"trusted": [[True, False]]},
        {"sets": [Made({0: 1, 1: 1}, 1, 2)]},
    ],
)
def test_other_problems_are_left_to_others(changed):
    """Budgets, worst sets, steps, trust and limits."""
    assert SocpRounding().supports(square().problem())
    assert not SocpRounding().supports(replace(square(), **changed).problem())
