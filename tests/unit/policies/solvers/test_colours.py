"""Colourings: CP-SAT to the end on one thread, annealing and HiGHS on the other."""

from time import perf_counter

import numpy as np
import pytest

from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.colours import colourable, colouring
from policies.solvers.race import race
from policies.solvers.role import never
from tests.unit.policies.tiny import Tiny, step

TWO = Limits(seconds=20.0, clock=perf_counter, threads=2, prove=True)


def drawn(n=40, m=60, k=2, seed=0, size=3):
    """Random sets of three of forty entries; whole weights of 1 to 9."""
    rng = np.random.default_rng(seed)
    sets = [step(*rng.choice(n, size, replace=False).tolist()) for _ in range(m)]
    return Tiny(n, k, sets, weights=rng.integers(1, 10, (n, k)).tolist())


def test_a_drawn_colouring_is_proven_as_by_highs():
    problem = drawn().problem()
    assert colourable(problem)
    expected = SOLVERS["milp"](problem, np.random.default_rng(0), TWO)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), TWO)
    assert expected.stopped == found.stopped == "optimal"
    assert found.value == found.bound == expected.value


def test_what_runs_beside_tells_a_plan_and_a_bound():
    problem = drawn().problem()
    _, beside = colouring(problem, np.random.default_rng(0))
    found = beside(Limits(work=1.0), never)
    assert found.verdict is Verdict.SOLVED
    assert found.value <= found.bound


def test_without_a_plan_the_race_says_so():
    """All triples of five entries: two adversaries can not share them out."""
    rows = [step(a, b, c) for a in range(5) for b in range(a) for c in range(b)]
    problem = Tiny(5, 2, rows).problem()
    found = race(colouring(problem, np.random.default_rng(0)), TWO)
    assert Verdict.INFEASIBLE in {one.verdict for one in found}


@pytest.mark.parametrize(
    "tiny",
    [
        drawn(n=301, m=10),  # too many entries for a proof by rules
        drawn(k=4),
        Tiny(4, 2, [step(0, 1, 2)], hi=[2] * 4),
    ],
    ids=["many entries", "four adversaries", "two copies"],
)
def test_what_is_no_small_colouring_is_searched_as_before(tiny):
    problem = tiny.problem()
    assert not colourable(problem)
    assert colouring(problem, np.random.default_rng(0)) == []
