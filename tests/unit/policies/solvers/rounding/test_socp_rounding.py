"""Quadratic average tradeoffs: values, bounds and refusals, against all plans."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.problem import Goal
from policies.model.sets import NO_CAP, Measure
from policies.solvers import Limits, Verdict
from policies.solvers.bounds import cone_relaxation
from policies.solvers.bounds.cone_relaxation import tangent_bound
from policies.solvers.load_tables import loads
from policies.solvers.rounding.socp_rounding import SocpRounding
from tests.unit.policies.tiny import Made, Tiny, pairs_of, priced, uncapped


def solve(tiny, seed=0, **limits):
    limits = {"work": 0.005} | limits
    return SocpRounding()(tiny.problem(), np.random.default_rng(seed), Limits(**limits))


@given(tiny=uncapped((Measure.QUADRATIC, Measure.LINEAR), average=True), data=st.data())
@settings(max_examples=60, deadline=None)
def test_value_and_bound_enclose_the_best_plan(tiny, data):
    """Brute force lies between them; so it does for any tangent and any prices."""
    found = solve(tiny)
    values = [tiny.objective(p) for p in tiny.plans() if tiny.feasible(p)]
    if found.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == tiny.objective(pairs_of(found.plan))
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
    return Tiny(
        n, 2, [one], measures=(Measure.QUADRATIC,), goal=priced(4, average=True)
    )


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
    monkeypatch.setattr(
        "policies.solvers.rounding.socp_rounding.relaxed", lambda *_, **__: None
    )
    found = solve(square())
    assert found.verdict is Verdict.SOLVED
    assert found.bound == 6


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": Goal()},
        {"goal": priced(average=False)},
        {"measures": (Measure.STEP,)},
        {"trusted": [[True, False]]},
        {"sets": [Made({0: 1, 1: 1}, 1, 2)]},
    ],
)
def test_other_problems_are_left_to_others(changed):
    """Budgets, worst sets, steps, trust and limits."""
    assert SocpRounding().supports(square().problem())
    assert not SocpRounding().supports(replace(square(), **changed).problem())


def test_each_cone_is_made_of_one_adversary_alone():
    """Zeros that are written down would make every step as if all were coupled."""
    it = loads(square().problem())
    entry, adversary = np.nonzero(it.may)
    rows, _, (linear, sizes) = cone_relaxation._cones(it, entry, adversary)
    assert rows.data.all()
    for a, size in enumerate(sizes):
        start = linear + sum(sizes[:a])
        columns = rows[start : start + size].tocoo().col
        pairs = columns[columns < len(entry)]
        assert len(pairs)
        assert set(adversary[pairs].tolist()) == {a}


def test_a_step_that_takes_longer_than_there_is_time_is_not_begun(monkeypatch):
    """The cone solver looks at its clock between steps only."""
    it = loads(square().problem())
    monkeypatch.setattr(cone_relaxation, "_cones", None)
    assert cone_relaxation.relaxed(it, Limits(seconds=1e-6)) is None
