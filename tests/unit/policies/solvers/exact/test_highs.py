"""HiGHS is given the time that is left, and its bound is told whatever it solved."""

from fractions import Fraction

import highspy
import numpy as np
import pytest

from policies.model.objective import Objective
from policies.model.problem import Goal
from policies.solvers.exact import highs
from policies.solvers.exact.highs import build, solve
from policies.solvers.interfaces import Limits
from tests.unit.policies.tiny import Tiny, step


def test_the_engine_prints_nothing(capfd):
    """Its name on stdout stood before the answer of ``dispatcher solve``."""
    problem = Tiny(2, 2, [step(0, 1)], weights=[[3, 1], [2, 2]]).problem()
    assert highs.run(build(problem), Limits()).status == highs.OPTIMAL
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "left"), [(10.0, 7.5), (2.0, 0.01)])
def test_loading_the_library_takes_of_the_time_too(seconds, left, monkeypatch):
    """2.5 s for the first import: the search gets the rest, and ends in any case."""
    now, told = [0.0], []
    fast = highspy.Highs

    class Slow(fast):
        def __init__(self):
            now[0] += 2.5
            super().__init__()

        def setOptionValue(self, name, value):
            told.append((name, value))
            return super().setOptionValue(name, value)

    monkeypatch.setattr(highspy, "Highs", Slow)
    problem = Tiny(2, 2, [step(0, 1)], weights=[[3, 1], [2, 2]]).problem()
    limits = Limits(seconds=seconds, clock=lambda: now[0])
    found = highs.run(build(problem), limits)
    assert ("time_limit", left) in told
    assert found.status == highs.OPTIMAL
    assert np.isclose(found.bound, found.values @ build(problem).cost)


def test_what_history_alone_discloses_bounds_a_plan_without_entries():
    """Nothing is left to decide, so HiGHS solves no MIP: f = 1 is in the bound yet."""
    goal = Goal(Objective.TRADEOFF, Fraction(4), Fraction(1, 2))
    held = Tiny(1, 1, [step(0)], lo=[0], hi=[0], history=[(0, 0)], goal=goal)
    found = solve(held.problem(), Limits(work=1.0))
    assert found.value == -2
    assert found.bound == pytest.approx(-2)
    assert found.stopped == "optimal"
