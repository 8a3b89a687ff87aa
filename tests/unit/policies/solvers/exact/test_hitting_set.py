"""HITTING-SET: t = k, step functions: proven against brute force and by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.objective import Objective
from policies.model.problem import Goal
from policies.model.sets import NO_CAP
from policies.solvers import Limits, Verdict
from policies.solvers.exact import hitting_set
from policies.solvers.exact.hitting_set import HittingSet
from tests.unit.policies.tiny import Tiny, classes, pairs_of, step

SOLVER = HittingSet()


def solve(problem, seed=1, **limits):
    return SOLVER(problem, np.random.default_rng(seed), Limits(**limits))


def test_two_adversaries_withhold_different_entries():
    """One set {0, 1}; entry 0 is cheap for both, so only one of them may withhold it.

    Weights 0: (1, 1), 1: (5, 3). Alone each would withhold 0 (cost 1). Both at once
    would leave 0 with nobody. So 0 withholds 0 and 1 withholds 1 (1 + 3) or the other
    way round (5 + 1): best 10 - 4 = 6; the bound, alone, is 10 - 2 = 8.
    """
    tiny = Tiny(2, 2, [step(0, 1)], hi=[2, 2], weights=[[1, 1], [5, 3]])
    made = solve(tiny.problem())
    assert pairs_of(made.plan) == {(1, 0), (0, 1)}
    assert (made.value, made.bound, made.stopped) == (6, 8, "gap")


def test_what_need_not_be_shown_may_be_withheld_from_all():
    """The same with lo = 0: 10 - 2, proven."""
    tiny = Tiny(2, 2, [step(0, 1)], lo=[0, 0], hi=[2, 2], weights=[[1, 1], [5, 3]])
    made = solve(tiny.problem())
    assert (made.value, made.bound, made.stopped) == (8, 8, "optimal")


def test_an_entry_that_is_a_set_by_itself_leaves_no_plan():
    """It must be shown to somebody."""
    tiny = Tiny(2, 2, [step(0)], hi=[2, 2])
    assert solve(tiny.problem()).verdict is Verdict.INFEASIBLE


@st.composite
def withholdings(draw):
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    some = st.lists(st.integers(0, n - 1), unique=True, min_size=1)
    sets = [step(*members) for members in draw(st.lists(some, max_size=5))]
    row = st.lists(st.integers(0, 4), min_size=k, max_size=k)
    lo = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    weights = draw(st.lists(row, min_size=n, max_size=n))
    return Tiny(n, k, sets, lo=lo, hi=[k] * n, weights=weights)


@given(tiny=withholdings())
@settings(max_examples=150, deadline=None)
def test_values_and_bounds_hold_against_brute_force(tiny):
    """value <= optimum <= bound; 'optimal' is the optimum; INFEASIBLE is so."""
    problem, best = tiny.problem(), tiny.best()
    assert SOLVER.supports(problem)
    made = solve(problem)
    if made.verdict is Verdict.INFEASIBLE:
        assert best is None
        return
    if best is not None:
        assert made.bound >= best
    if made.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(made.plan))
        assert made.value <= best
        assert made.stopped != "optimal" or made.value == best


@given(tiny=withholdings(), quarters=st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_tradeoffs_take_the_better_of_hiding_and_leaking(tiny, quarters):
    """u - lambda f with f = 0 or 1."""
    sets = [replace(one, cap=NO_CAP) for one in tiny.sets]
    goal = Goal(Objective.TRADEOFF, Fraction(quarters, 4), Fraction(1))
    free = replace(tiny, sets=sets, goal=goal)
    made = solve(free.problem())
    assert made.value <= free.best() <= made.bound
    assert made.stopped != "optimal" or made.value == free.best()


@pytest.mark.parametrize("quick", [False, True])
def test_the_papers_generator_is_proven(quick, monkeypatch):
    """|D| = 120, |P| = 16, k = t = 2, compiled or not: the same proven value."""
    if quick:
        monkeypatch.setattr(hitting_set, "FROM", 0)
    rng = np.random.default_rng(4)
    sets = [step(*np.flatnonzero(rng.random(120) < 0.3).tolist()) for _ in range(16)]
    weights = np.where(
        rng.random((120, 2)) < 0.4, rng.integers(800, 1000, (120, 2)), 70
    )
    tiny = Tiny(120, 2, sets, hi=[2] * 120, weights=weights.tolist())
    made = solve(tiny.problem())
    assert made.stopped == "optimal"
    assert made.value == made.bound
    spared = int(weights.sum()) - int(made.value)
    assert spared % 70 == 0  # only cheap entries are withheld


@pytest.mark.parametrize(
    "tiny",
    [
        Tiny(2, 2, [step(0, 1)]),  # hi < k
        Tiny(2, 1, [classes((0,), (1,))]),
        Tiny(2, 1, [step(0, 1)], history=[(0, 0)]),
        Tiny(2, 1, [step(0, 1)], capacity=[1]),
        Tiny(2, 1, [replace(step(0, 1), cap=0)]),
        Tiny(2, 2, [], lo=[2, 2], hi=[2, 2]),
    ],
)
def test_what_it_would_ignore_it_does_not_support(tiny):
    """Honest about its structure."""
    assert not SOLVER.supports(tiny.problem())


def test_a_stop_leaves_a_plan_without_proof():
    """The greedy cover stands; the bound is the relaxation's or none."""
    rng = np.random.default_rng(4)
    sets = [step(*np.flatnonzero(rng.random(60) < 0.2).tolist()) for _ in range(20)]
    tiny = Tiny(60, 2, sets, hi=[2] * 60)
    made = solve(tiny.problem(), stopped=lambda: True)
    assert made.verdict is Verdict.SOLVED
    assert made.bound >= made.value
