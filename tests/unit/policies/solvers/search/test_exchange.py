"""Linear average tradeoffs: values, bounds and refusals, against all plans."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from policies.model.measures import Measure
from policies.model.problem import Goal
from policies.model.sets import NO_CAP
from policies.solvers import Limits, Verdict
from policies.solvers.search.exchange import Exchange, Moves, best_exchange
from tests.unit.policies.tiny import Made, Tiny, pairs_of, priced, uncapped


def solve(tiny, seed=0, **limits):
    limits = {"work": 0.2} | limits
    return Exchange()(tiny.problem(), np.random.default_rng(seed), Limits(**limits))


@given(tiny=uncapped((Measure.LINEAR,), average=True, least=1))
@settings(max_examples=60, deadline=None)
def test_value_and_bound_enclose_the_best_plan(tiny):
    """Brute force over all plans lies between them."""
    found = solve(tiny)
    values = [tiny.objective(p) for p in tiny.plans() if tiny.feasible(p)]
    if found.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == tiny.objective(pairs_of(found.plan))
        assert found.value <= max(values)
    if values:
        assert max(values) <= found.bound


def halves(n=6):
    """Every entry in one set; two alike workers: an even split is best."""
    one = Made(dict.fromkeys(range(n), 1), NO_CAP, n)
    return Tiny(n, 2, [one], measures=(Measure.LINEAR,), goal=priced(6, average=True))


def test_an_even_split_of_alike_entries_is_found_and_proven():
    """u = 6, f = 1/2, lambda = 6: the value is 3 and the bound is as good as it."""
    found = solve(halves())
    assert found.value == 3
    assert found.bound - found.value < Fraction(1, 10**6)


def test_same_seed_same_plan():
    """Ties are broken by the seed alone."""
    one, two = solve(halves(7), seed=3), solve(halves(7), seed=3)
    assert pairs_of(one.plan) == pairs_of(two.plan)


def test_capacities_that_leave_no_plan_are_not_answered_with_one():
    """Six copies, four places."""
    found = solve(replace(halves(), capacity=[2, 2]))
    assert found.verdict is Verdict.UNKNOWN
    assert found.tried


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": Goal()},
        {"goal": priced(average=False)},
        {"measures": (Measure.QUADRATIC,)},
        {"trusted": [[True, False]]},
        {"sets": [Made({0: 1, 1: 1}, 1, 2)]},
        {"sets": [Made({0: 2, 1: 2}, NO_CAP, 2)]},
    ],
)
def test_other_problems_are_left_to_others(changed):
    """Budgets, worst sets, squares, trust, limits, loads that are cut off at 1."""
    assert Exchange().supports(halves().problem())
    assert not Exchange().supports(replace(halves(), **changed).problem())


def test_a_gap_that_no_plan_can_close_is_proven():
    """Three alike entries, two workers: the relaxation says f = 1/2, plans 2/3."""
    found = solve(halves(3))
    assert found.value == -1
    assert found.bound - found.value < Fraction(1, 10**6)


def drawn(seed, *, capped):
    """Nine moves of five entries between three adversaries, their means and room."""
    rng = np.random.default_rng(seed)
    entry = rng.integers(0, 5, 9)
    gone = rng.integers(-1, 3, 9)
    come = (gone + rng.integers(1, 3, 9) + 1) % 4 - 1
    shift, seats = np.zeros((9, 3)), np.zeros((9, 3), np.int64)
    for side, sign in ((gone, -1), (come, 1)):
        here = np.flatnonzero(side >= 0)
        shift[here, side[here]] += sign * rng.random(len(here))
        seats[here, side[here]] += sign
    gain = rng.normal(size=9) * 0.3
    free = rng.integers(0, 2, 3) if capped else np.full(3, 9)
    some = Moves(entry, gone, come, gain, gain, shift, seats)
    return some, rng.random(3) * 3, free


def gain_of(some, means, free, rows):
    """What moves gain together; None where there is no room, or an entry moves twice."""
    rows = list(rows)
    if len(set(some.entry[rows].tolist())) < len(rows):
        return None
    if (some.seats[rows].sum(axis=0) > free).any():
        return None
    after = means + some.shift[rows].sum(axis=0)
    return some.gain[rows].sum() - (after.max() - means.max())


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_no_move_or_two_moves_gain_more_than_the_exchange_that_is_made(seed, capped):
    """Against trying all, with and without room that ends."""
    some, means, free = drawn(seed, capped=capped)
    tries = [r for size in (1, 2) for r in combinations(range(9), size)]
    gains = [gain_of(some, means, free, rows) for rows in tries]
    most = max((g for g in gains if g is not None), default=0.0)
    rows = best_exchange(some, means, free, 1.0)
    assert bool(rows) == (most > 1e-12)
    if rows:
        assert gain_of(some, means, free, rows) == pytest.approx(most)
