"""Aggregates of f: judged, planned and bounded as trying all assignments says."""

from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance, rows_of
from policies.judging.judge import judge
from policies.model.aggregates import Aggregate, Shape
from policies.model.problem import Average, Goal, Plan
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.exact.epsilon_constraint import front
from policies.solvers.exact.lexicographic import fewest_complete_sets
from policies.solvers.kernels.plan_state import F
from policies.solvers.search.delta_evaluation import Gains
from tests.unit.policies.aggregate_referee import (
    LINKS,
    SETS,
    aggregate,
    best,
    documents,
    evaluate,
    plans,
    sound,
)
from tests.unit.policies.tiny import tinies

CLOSE = Fraction(1, 10**7)


def planned(rows):
    return Plan.of([(d, a) for d, row in enumerate(rows) for a in row])


@given(document=documents((*SETS, *LINKS)).filter(sound), data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_judge_sees_what_the_definition_says(document, data):
    """u, f, objective, and whether the plan is within its limit."""
    problem = read_instance(document).problem
    k = document["n_adversaries"]
    hands = st.lists(st.integers(0, k - 1), unique=True, max_size=k)
    rows = data.draw(
        st.lists(hands, min_size=len(problem.lo), max_size=len(problem.lo))
    )
    u, f, objective, fine = evaluate(document, rows)
    told = judge(problem, planned(rows))
    assert float(told.u) == pytest.approx(float(u))
    assert float(told.f_goal) == pytest.approx(float(f), abs=1e-9)
    assert float(told.objective) == pytest.approx(float(objective), abs=1e-7)
    assert told.feasible == fine


@given(document=documents((*SETS, "common")).filter(sound), data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_was_held_before_never_lowers_disclosure(document, data):
    """f with one more pair of history is at least f without it."""
    problem = read_instance(document | {"prior": []}).problem
    more = read_instance(document).problem
    assume(problem.n_entries)
    pairs = st.tuples(
        st.integers(0, problem.n_entries - 1), st.integers(0, problem.n_adversaries - 1)
    )
    plan = Plan.of(data.draw(st.lists(pairs, unique=True, max_size=6)))
    assert judge(problem, plan).f_goal <= judge(more, plan).f_goal


@given(
    document=documents((*SETS, *LINKS)).filter(sound),
    flips=st.lists(st.integers(0, 11), max_size=12),
)
@settings(max_examples=100, deadline=None)
def test_a_gain_is_what_the_judge_recomputes(document, flips):
    """Pairs are given and taken; f, and f foreseen of each pair, are the judge's."""
    problem = read_instance(document | {"problem": "tradeoff", "lambda": 1.0}).problem
    gains = Gains(problem, paper=True)
    n, k = problem.n_entries, problem.n_adversaries
    for flip in flips:
        d, a = (flip // k) % n, flip % k
        chosen = bool(gains.state.chosen[d, a])
        foreseen = None
        if not chosen:
            blocked, value, _ = gains.run("assess", d, a, True, inf)
            foreseen = None if blocked else gains.run("risen", a, value)
        gains.give(Plan(np.array([d]), np.array([a])), -1 if chosen else 1)
        f = float(judge(problem, gains.plan()).f_goal)
        assert gains.state.total[F] == pytest.approx(f, abs=1e-6)
        assert foreseen is None or foreseen == pytest.approx(f, abs=1e-6)


@given(
    document=documents((*SETS, *LINKS)).filter(sound),
    flips=st.lists(st.integers(0, 11), max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_compiled_kernels_say_the_same(document, flips):
    """Given the same pairs, in the same order."""
    problem = read_instance(document).problem
    boards = [Gains(problem, quick=quick) for quick in (False, True)]
    for flip in flips:
        k = problem.n_adversaries
        d, a = (flip // k) % problem.n_entries, flip % k
        chosen = bool(boards[0].state.chosen[d, a])
        for gains in boards:
            gains.give(Plan(np.array([d]), np.array([a])), -1 if chosen else 1)
        one, two = (gains.state.total[F] for gains in boards)
        assert one == pytest.approx(two, abs=1e-12)


def answered(name, document):
    problem = read_instance(document).problem
    if not SOLVERS[name].supports(problem):
        return problem, None
    limits = Limits(work=5)
    return problem, SOLVERS[name](problem, np.random.default_rng(1), limits)


@pytest.mark.parametrize("name", sorted(SOLVERS))
@given(document=documents((*SETS, *LINKS)).filter(sound))
@settings(max_examples=20, deadline=None)
def test_no_bound_is_below_the_best_plan_and_no_plan_past_its_limit(name, document):
    """value <= optimum <= bound; what is called infeasible has no plan."""
    problem, found = answered(name, document)
    if found is None:
        return
    top = best(document)
    if found.verdict is Verdict.INFEASIBLE:
        assert top is None
        return
    assert top is None or found.bound >= top - CLOSE
    if found.verdict is Verdict.SOLVED:
        _, _, value, fine = evaluate(document, rows_of(found.plan, problem.n_entries))
        assert fine
        assert abs(found.value - value) < CLOSE
        assert found.value <= found.bound
        if found.stopped == "optimal":
            assert value >= top - CLOSE


@pytest.mark.parametrize("name", ["auto", "milp", "cp-sat"])
@given(document=documents(SETS))
@settings(max_examples=40, deadline=None)
def test_the_best_plan_is_found_where_the_form_is_linear(name, document):
    """All but tradeoffs of power means, and limits on sums of them.

    Of high powers floats and 64 bits can leave open that no plan is below a limit.
    """
    how = document["disclosure"]
    summed = how.get("adversaries") == "sum"
    rooted = how["aggregation"] == "soft-max" and how["q"] > 1
    _, found = answered(name, document)
    if found is None:
        return
    top = best(document)
    if rooted and (summed or document["problem"] == "tradeoff"):
        assert name != "auto" or top is None or found.verdict is Verdict.SOLVED
        return
    if rooted and how["q"] == 32 and found.verdict is Verdict.UNKNOWN:
        assert name != "auto" or top is None
        return
    assert found.verdict is (Verdict.INFEASIBLE if top is None else Verdict.SOLVED)
    if top is not None:
        assert abs(found.value - top) < CLOSE
        assert found.bound - top < CLOSE


AGGREGATES = st.builds(
    Aggregate,
    shape=st.sampled_from(Shape),
    summed=st.booleans(),
    level=st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2)]),
    q=st.integers(1, 3),
    over=st.sampled_from([Fraction(1), Fraction(3), Fraction(5, 2)]),
)
WEIGHTS = st.lists(
    st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(2)]), max_size=2
)


@pytest.mark.parametrize("name", ["auto", "milp", "cp-sat", "greedy", "graspl"])
@given(tiny=tinies(tradeoff=True), how=AGGREGATES, weights=WEIGHTS, data=st.data())
@settings(max_examples=25, deadline=None)
def test_classes_trust_and_several_sets_of_a_property_count(
    name, tiny, how, weights, data
):
    """What files cannot say; the judge looks at all plans."""
    if len(weights) == len(tiny.measures):
        how = replace(how, weights=tuple(weights))
    goal = replace(tiny.goal, aggregate=how)
    caps = ()
    if data.draw(st.booleans()):
        limit = data.draw(st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1)]))
        caps = (Average((), limit, strict=data.draw(st.booleans()), aggregate=how),)
        goal = Goal()
    problem = replace(tiny.problem(), goal=goal, averages=caps)
    told = [judge(problem, Plan.of(plan)) for plan in tiny.plans()]
    top = max((one.objective for one in told if one.feasible), default=None)
    if not SOLVERS[name].supports(problem):
        return
    limits = Limits(work=5)
    found = SOLVERS[name](problem, np.random.default_rng(1), limits)
    if found.verdict is Verdict.INFEASIBLE:
        assert top is None
    elif top is not None:
        assert found.bound >= top - CLOSE
        assert found.verdict is not Verdict.SOLVED or found.value <= top
    rooted = how.shape is Shape.SOFT_MAX and how.q > 1 and (how.summed or not caps)
    if name in ("auto", "milp") and not rooted and top is not None:
        assert abs(found.value - top) < CLOSE


def by_auto(problem, limits=None):
    limits = limits or Limits(work=5)
    return SOLVERS["auto"](problem, np.random.default_rng(1), limits)


@given(document=documents(SETS, ("tradeoff",)))
@settings(max_examples=40, deadline=None)
def test_each_level_of_a_front_is_kept_and_its_bound_holds(document):
    """Levels are in the terms of the aggregate; u of every plan within is bounded."""
    problem = read_instance(document).problem
    every = [evaluate(document, rows) for rows in plans(document)]
    for level, found in front(problem, 3, by_auto):
        within = [
            u
            for u, f, _, fine in every
            if fine and (level is None or f <= float(level) + 1e-12)
        ]
        assert not within or found.bound >= max(within) - CLOSE
        if found.verdict is Verdict.SOLVED:
            assert level is None or found.judged.f_goal <= level + Fraction(1, 10**12)
        if found.verdict is Verdict.INFEASIBLE:
            assert not within


@given(document=documents(SETS))
@settings(max_examples=40, deadline=None)
def test_the_safe_objective_bounds_all_plans_that_complete_no_more(document):
    """Fewest complete sets first; of plans with so many, none is worth more."""
    problem = read_instance(document).problem
    made = fewest_complete_sets(
        problem, np.random.default_rng(1), Limits(work=5), by_auto
    )
    found = made.solution
    if found.verdict is not Verdict.SOLVED:
        return
    for rows in plans(document):
        told = judge(problem, planned(rows))
        if told.feasible:
            assert told.disclosed >= made.least
            if told.disclosed <= found.judged.disclosed:
                assert told.objective <= found.bound + CLOSE


@pytest.mark.parametrize("name", ["greedy", "grasp", "greedyl", "graspl", "rand-plus"])
@given(document=documents((*SETS, *LINKS)).filter(sound))
@settings(max_examples=25, deadline=None)
def test_the_paper_mode_takes_every_aggregate(name, document):
    """It may leak and leave entries out, but what it tells of f is right."""
    problem = read_instance(document).problem
    limits = Limits(work=5, paper=True)
    found = SOLVERS[name](problem, np.random.default_rng(1), limits)
    if found.judged is not None:
        rows = rows_of(found.plan, problem.n_entries)
        assert float(found.judged.f_goal) == pytest.approx(
            float(aggregate(document, rows)), abs=1e-9
        )
