"""Prices of what hands see prove bounds: never below a plan, and often close to the best."""

from fractions import Fraction

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.judging.judge import judge
from policies.model.coalitions import Coalitions
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.sets import NO_CAP, SetSystem
from policies.model.weights import Weights
from policies.solvers import Limits, Verdict
from policies.solvers.bounds.lagrangian import bounded, price_bound, priceable
from policies.solvers.interfaces import answer, free_bound
from policies.solvers.search.ejection_chains import constructed
from tests.unit.policies.referee import best
from tests.unit.policies.solvers.search.test_annealing import AROUND, ASKED, drawn

ROUNDING = 1e-9
WORK = Limits(work=0.02)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ASKED)
def test_no_plan_of_four_entries_is_above_the_bound(name, around):
    """Every function, aggregation and question, with everything that may go with it."""
    for seed in range(2):
        document = drawn(name, seed=seed + 3, **AROUND[around])
        problem = read_instance(document).problem
        assert priceable(problem)
        optimum = best(document)
        if optimum is not None:
            assert float(price_bound(problem, WORK)) >= optimum - ROUNDING


@pytest.mark.parametrize("name", ASKED)
def test_weights_and_pools_of_two_and_three_keep_the_bound_above_every_plan(name):
    for seed in range(4):
        copies = 1 + seed // 2
        n, sizes = (5, (3, 4, 5)) if copies == 1 else (3, (2, 3, 3))
        document = drawn(name, seed=seed, n=n, k=4, sizes=sizes, any_m=2 + seed % 2)
        document["t"] = copies
        for one in document["properties"]:
            size = len(one["entries"])
            if document["disclosure"]["kind"] != "step":
                one["a"] = [2 * (i + 1) / (size * (size + 1)) for i in range(size)]
        problem = read_instance(document).problem
        optimum = best(document)
        if optimum is not None:
            assert float(price_bound(problem, WORK)) >= optimum - ROUNDING


@pytest.mark.parametrize("name", ["whole", "parts", "sealed", "few"])
def test_classes_are_touched_once_for_the_bound_too(name):
    for seed in range(3):
        document = drawn(name, seed=seed, sizes=(4, 3), any_m=2)
        document["properties"][0]["classes"] = [[0, 1], [2, 3]]
        members = document["properties"][1]["entries"]
        document["properties"][1]["classes"] = [members[:1], members[1:]]
        problem = read_instance(document).problem
        optimum = best(document)
        if optimum is not None:
            assert float(price_bound(problem, WORK)) >= optimum - ROUNDING


def pooled(n=24, k=5, kind="linear", problem="tradeoff", tau=0.0, **more):
    """All entries in a set of seven and three of six; any two of five pool; one copy."""
    rng = np.random.default_rng(7)
    sets = [list(range(7)), *(list(range(i, i + 6)) for i in (6, 12, 18))]
    return {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": k,
        "t": 1,
        "weights": rng.uniform(0.1, 1.0, (n, k)).round(3).tolist(),
        "utility_norm": float(n),
        "properties": [{"entries": s, "a": [1 / len(s)] * len(s)} for s in sets],
        "disclosure": {"kind": kind, "aggregation": "worst"},
        "problem": problem,
        "lambda": 1.0,
        "tau": tau,
        "any_m": 2,
    } | more


def test_seven_entries_among_five_show_some_two_of_them_four():
    """Three to each pair would leave one to all but one: six at most."""
    problem = read_instance(pooled()).problem
    u = free_bound(problem)
    bound = price_bound(problem, Limits(work=1e-9))  # no step is made
    assert bound <= u - Fraction(4, 7) + Fraction(1, 10**8)


def test_a_capacity_has_a_price():
    document = pooled(capacities=[2, 2, 2, 2, 16])
    problem = read_instance(document).problem
    table = np.array(document["weights"])
    most = (table[:, 4].sum() + 8 * (1.0 - 0.1)) / 24
    assert float(price_bound(problem, WORK)) < min(most, float(free_bound(problem)))


def test_more_work_proves_no_less():
    problem = read_instance(pooled(kind="quadratic", capacities=[5] * 5)).problem
    bounds = [price_bound(problem, Limits(work=w)) for w in (0.01, 0.03, 0.1)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < bounds[0]


def test_a_plan_beside_it_is_kept_and_its_bound_lowered():
    problem = read_instance(pooled(problem="discbudget", tau=0.8)).problem
    found = constructed(problem, np.random.default_rng(0), Limits(work=1.0))
    assert found.verdict is Verdict.SOLVED
    plan = answer(problem, found.plan)
    (told,) = bounded(problem, [plan], WORK)
    assert told.value == plan.value
    assert plan.value <= told.bound <= plan.bound


def test_limits_that_no_plan_keeps_are_left_for_others_to_refute():
    problem = read_instance(pooled(problem="discbudget", tau=0.3)).problem
    (told,) = bounded(problem, [], WORK)
    assert told.verdict is Verdict.UNKNOWN
    assert told.bound <= free_bound(problem)


def one_step_set(amounts, full):
    """All entries in a set without a limit, with so much each."""
    return SetSystem(
        n_entries=len(amounts),
        properties=("p",),
        measures=(Measure.STEP,),
        owner=np.zeros(1, np.int64),
        start=np.array([0, len(amounts)]),
        entry=np.arange(len(amounts)),
        amount=np.array(amounts),
        cap=np.array([NO_CAP]),
        full=np.array([full]),
        classes=np.zeros(1, np.bool_),
    )


def test_a_load_just_below_a_huge_whole_is_not_complete():
    """Of a thousand millions and a bit, all but one unit discloses nothing."""
    full = 2 * 10**9
    problem = Problem(
        sets=one_step_set([full - 1, 1], full),
        lo=np.array([1, 0]),
        hi=np.ones(2, np.int64),
        weights=Weights.flat(2, 2),
        coalitions=Coalitions(any_m=2),
        goal=Goal(Objective.TRADEOFF, average=True),
    )
    plans = [Plan.of([(0, 0)]), Plan.of([(0, 0), (1, 1)])]
    values = [judge(problem, plan).objective for plan in plans]
    assert price_bound(problem, WORK, float(min(values))) >= max(values)


def test_units_that_do_not_make_up_a_whole_leave_a_load_below_it():
    """Two of three entries of 2 are below 5; 5 less 2 is not the highest load there."""
    problem = Problem(
        sets=one_step_set([2, 2, 2], 5),
        lo=np.array([1, 1, 0]),
        hi=np.ones(3, np.int64),
        weights=Weights.flat(3, 1),
        goal=Goal(Objective.TRADEOFF, Fraction(3), average=True),
    )
    optimum = judge(problem, Plan.of([(0, 0), (1, 0)])).objective
    assert optimum == 5
    assert price_bound(problem, Limits(work=0.05), 3.0) >= optimum - ROUNDING


def test_too_many_sets_of_adversaries_to_choose_from_are_not_for_it():
    document = pooled(n=24, k=40)
    document["t"] = 20
    problem = read_instance(document).problem
    assert not priceable(problem)
    assert bounded(problem, [], WORK) == []


def test_many_hands_times_many_choices_are_not_for_it_either():
    """Eight entries and 17 adversaries: 131,072 choices, times 17 hands or up to 409."""
    for pool, taken in (None, True), (2, False):
        document = pooled(n=8, k=17, t=17, any_m=pool)
        document["properties"] = [{"entries": [*range(8)], "a": [1 / 8] * 8}]
        assert priceable(read_instance(document).problem) is taken
