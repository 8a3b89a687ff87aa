"""The safe objective: fewest complete sets first, proven, then the paper's objective."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.measures import MEASURES, Measure
from policies.model.objective import Objective
from policies.model.problem import Average, Coalitions, Goal, Plan
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.exact.lexicographic import countable, fewest_complete_sets
from policies.solvers.interfaces import Solution, answer
from tests.unit.policies.tiny import Made, Tiny, pairs_of, step, uncapped


def ask(problem):
    rng, limits = np.random.default_rng(0), Limits()
    return fewest_complete_sets(
        problem, rng, limits, lambda p, part: SOLVERS["auto"](p, rng, part)
    )


def tradeoff(n, k, sets, *, average=False, **more):
    free = [replace(one, cap=NO_CAP, owner=i) for i, one in enumerate(sets)]
    goal = Goal(Objective.TRADEOFF, Fraction(1), Fraction(0), average, len(sets))
    return Tiny(n, k, free, (Measure.STEP,) * len(sets), goal=goal, **more)


def test_one_leak_that_must_be_makes_no_other_free():
    """A set of one entry leaks; f is 1 then, and the paper's objective gives all to all."""
    tiny = tradeoff(5, 2, [step(0), step(1, 2), step(3, 4)], hi=[2] * 5)
    papers = SOLVERS["auto"](tiny.problem(), np.random.default_rng(0), Limits())
    assert papers.judged.disclosed == 3
    safe = ask(tiny.problem())
    assert safe.solution.judged.whole == (0,)
    assert (safe.least, safe.proven, safe.solution.stopped) == (1, True, "optimal")
    assert safe.solution.judged.u == 2 + 4  # entry 0 to both; of each pair one each


def test_where_none_must_be_complete_none_is():
    tiny = tradeoff(4, 2, [step(0, 1), step(2, 3)], hi=[2] * 4)
    safe = ask(tiny.problem())
    assert (safe.solution.judged.disclosed, safe.least) == (0, 0)
    assert safe.solution.value == safe.solution.bound == 4


def test_a_plan_without_complete_sets_is_searched_on_while_there_is_time():
    """It was returned at once, and 60 % of the time were left."""
    problem = tradeoff(4, 2, [step(0, 1), step(2, 3)], hi=[2] * 4).problem()
    now, given = [0.0], []
    plans = [
        Plan.of([(0, 0), (1, 1), (2, 0), (3, 1)]),
        Plan.of([(0, 0), (1, 1), (2, 0), (3, 1)]),
    ]

    def cut(asked, limits):
        given.append(limits.seconds)
        now[0] += limits.seconds
        plan = plans[len(given) - 1]
        return answer(asked, plan, bound=Fraction(9, len(given)), stopped="time")

    limits = Limits(seconds=10, clock=lambda: now[0])
    found = fewest_complete_sets(problem, np.random.default_rng(0), limits, cut)
    assert given == pytest.approx([4, 6])
    assert found.solution.value == 4
    assert found.solution.bound == Fraction(9, 2)


def test_members_of_a_group_complete_a_set_together():
    tiny = tradeoff(2, 2, [step(0, 1)])
    pooled = replace(tiny.problem(), coalitions=Coalitions(((0, 1),)))
    assert ask(tiny.problem()).least == 0
    assert (ask(pooled).least, ask(pooled).proven) == (1, True)


def test_what_was_complete_before_counts_and_closes_nothing_else():
    tiny = tradeoff(3, 1, [step(0), step(1, 2)], lo=[0, 0, 0], hi=[1, 1, 1])
    past = replace(tiny, history=[(0, 0)])
    safe = ask(past.problem())
    assert (safe.solution.judged.whole, safe.least) == ((0,), 1)
    assert safe.solution.judged.u == 2


def test_a_problem_without_any_plan_says_so_as_it_would():
    tiny = tradeoff(2, 1, [step(0)], capacity=[1])
    assert ask(tiny.problem()).solution.verdict is Verdict.INFEASIBLE


def test_limits_of_their_own_stay_hard():
    """A linear set below one half, and a step set that may be whole."""
    half = Made({0: 1, 1: 1}, 1, 2, 0)
    free = Made({2: 1}, NO_CAP, 1, 1)
    goal = Goal(Objective.TRADEOFF, Fraction(1), Fraction(0))
    tiny = Tiny(3, 2, [half, free], (Measure.LINEAR, Measure.STEP), goal=goal)
    found = ask(tiny.problem()).solution
    assert found.verdict is Verdict.SOLVED
    assert tiny.feasible(pairs_of(found.plan))


def test_a_bound_does_not_count_on_a_leak_that_was_not_proven():
    """Step 1 ended by the clock: a plan without any complete set may be there."""
    tiny = tradeoff(4, 2, [step(0, 1), step(2, 3)], hi=[2] * 4)
    rng, limits = np.random.default_rng(0), Limits()
    late = fewest_complete_sets(
        tiny.problem(), rng, limits, lambda *_: Solution(Verdict.UNKNOWN)
    )
    assert late.solution.bound >= 4
    assert late.solution.judged.disclosed >= late.least == 0


def test_an_entry_that_weighs_nothing_is_a_member_all_the_same():
    """Without entry 2 nobody holds the set whole, though all of its weight is held."""
    light = Made({0: 1, 1: 1, 2: 0}, NO_CAP, 2, 0)
    goal = Goal(Objective.TRADEOFF, Fraction(0), Fraction(0))
    tiny = Tiny(
        3, 2, [light], (Measure.LINEAR,), goal=goal, weights=[[1, 0], [1, 0], [0, 1]]
    )
    safe = ask(tiny.problem())
    assert (safe.solution.judged.u, safe.least) == (3, 0)
    assert safe.solution.bound >= 3


def test_a_plan_past_a_mean_gives_way_to_the_one_before_it():
    """One set leaks to whom it goes; CP-SAT alone would give all of the rest there too."""
    sets = [step(0), *(step(d, d + 1) for d in range(1, 5))]
    tiny = tradeoff(6, 2, sets, average=True, weights=[[1, 0]] * 6)
    mean = Average(tuple(range(5)), Fraction(1, 2), over=5)
    limited = replace(tiny.problem(), averages=(mean,), goal=Goal())
    safe = ask(limited)
    assert safe.solution.verdict is Verdict.SOLVED
    assert (safe.solution.judged.disclosed, safe.least) == (1, 1)


def complete(tiny, pairs):
    """Sets that somebody holds whole, counted naively."""
    every = pairs | set(tiny.history)
    hands = [{d for d, b in every if b == a} for a in range(tiny.k)]
    return sum(any(set(one.members) <= hand for hand in hands) for one in tiny.sets)


@st.composite
def problems(draw):
    measure = draw(st.sampled_from([*MEASURES.values()]))
    return draw(uncapped((measure,), average=draw(st.booleans())))


@given(tiny=problems())
@settings(max_examples=60, deadline=None)
def test_no_plan_completes_fewer_and_the_bound_holds_at_that_number(tiny):
    problem = tiny.problem()
    assert countable(problem)
    ranked = sorted(
        (complete(tiny, pairs), -tiny.objective(pairs))
        for pairs in tiny.plans()
        if tiny.feasible(pairs)
    )
    safe = ask(problem)
    if not ranked:
        assert safe.solution.verdict is Verdict.INFEASIBLE
        return
    assert safe.solution.verdict is Verdict.SOLVED
    assert safe.solution.judged.disclosed == safe.least == ranked[0][0]
    best = -ranked[0][1]
    assert safe.solution.value <= best <= safe.solution.bound + Fraction(1, 10**6)
    if safe.solution.stopped == "optimal" or not tiny.goal.average:
        assert float(safe.solution.value) == pytest.approx(float(best), abs=1e-6)
