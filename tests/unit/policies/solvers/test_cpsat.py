"""CP-SAT: its two phases keep to one limit of time."""

from itertools import count

import numpy as np

from policies.solvers import Limits, Verdict, cpsat
from tests.unit.policies.tiny import Tiny, step


def test_looking_for_any_plan_and_for_the_best_share_the_time(monkeypatch):
    """A clock of one second a look: the second phase gets less than the first."""
    seen = []
    run = cpsat._run

    def watched(built, rng, limits):
        seen.append(limits.seconds)
        return run(built, rng, limits)

    monkeypatch.setattr(cpsat, "_run", watched)
    ticks = count()
    limits = Limits(seconds=100, clock=lambda: float(next(ticks)))
    tiny = Tiny(3, 2, [step(0, 1, 2)], weights=[[1, 2], [3, 1], [2, 2]])
    found = cpsat.search(tiny.problem(), np.random.default_rng(0), limits)
    assert found.verdict is Verdict.SOLVED
    assert found.value == found.bound == 7
    assert seen[1] < seen[0] < 100


def test_a_search_that_ends_before_it_began_bounds_nothing():
    """CP-SAT names 0 as its bound then; taken for proven, any plan would be optimal."""
    tiny = Tiny(3, 2, [step(0, 1, 2)], weights=[[1, 2], [3, 1], [2, 2]])
    built = cpsat.build(tiny.problem())
    built.model.maximize(sum(built.variables))
    limits = Limits(work=1e-12)
    plan, state, bound, _ = cpsat.run_model(built, np.random.default_rng(0), limits)
    assert (plan, state, bound) == (None, "unknown", float("inf"))
