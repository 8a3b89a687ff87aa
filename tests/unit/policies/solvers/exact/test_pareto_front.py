"""The Pareto front: utility falls with the level of disclosure, and every level is kept."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.sets import NO_CAP, Measure
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.exact.pareto_front import front, held_at
from tests.unit.policies.tiny import Made, Tiny, priced, uncapped


def walk(problem, count):
    rng = np.random.default_rng(0)
    return list(front(problem, count, lambda p: SOLVERS["auto"](p, rng, Limits())))


def test_a_plan_that_no_price_would_choose_is_on_the_front():
    """Four entries to one worker, f squared: 4, 3, 2 entries at 1, 9/16 and 1/4."""
    one = Made(dict.fromkeys(range(4), 1), NO_CAP, 4)
    goal = priced(average=False)
    tiny = Tiny(4, 1, [one], (Measure.QUADRATIC,), lo=[0] * 4, hi=[1] * 4, goal=goal)
    found = walk(tiny.problem(), 5)
    told = [(f.judged.u, f.judged.f_goal) for _, f in found]
    assert told == [
        (4, 1), (3, Fraction(9, 16)), (2, Fraction(1, 4)), (0, 0)
    ]  # fmt: skip


def test_a_front_ends_where_no_plan_is_left():
    """One entry that somebody must get discloses half at least."""
    one = Made({0: 1, 1: 1}, NO_CAP, 2)
    tiny = Tiny(
        2, 1, [one], (Measure.LINEAR,), lo=[1, 0], hi=[1, 1], goal=priced(average=False)
    )
    found = walk(tiny.problem(), 3)
    assert [f.verdict for _, f in found] == [
        Verdict.SOLVED, Verdict.SOLVED, Verdict.INFEASIBLE
    ]  # fmt: skip
    assert [level for level, _ in found] == [None, Fraction(1, 2), 0]


def test_a_front_needs_two_ends():
    tiny = Tiny(1, 1, goal=priced(average=False))
    with pytest.raises(ValueError, match="count is 1, expected >= 2"):
        walk(tiny.problem(), 1)


@given(tiny=st.booleans().flatmap(lambda a: uncapped((Measure.LINEAR,), average=a)))
@settings(max_examples=40, deadline=None)
def test_each_level_is_kept_and_its_bound_holds(tiny):
    problem = tiny.problem()
    plans = [p for p in tiny.plans() if tiny.feasible(p)]
    how = tiny.mean if tiny.goal.average else tiny.worst
    for level, found in walk(problem, 4):
        within = [p for p in plans if level is None or how(p) <= level]
        if found.verdict is Verdict.SOLVED:
            assert level is None or found.judged.f_goal <= level
            best = max(tiny.utility(p) for p in within)
            assert found.judged.u <= best <= found.bound + Fraction(1, 10**6)
        elif found.verdict is Verdict.INFEASIBLE:
            assert not within


def test_what_is_held_at_a_level_asks_for_utility_alone():
    tiny = Tiny(1, 1, goal=priced(average=False))
    assert held_at(tiny.problem(), None).goal.objective == "disc-budget"
