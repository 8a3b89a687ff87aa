"""Worst-set tradeoffs, linear and quadratic: values, bounds and refusals."""

from dataclasses import replace
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings

from policies.model.problem import Goal
from policies.model.sets import NO_CAP, Measure
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.bounds.level_relaxation import Ladder
from policies.solvers.load_tables import loads
from policies.solvers.search.annealing import AnnealingSolver
from tests.unit.policies.tiny import Made, Tiny, pairs_of, priced, uncapped


def solve(tiny, seed=0, **limits):
    limits = {"work": 0.005} | limits
    return AnnealingSolver()(
        tiny.problem(), np.random.default_rng(seed), Limits(**limits)
    )


@given(tiny=uncapped((Measure.LINEAR, Measure.QUADRATIC), average=False))
@settings(max_examples=60, deadline=None)
def test_value_and_bound_enclose_the_best_plan(tiny):
    """Brute force over all plans lies between them."""
    found, best = solve(tiny), tiny.best()
    if found.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == tiny.objective(pairs_of(found.plan))
        assert found.value <= best
    if best is not None:
        assert best <= found.bound


def thirds(measure=Measure.LINEAR):
    """Three entries of one set, two workers: somebody holds two of three."""
    one = Made({0: 1, 1: 1, 2: 1}, NO_CAP, 3)
    return Tiny(3, 2, [one], measures=(measure,), goal=priced(9, average=False))


@pytest.mark.parametrize(
    ("measure", "value"), [(Measure.LINEAR, 3 - 6), (Measure.QUADRATIC, 3 - 4)]
)
def test_the_bound_knows_that_loads_are_whole(measure, value):
    """The relaxation says f = 1/2; no plan has f below 2/3, and the bound says so."""
    found = solve(thirds(measure))
    assert found.value == value
    assert found.bound - value < Fraction(1, 10**6)


def test_short_time_leaves_some_for_the_bound():
    """A clock of 0.1 s a look: a run of 10^6 steps ends halfway, then comes the bound."""
    ticks = count()
    clock = {"seconds": 10.0, "clock": lambda: 0.1 * next(ticks)}
    found = solve(thirds(), work=100.0, **clock)
    assert found.bound - found.value < Fraction(1, 10**6)


def test_the_bound_gets_the_time_that_is_left(monkeypatch):
    """A clock of 0.1 s a look: half of ten seconds are spent when it begins."""
    ticks, given = count(), []

    def now():
        return 0.1 * next(ticks)

    def climb(self, value, level, most, over, limits):
        given.append(now() + limits.seconds)

    monkeypatch.setattr(Ladder, "climb", climb)
    solve(thirds(), work=100.0, seconds=10.0, clock=now)
    assert given == [pytest.approx(10.0, abs=0.5)]


def test_same_seed_same_plan():
    """A run can be made again."""
    one, two = solve(thirds(), seed=3), solve(thirds(), seed=3)
    assert pairs_of(one.plan) == pairs_of(two.plan)


def test_every_relaxation_only_lowers_what_is_proven():
    """One level after the other."""
    problem = thirds().problem()
    ladder = Ladder(problem, loads(problem))
    limits, seen = Limits(), [ladder.bound]
    for _ in range(3):
        ladder.climb(-3.0, 2 / 3, 1, lambda: False, limits)
        seen.append(ladder.bound)
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] >= -3


def test_capacities_that_leave_no_plan_are_not_answered_with_one():
    """Three copies, two places: no plan, and the bound is a number still."""
    found = solve(replace(thirds(), capacity=[1, 1]))
    assert found.verdict is Verdict.UNKNOWN
    assert found.bound <= 3


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": Goal()},
        {"goal": priced(average=True)},
        {"measures": (Measure.STEP,)},
        {"trusted": [[True, False]]},
        {"sets": [Made({0: 1, 1: 1}, 1, 2)]},
    ],
)
def test_other_problems_are_annealed_without_that_bound(changed):
    """Budgets, means, steps, trust and limits: as good as the exact model."""
    problem = replace(thirds(), **changed).problem()
    assert AnnealingSolver().supports(problem)
    found = AnnealingSolver()(problem, np.random.default_rng(0), Limits(work=0.05))
    exact = SOLVERS["milp"](problem, np.random.default_rng(0), Limits())
    assert exact.verdict is found.verdict is Verdict.SOLVED
    assert found.value == exact.value
    assert found.tried == ("annealing",)
