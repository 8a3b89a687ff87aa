"""Sweeps over levels of f: the front, and plans that complete no set."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.auto import Auto
from policies.solvers.exact.epsilon_constraint import (
    front,
    held_at,
    leakless,
    whole,
)
from policies.solvers.interfaces import Solution
from tests.unit.policies.referee import best
from tests.unit.policies.tiny import Made, Tiny, priced, step, uncapped


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


def document(properties, weights, **changed):
    """Everyone may get everything; what an adversary sees in the mean counts."""
    return {
        "schema": "sparsi-instance/1",
        "n_entries": len(weights),
        "n_adversaries": len(weights[0]),
        "t": 2,
        "weights": weights,
        "utility_norm": 1,
        "properties": properties,
        "disclosure": {"kind": "step", "aggregation": "average"},
        "problem": "tradeoff",
        "lambda": 1,
        "tau": 0.5,
    } | changed


@st.composite
def documents(draw):
    n, k = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    some = st.lists(st.integers(0, n - 1), unique=True, max_size=3)
    whole = st.builds(lambda entries: {"entries": entries}, some)
    classes = st.builds(
        lambda one, two: {"classes": [c for c in (one, two) if c]}, some, some
    )
    row = st.lists(st.integers(0, 4), min_size=k, max_size=k)
    cap = st.none() | st.integers(0, n)
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, k - 1)).map(list)
    return document(
        draw(st.lists(whole | classes, min_size=1, max_size=4)),
        draw(st.lists(row, min_size=n, max_size=n)),
        problem=draw(st.sampled_from(["tradeoff", "discbudget"])),
        tau=draw(st.sampled_from([0.25, 1 / 3, 0.5, 2 / 3, 1.0])),
        capacities=draw(st.none() | st.lists(cap, min_size=k, max_size=k)),
        prior=draw(st.lists(pair, max_size=2)),
        coalition_groups=draw(st.none() | st.just([list(range(k))[:2]])),
        **{"lambda": draw(st.sampled_from([0.5, 1.0, 3.0, 20.0]))},
    )


@given(one=documents())
@settings(max_examples=60, deadline=None)
def test_a_mean_of_whole_sets_is_solved_to_the_optimum_without_a_look_at_all_plans(one):
    """By all assignments there are: the engines find it, or that there is none."""
    problem, optimum = read_instance(one).problem, best(one)
    solver = Auto(frozenset({"few-plans"}))
    found = solver(problem, np.random.default_rng(0), Limits())
    if optimum is None:
        assert found.verdict is Verdict.INFEASIBLE
        return
    assert found.verdict is Verdict.SOLVED
    assert float(found.value) == pytest.approx(optimum, abs=1e-9)
    assert float(found.bound) == pytest.approx(optimum, abs=1e-7)
