"""Search on from a constructed plan, and the bound by copies and capacities."""

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings

from policies.judging.judge import judge
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan
from policies.planning import improving
from policies.planning.improving import better_plan, transport_bound
from policies.solvers import Limits, Solution, Verdict
from policies.solvers.contract import every_plan
from policies.solvers.interfaces import timeless
from tests.unit.policies.tiny import Tiny, step, tinies

LIMITS = Limits(work=1.0, clock=timeless)


def worth(problem, plan):
    return judge(problem, Plan(plan.entry, plan.adversary)).objective


def searched(problem, plan):
    return better_plan(problem, plan, worth(problem, plan), 0, LIMITS)


@pytest.fixture(params=["whole", "blocks"])
def size(request, monkeypatch):
    """Search it whole, or a block of two entries at a time."""
    if request.param == "blocks":
        monkeypatch.setattr(improving, "WHOLE", 0)
        monkeypatch.setattr(improving, "BLOCK", 2)


CROSSED = Tiny(2, 2, weights=[[9, 5], [8, 1]], capacity=[1, 1])
"""The first worker is better at both fields, and has room for one."""


def test_the_scarce_worker_gets_what_only_that_worker_does_well(size):
    problem = CROSSED.problem()
    plan, bound = searched(problem, Plan.of([(0, 0), (1, 1)]))
    assert set(plan) == {(0, 1), (1, 0)}
    assert bound == 13


def test_what_must_stay_apart_stays_apart(size):
    """Both fields would be worth most with the first worker, who may see one."""
    problem = Tiny(2, 2, [step(0, 1)], weights=[[9, 5], [8, 1]]).problem()
    plan, bound = searched(problem, Plan.of([(0, 0), (1, 1)]))
    assert set(plan) == {(0, 1), (1, 0)}
    assert bound >= 13


def test_what_was_shown_counts(size):
    """The first worker saw field 2, which completes a set with field 1."""
    made = Tiny(3, 2, [step(1, 2)], lo=[1, 1, 0], weights=[[9, 5], [8, 1], [1, 1]])
    made.capacity, made.history = [1, 1], [(2, 0)]
    plan, _ = searched(made.problem(), Plan.of([(0, 0), (1, 1)]))
    assert set(plan) == {(0, 0), (1, 1)}


def test_a_plan_that_is_proven_best_is_returned_without_a_search(monkeypatch):
    monkeypatch.setattr(improving, "solve_by_highs", None)
    plan, bound = searched(CROSSED.problem(), Plan.of([(0, 1), (1, 0)]))
    assert (set(plan), bound) == ({(0, 1), (1, 0)}, 13)


def test_where_there_are_too_many_groups_for_prices_the_bound_is_that_without_capacities():
    assert transport_bound(CROSSED.problem(), priced=0)[0] == 17


def test_a_pair_that_must_not_be_planned_is_worth_nothing_to_the_bound():
    made = replace(CROSSED, capacity=None, forbidden=[(0, 0)])
    assert transport_bound(made.problem())[0] == 5 + 8


@settings(max_examples=80)
@given(tinies())
def test_no_plan_is_worth_more_than_the_bound(tiny):
    problem = replace(tiny.problem(), goal=Goal(tau=Fraction(2)))
    plans = [p for p in every_plan(problem) if judge(problem, p).feasible]
    assume(plans)
    bound = transport_bound(problem)[0] * problem.weights.unit
    assert max(worth(problem, plan) for plan in plans) <= bound


@settings(max_examples=30)
@given(tinies())
def test_from_any_plan_it_finds_the_best(tiny):
    """Where the whole is small enough; the bound is then the value."""
    problem = tiny.problem()
    assume(improving.Milp().supports(problem))
    plans = [p for p in every_plan(problem) if judge(problem, p).feasible]
    assume(plans)
    most = max(worth(problem, plan) for plan in plans)
    plan, bound = searched(problem, plans[0])
    assert judge(problem, plan).feasible
    assert worth(problem, plan) <= most <= bound
    assert float(most - worth(problem, plan)) <= 1e-4 * abs(float(bound))


@settings(max_examples=30)
@given(tinies())
def test_in_blocks_no_plan_gets_worse(tiny):
    """Below limits and as a tradeoff: it keeps the limits, and the bound holds."""
    problem = tiny.problem()
    assume(improving.Milp().supports(problem))
    plans = [p for p in every_plan(problem) if judge(problem, p).feasible]
    assume(plans)
    most = max(worth(problem, plan) for plan in plans)
    with patch.multiple(improving, WHOLE=0, BLOCK=2, LEAST=2):
        plan, bound = searched(problem, plans[0])
    assert judge(problem, plan).feasible
    assert worth(problem, plans[0]) <= worth(problem, plan) <= most <= bound


def test_a_tradeoff_gains_utility_in_blocks_and_discloses_no_more():
    """Both fields would be worth most with the first worker, but that discloses a set."""
    goal = Goal(Objective.TRADEOFF, Fraction(1), Fraction(1))
    problem = Tiny(3, 2, [step(0, 1)], weights=[[9, 5], [9, 1], [1, 1]], goal=goal)
    start = Plan.of([(0, 0), (1, 1), (2, 0)])
    with patch.multiple(improving, WHOLE=0, BLOCK=4, LEAST=4):
        plan, _ = searched(problem.problem(), start)
    assert {(0, 1), (1, 0)} <= set(plan)


def test_a_block_that_is_not_solved_in_its_time_is_followed_by_smaller_ones(
    monkeypatch,
):
    asked = []

    def slow(part, limits, *, seed, start):
        asked.append(int((part.hi > 0).sum()))
        return Solution(Verdict.UNKNOWN, stopped="time")

    monkeypatch.setattr(improving, "solve_by_highs", slow)
    monkeypatch.setattr(improving, "WHOLE", 0)
    monkeypatch.setattr(improving, "BLOCK", 32)
    monkeypatch.setattr(improving, "LEAST", 4)
    rows = [[9, 5], [8, 1]] * 20
    problem = Tiny(40, 2, weights=rows, capacity=[20, 20]).problem()
    plan = Plan.of([(d, d % 2) for d in range(40)])
    assert set(searched(problem, plan)[0]) == set(plan)
    assert asked == [16, 8, 4, 2]
