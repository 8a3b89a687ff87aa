"""Visits of any size and any fraction: the smallest count is seen beside the largest.

The truth is worked out here from the definition, in decimals of 60 digits, for every
assignment; nothing of the engine is asked for it.
"""

from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance, rows_of
from policies.judging.judge import judge
from policies.model.problem import Plan
from policies.solvers import SOLVERS, Limits, Verdict

PLACES = 2
COUNTS = st.one_of(
    st.sampled_from([0, 0.0, 1, 1.0, 0.5, 1 / 3, 1e-8, 1e-300, 5e7, 1e300]),
    st.integers(0, 2**53),
    st.floats(0, 1e12, allow_nan=False),
)


def document(counts, kind="cosine", problem="zero_cosine", **changes):
    """People of two places each, every two of them friends, and two adversaries."""
    n = len(counts)
    people = [list(range(d, d + PLACES)) for d in range(0, n, PLACES)]
    return {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[1.0, 0.5]] * n,
        "loc": [d % PLACES for d in range(n)],
        "cnt": counts,
        "properties": [
            {"left": one, "right": other}
            for i, one in enumerate(people)
            for other in people[:i]
        ],
        "disclosure": {"kind": kind, "aggregation": "worst"},
        "problem": problem,
        **changes,
    }


def exact(count):
    """The number that is written: a third for 1 / 3, a tenth for 0.1."""
    return Decimal(1) / 3 if count == 1 / 3 else Decimal(repr(count))


def worst(told, rows):
    """Largest f of a link that somebody sees, by the definition."""
    found = Decimal(0)
    for a, link in product(range(told["n_adversaries"]), told["properties"]):
        left, right = (
            {told["loc"][d]: exact(told["cnt"][d]) for d in link[end] if a in rows[d]}
            for end in ("left", "right")
        )
        dot = sum(count * right.get(place, 0) for place, count in left.items())
        if not dot:
            continue
        if told["disclosure"]["kind"] == "common":
            return Decimal(1)
        squares = [sum(c * c for c in end.values()) for end in (left, right)]
        found = max(found, dot / (squares[0] * squares[1]).sqrt())
    return found


def assignments(n):
    return (list(map(list, rows)) for rows in product([(0,), (1,)], repeat=n))


@pytest.mark.parametrize("kind", ["cosine", "common"])
@settings(max_examples=25, deadline=None)
@given(counts=st.lists(COUNTS, min_size=4, max_size=6).filter(lambda c: len(c) != 5))
def test_the_judge_sees_what_the_definition_says(kind, counts):
    """F to 10^-12 of itself, and 0 only where it is 0, for every assignment."""
    told = document(counts, kind)
    problem = read_instance(told).problem
    with localcontext() as context:
        context.prec = 60
        for rows in assignments(len(counts)):
            plan = Plan.of([(d, a) for d, row in enumerate(rows) for a in row])
            seen, true = judge(problem, plan), worst(told, rows)
            assert seen.feasible is (true == 0)
            assert (seen.f == 0) is (true == 0)
            assert float(seen.f) == pytest.approx(float(true), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "counts",
    [
        [5 * 10**7, 1, 1, 1],
        [1, 1, 1e-8, 1],
        [1, 1e300, 1, 5e-324],
        [2**53, 1, 1, 2**53],
    ],
)
@pytest.mark.parametrize("kind", ["cosine", "common"])
def test_no_plan_leaks_by_a_small_count(kind, counts):
    """Two friends, both at both places: no adversary gets both at one of them."""
    told = document(counts, kind)
    problem = read_instance(told).problem
    found = SOLVERS["auto"](problem, np.random.default_rng(0), Limits(work=5))
    assert found.verdict is Verdict.SOLVED
    rows = rows_of(found.plan, 4)
    assert worst(told, rows) == 0
    alone = read_instance(document(counts, kind, n_adversaries=1, weights=[[1]] * 4))
    found = SOLVERS["auto"](alone.problem, np.random.default_rng(0), Limits(work=5))
    assert found.verdict is Verdict.INFEASIBLE


@settings(max_examples=25, deadline=None)
@example(counts=[0, 1, 0, 1e-300], tau=0.3)
@example(counts=[1e300, 1, 5e-324, 1], tau=0.8)
@given(counts=st.lists(COUNTS, min_size=4, max_size=4), tau=st.sampled_from([0.3, 0.8]))
def test_a_bound_holds_and_a_limit_is_kept_for_uneven_counts(counts, tau):
    """value <= best of all assignments <= bound, for a limit and for the tradeoff."""
    for asked in ("discbudget", "tradeoff"):
        told = document(counts, problem=asked, tau=tau, utility_norm=4)
        problem = read_instance(told).problem
        limits = Limits(work=3)
        found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
        truth = []
        for rows in assignments(4):
            f = float(worst(told, rows))
            u = sum(told["weights"][d][row[0]] for d, row in enumerate(rows)) / 4
            if asked == "tradeoff":
                truth.append(u + tau - f)
            elif f < tau:
                truth.append(u)
        if found.verdict is Verdict.SOLVED:
            assert float(found.value) <= max(truth) + 1e-9
            assert float(found.bound) >= max(truth) - 1e-9
            f = float(worst(told, rows_of(found.plan, 4)))
            assert asked == "tradeoff" or f < tau + 1e-12
        else:
            assert found.verdict is not Verdict.INFEASIBLE or not truth
