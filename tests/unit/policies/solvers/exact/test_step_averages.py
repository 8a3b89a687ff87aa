"""Means over whole sets, counted by CP-SAT: against all plans, and where HiGHS gave up."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.exact.step_averages import by_number, stepped
from tests.unit.policies.referee import best
from tests.unit.policies.solvers.test_graphs import mycielski


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


def counted(one, **limits):
    problem = read_instance(one).problem
    assert stepped(problem)
    return by_number(problem, np.random.default_rng(0), Limits(**limits))


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
def test_the_optimum_is_proven_or_that_there_is_none(one):
    """By all assignments there are: exact, as it is counted in integers."""
    found, optimum = counted(one), best(one)
    if optimum is None:
        assert found.verdict is Verdict.INFEASIBLE
        return
    assert found.verdict is Verdict.SOLVED
    assert float(found.value) == pytest.approx(optimum, abs=1e-9)
    assert found.value == found.bound
    assert found.stopped == "optimal"


def test_a_clock_that_ran_out_leaves_a_bound_over_all_plans():
    """Utility alone is 3 + 3, and a half comes on top: no level was looked at."""
    one = document([{"entries": [0, 1]}], [[3], [3]])
    ticks = iter(range(100))
    found = counted(one, seconds=0.5, clock=lambda: float(next(ticks)))
    assert found.verdict is Verdict.UNKNOWN
    assert found.bound == Fraction(13, 2)


def test_auto_proves_in_little_work_what_highs_does_not():
    """Myciel4 takes five colours: in four, somebody holds both ends of one edge of 71."""
    n, edges = mycielski(4)
    pairs = [{"entries": list(edge)} for edge in edges]
    one = document(pairs, [[1] * 4] * n, t=1, tau=0, **{"lambda": 71})
    problem, limits = read_instance(one).problem, Limits(work=0.5)
    highs, found = (
        SOLVERS[name](problem, np.random.default_rng(0), limits)
        for name in ("milp", "auto")
    )
    assert highs.stopped != "optimal"
    assert (found.value, found.bound, found.stopped) == (n - 1, n - 1, "optimal")


def test_what_is_not_a_mean_of_whole_sets_is_left_to_others():
    """Worst sets, weighted ones, and those too many to count."""
    pair = {"entries": [0, 1], "a": [0.5, 0.5]}
    for changed in (
        {"disclosure": {"kind": "step", "aggregation": "worst"}},
        {"disclosure": {"kind": "linear", "aggregation": "average"}},
        {"problem": "zero_step"},
        {"properties": [{"entries": [0, 1]}] * 6_000},
    ):
        one = document([pair], [[1, 1], [1, 1]]) | changed
        assert not stepped(read_instance(one).problem)
