"""Tradeoffs of utilities that are no sums: soon good, by slopes, and in time."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from policies.judging.judge import judge
from policies.model.coalitions import Coalitions
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan
from policies.solvers import SOLVERS, Limits, Solution, Verdict
from policies.solvers.interfaces import answer
from policies.solvers.search.submodular_tradeoff import (
    Punctual,
    along_slopes,
    climbed,
    singly,
)
from tests.unit.policies.solvers.search.test_submodular import KINDS, functions, linear
from tests.unit.policies.tiny import Tiny

GOAL = Goal(Objective.TRADEOFF, Fraction(30), average=True)
RNG = np.random.default_rng


def drawn(kind, n=24, k=3):
    """Twelve linear sets of four; two copies of an entry at most."""
    rng = RNG(5)
    sets = [
        linear(dict.fromkeys(rng.permutation(n)[:4].tolist(), 1)) for _ in range(12)
    ]
    tiny = Tiny(n, k, sets, (Measure.LINEAR,), hi=[2] * n, goal=GOAL)
    return replace(tiny.problem(), utilities=functions(rng, kind, n, k))


def dense(problem):
    """All entries with the first two workers: the most u, nearly, and f of 1."""
    plan = Plan.of((d, a) for d in range(problem.n_entries) for a in (0, 1))
    return answer(problem, plan)


@pytest.mark.parametrize("kind", KINDS)
def test_climbs_by_slopes_leave_a_poor_start_at_once(kind):
    problem = drawn(kind)
    first = dense(problem)
    found = climbed(problem, first, RNG(0), Limits(work=0.5))
    assert found.value > first.value + 5
    assert found.value == judge(problem, found.plan).objective
    assert found.tried[-1] == "climbs by slopes of u"


def test_slopes_lead_to_plans_that_are_judged_by_u_itself():
    problem = drawn("root")
    first = dense(problem)
    asked = []

    def led(near, rng, limits):
        asked.append(near.weights)
        return SOLVERS["annealing"](near, rng, limits)

    found = along_slopes(led, problem, first, RNG(0), Limits(work=0.5))
    assert found.value > first.value
    assert found.value == judge(problem, found.plan).objective
    assert len(asked) == 2
    assert not np.array_equal(asked[0].factor, asked[1].factor)  # of both plans


def test_a_worse_plan_along_slopes_is_not_taken():
    problem = drawn("root")
    first = climbed(problem, dense(problem), RNG(0), Limits(work=0.5))
    worst = dense(problem).plan

    def led(near, rng, limits):
        return answer(near, worst)

    assert along_slopes(led, problem, first, RNG(0), Limits()) is first


@pytest.mark.parametrize("kind", ["root", "foreign"])
def test_single_worths_are_those_of_the_utility(kind):
    problem = drawn(kind)
    near = singly(problem)
    for pair in ((0, 0), (7, 2)):
        told = judge(near, Plan.of([pair])).u
        u = problem.utilities.total(
            [frozenset({pair[0]} if a == pair[1] else ()) for a in range(3)]
        )
        assert float(told) == pytest.approx(float(u), abs=1e-5)


def test_no_answer_is_asked_for_that_would_come_too_late():
    problem = replace(drawn("root"), utilities=None)
    now = [0.0]

    def slow(problem, rng, limits):
        now[0] += limits.seconds + 3.0
        return Solution(Verdict.UNKNOWN, tried=("slow",))

    limits = Limits(seconds=10.0, clock=lambda: now[0])
    ask = Punctual(slow, limits, began=0.0, late=4.0)
    part = replace(limits, seconds=2.0)
    tried = [ask(problem, RNG(0), part).tried for _ in range(3)]
    assert tried == [("slow",), ("slow",), ("no time for exact engines",)]
    assert now[0] == limits.seconds  # as late as the answers before
    hopeless = replace(problem, capacity=np.zeros(3, np.int64), lo=problem.hi)
    assert ask(hopeless, RNG(0), part).tried == ("slow",)  # counting takes no time


def test_pooled_tradeoffs_climb_from_what_pairs_are_worth_singly():
    """No solver of such utilities takes coalitions."""
    problem = replace(drawn("facility"), coalitions=Coalitions(groups=((0, 1),)))
    found = SOLVERS["auto"](problem, RNG(0), Limits(work=1.0))
    assert found.verdict is Verdict.SOLVED
    assert "climbs by slopes of u" in found.tried
    assert found.value > dense(problem).value + 5
