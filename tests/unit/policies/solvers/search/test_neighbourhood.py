"""Freed neighbourhoods never make a plan worse, and end."""

from dataclasses import replace

import numpy as np

from policies.model.problem import Plan
from policies.solvers.exact.highs import build
from policies.solvers.interfaces import Limits
from policies.solvers.search import neighbourhood
from policies.solvers.search.neighbourhood import improve
from tests.unit.policies.tiny import Tiny, step


def ring(n, k):
    rows = [[1 + (d * (a + 1)) % 5 for a in range(k)] for d in range(n)]
    sets = [step(d, (d + 1) % n) for d in range(n)]
    return Tiny(n, k, sets, weights=rows, hi=[2] * n)


def test_a_bad_plan_becomes_the_best():
    """Eight entries: from a plan by turns to the optimum of trying all."""
    tiny = ring(6, 3)
    problem = tiny.problem()
    start = Plan.of([(d, d % 3) for d in range(6)])
    found = improve(
        problem, start, np.random.default_rng(0), Limits(work=20), lambda: False
    )
    assert found.value == tiny.best()


def test_it_ends_when_nobody_wants_the_answer():
    """The plan comes back as it was."""
    problem = ring(6, 3).problem()
    start = Plan.of([(d, d % 3) for d in range(6)])
    found = improve(problem, start, np.random.default_rng(0), Limits(), lambda: True)
    assert found.plan.entry.tolist() == start.entry.tolist()
    assert found.plan.adversary.tolist() == start.adversary.tolist()


def test_making_the_model_takes_of_the_time_too(monkeypatch):
    """5 s for the model where 3 s were given: no small problem is solved after that."""
    now = [0.0]

    def slowly(problem, margin, over):
        now[0] += 5.0
        return build(problem, margin, over)

    monkeypatch.setattr(neighbourhood, "build", slowly)
    start = Plan.of([(d, d % 3) for d in range(6)])
    limits = Limits(seconds=3.0, clock=lambda: now[0])
    rng = np.random.default_rng(0)
    found = improve(ring(6, 3).problem(), start, rng, limits, lambda: False)
    assert found.plan.adversary.tolist() == start.adversary.tolist()


def test_one_entry_has_a_neighbourhood_of_one():
    """Two were freed at least: with one entry there that was waited for without end."""
    problem = Tiny(1, 2, [step(0)], weights=[[1, 3]], hi=[1]).problem()
    free = replace(problem, sets=replace(problem.sets, cap=np.array([1])))
    start = Plan.of([(0, 0)])
    rng = np.random.default_rng(0)
    found = improve(free, start, rng, Limits(work=5), lambda: False)
    assert found.value == 3
