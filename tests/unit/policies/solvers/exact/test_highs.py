"""HiGHS is given the time that is left, and its bound is told whatever it solved."""

from fractions import Fraction
from itertools import count

import highspy
import numpy as np
import pytest

from benchmarks import paper_data
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal
from policies.solvers.exact import highs
from policies.solvers.exact.highs import build, solve
from policies.solvers.exact.linear_model import Builder, Late
from policies.solvers.interfaces import Limits, Verdict, timeless
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


def rivals(n, k):
    """Pairs of entries of which nobody may hold both, each entry in one."""
    sets = [step(d, d + 1) for d in range(0, n, 2)]
    return Tiny(n, k, sets, weights=[[1] * k] * n, hi=[2] * n).problem()


@pytest.mark.parametrize(
    ("limit", "begins"), [(0.5, False), (2.0, True)], ids=["too short", "enough"]
)
def test_an_engine_that_cannot_be_stopped_in_time_is_not_begun(
    limit, begins, monkeypatch
):
    """HiGHS compares 10,000 pairs with each other, .8 s that no clock cuts."""
    problem, built = rivals(2_000, 5), []
    monkeypatch.setattr(highs, "build", lambda *_: built.append(1) or build(EASY))
    solve(problem, Limits(seconds=limit, clock=timeless))
    assert bool(built) is begins


EASY = Tiny(2, 2, [step(0, 1)], weights=[[3, 1], [2, 2]]).problem()


def test_time_that_is_over_while_the_model_is_built_leaves_none_for_the_engine(
    monkeypatch,
):
    now = [0.0]

    def slowly(*_):
        now[0] += 1.5
        return build(EASY)

    monkeypatch.setattr(highs, "build", slowly)
    monkeypatch.setattr(highs, "run", lambda *_, **__: pytest.fail("begun"))
    limits = Limits(seconds=2.0, clock=lambda: now[0])
    found = solve(rivals(2_000, 5), limits)
    assert found.verdict is Verdict.UNKNOWN
    assert found.stopped == "time"


def test_chords_are_not_written_any_more_once_time_is_over():
    """The rows of 50 squares took 5 s after the limit: only the rows before looked."""
    problem = paper_data.synthetic(0, 30, 4, 2, 1, Measure.QUADRATIC, average=True)
    looks = count()
    Builder(problem, lambda: next(looks) < 0).build()
    written = next(looks)
    ends = count()
    with pytest.raises(Late):
        build(problem, over=lambda: next(ends) > written)
