"""Step tradeoffs by their sealed form: the bound holds, and proves where leaks are dear."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.objective import Objective
from policies.model.problem import Goal, Plan
from policies.model.sets import NO_CAP, Measure
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.exact.zero_disclosure import leakless, whole
from policies.solvers.interfaces import Solution
from tests.unit.policies.tiny import Tiny, step


def by_milp(problem):
    return SOLVERS["milp"](problem, np.random.default_rng(0), Limits())


def tradeoff(n, k, sets, *, average=False, price=1, **more):
    free = [replace(one, cap=NO_CAP, owner=i) for i, one in enumerate(sets)]
    goal = Goal(Objective.TRADEOFF, Fraction(price), Fraction(0), average, len(sets))
    return Tiny(n, k, free, (Measure.STEP,) * len(sets), goal=goal, **more)


def test_a_dear_leak_makes_the_sealed_optimum_the_tradeoffs():
    """Both entries to both earn 4 less 5 for the whole set; one each earns 2, for nothing."""
    tiny = tradeoff(2, 2, [step(0, 1)], price=5, hi=[2, 2])
    made = leakless(tiny.problem(), by_milp)
    assert (made.value, made.stopped) == (2, "optimal")
    assert tiny.best() == 2


def test_a_cheap_leak_leaves_it_open():
    """At a price of 1 / 2 it is best to leak: the sealed plan is a start, no proof."""
    tiny = tradeoff(2, 2, [step(0, 1)], price=Fraction(1, 2), hi=[2, 2])
    made = leakless(tiny.problem(), by_milp)
    assert made.value < tiny.best() <= made.bound
    assert made.stopped == ""


def test_where_nothing_can_be_sealed_a_leak_is_paid_for():
    """A set of one entry: f = 1 whatever the plan, and the bound says so."""
    tiny = tradeoff(1, 2, [step(0)])
    made = leakless(tiny.problem(), by_milp)
    assert made.verdict is Verdict.UNKNOWN
    assert made.bound == tiny.best() == 0


@st.composite
def tradeoffs(draw):
    n, k = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    some = st.lists(st.integers(0, n - 1), unique=True, min_size=1)
    sets = [step(*m) for m in draw(st.lists(some, min_size=1, max_size=3))]
    row = st.lists(st.integers(0, 3), min_size=k, max_size=k)
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, k - 1))
    return tradeoff(
        n,
        k,
        sets,
        average=draw(st.booleans()),
        price=draw(st.sampled_from([Fraction(1, 2), 1, 3])),
        hi=[k] * n,
        weights=draw(st.lists(row, min_size=n, max_size=n)),
        history=draw(st.lists(pair, unique=True, max_size=2)),
    )


@given(tiny=tradeoffs())
@settings(max_examples=80, deadline=None)
def test_value_and_bound_hold_against_brute_force(tiny):
    problem, best = tiny.problem(), tiny.best()
    assert whole(problem)
    made = leakless(problem, by_milp)
    assert made.bound >= best - Fraction(1, 10**6)
    if made.verdict is Verdict.SOLVED:
        assert made.value <= best
        if made.stopped == "optimal":
            assert float(made.value) == pytest.approx(float(best), abs=1e-8)


def test_what_was_not_solved_bounds_nothing_falsely():
    """A sealed problem that stays open keeps its own bound."""
    tiny = tradeoff(2, 2, [step(0, 1)], price=5, hi=[2, 2])
    open_ = Solution(Verdict.UNKNOWN, Plan(), bound=Fraction(3))
    made = leakless(tiny.problem(), lambda _: open_)
    assert (made.verdict, made.bound) == (Verdict.UNKNOWN, 3)
