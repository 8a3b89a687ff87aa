"""Problems of any kind with few plans: against the judge of every one of them."""

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance
from policies.judging.judge import judge
from policies.model.utility_functions import Coverage, FacilityLocation, Utilities
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.auto import Auto
from policies.solvers.contract import every_plan
from policies.solvers.exact import enumeration
from policies.solvers.exact.enumeration import enumerate_plans, listable, looks
from policies.solvers.explain.withholding import cheapest
from tests.unit.policies.aggregate_referee import LINKS, SETS, documents, sound
from tests.unit.policies.tiny import tinies


def solved(problem, **limits):
    limits = {"work": 2.0} | limits
    return SOLVERS["auto"](problem, np.random.default_rng(0), Limits(**limits))


def best(problem):
    judged = (judge(problem, plan) for plan in every_plan(problem))
    return max((j.objective for j in judged if j.feasible), default=None)


def checked(problem):
    """What all plans say, told by the tables for any kind, links included."""
    with patch.object(enumeration, "LINKED_ENTRIES", -1):
        assert listable(problem)
        found, expected = enumerate_plans(problem, Limits()), best(problem)
    if expected is None:
        assert found.verdict is Verdict.INFEASIBLE
    else:
        assert (found.verdict, found.stopped) == (Verdict.SOLVED, "optimal")
        assert found.value == found.bound == expected


@given(document=documents((*SETS, *LINKS)).filter(sound), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_best_of_all_plans_is_told(document, data):
    """All functions and aggregates, pools, history, capacities; and utilities."""
    problem = read_instance(document).problem
    if data.draw(st.integers(0, 3)) == 0:
        n, k = problem.n_entries, problem.n_adversaries
        serves = FacilityLocation(
            tuple(tuple(1.0 * (d != c) for d in range(n)) for c in (0, 1))
        )
        covers = Coverage(tuple(frozenset({d % 2}) for d in range(n)), (0.5, 2.0))
        functions = [serves if a % 2 else covers for a in range(k)]
        utilities = Utilities(tuple(functions), (Fraction(1, 3),) * k)
        problem = replace(problem, utilities=utilities)
    checked(problem)


@given(tinies(tradeoff=True) | tinies(averages=True), st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_only_policies_have_is_told_too(drawn, strict):
    """From lo to hi copies, barred pairs, trusted adversaries, several means."""
    problem = replace(drawn.problem(), strict_history=strict)
    if any(low > drawn.k for low in problem.lo.tolist()):
        assert not listable(problem)
    else:
        checked(problem)


def instance(kind, properties, disclosure, asked="discbudget", **rest):
    n = rest.pop("n", 4)
    k = rest.pop("k", 2)
    return read_instance(
        {
            "schema": "sparsi-instance/1",
            "n_entries": n,
            "n_adversaries": k,
            "t": 1,
            "weights": [[(3 * d + 2 * a) % 5 / 4 for a in range(k)] for d in range(n)],
            "properties": properties,
            "disclosure": {"kind": kind, **disclosure},
            "problem": asked,
            **rest,
        }
    ).problem


@pytest.mark.parametrize(
    "disclosure",
    [
        {"aggregation": "soft-max", "q": 3},
        {"aggregation": "average", "adversaries": "sum"},
        {"aggregation": "count", "level": 0.25},
    ],
    ids=["soft-max", "sum", "count"],
)
def test_a_relation_with_an_aggregate_is_refuted(disclosure):
    """Five meet at one place, and there are two: somebody sees more than is allowed."""
    tau = 0.05 if disclosure["aggregation"] != "count" else 1.0
    visits = {"loc": [0, 0, 0, 0, 1], "cnt": [1, 2, 1, 3, 2], "tau": tau}
    properties = [{"left": [a], "right": [b]} for a in range(4) for b in range(a)]
    problem = instance("cosine", properties, disclosure, n=5, **visits)
    found = solved(problem)
    assert found.verdict is Verdict.INFEASIBLE
    assert found.cores


SHARES = [
    {"entries": [d, (d + 1) % 5, (d + 3) % 5], "a": [0.5, 0.25, 0.25]} for d in range(5)
]
SOFT_MAX = {"aggregation": "soft-max", "q": 5}


def test_a_tradeoff_with_a_soft_max_ends_at_the_best_of_all_plans():
    """Five entries for two with little room: 2^5 plans."""
    rest = {"n": 5, "capacities": [3, 2], "tau": 1.0, "lambda": 5.0}
    problem = instance("linear", SHARES, SOFT_MAX, "tradeoff", **rest)
    found = solved(problem)
    assert found.stopped == "optimal"
    assert found.value == best(problem)


def test_a_tradeoff_with_a_utility_that_is_no_sum_is_proven():
    utility = {"kind": "concave", "curve": "root"}
    rest = {"n": 6, "tau": 1.0, "lambda": 0.5, "utility": utility}
    shares = [{"entries": [d, d + 1], "a": [0.5, 0.5]} for d in range(5)]
    problem = instance(
        "quadratic", shares, {"aggregation": "average"}, "tradeoff", **rest
    )
    found = solved(problem)
    assert found.stopped == "optimal"
    assert found.value == best(problem)


def four(**rest):
    """Four entries for two: shares of one half, the mean of their squares counts."""
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    shares = [{"entries": list(pair), "a": [0.5, 0.5]} for pair in pairs]
    mean = {"aggregation": "average"}
    given = {"tau": 1.0, "lambda": 2.0, "n": 4} | rest
    return instance("quadratic", shares, mean, "tradeoff", **given)


@pytest.mark.parametrize("many", [False, True], ids=["few plans", "many plans"])
def test_an_engine_that_used_up_its_time_is_no_end(many):
    """All plans, or what greedy and a local search find, stand in for it."""
    problem, off = four(), {"highs", "cp-sat-after"}
    if many:
        off.add("few-plans")
    solver = Auto(frozenset(off))
    found = solver(problem, np.random.default_rng(0), Limits(work=2.0))
    assert found.verdict is Verdict.SOLVED
    assert found.value == best(problem)
    assert (found.stopped == "optimal") == (not many)


def test_a_listing_ends_with_the_time_and_still_bounds():
    """A stop while the judge is asked: neither a plan nor a proof that there is none."""
    problem, asked = four(), iter([False] * 5 + [True])
    found = enumerate_plans(problem, Limits(stopped=lambda: next(asked)))
    assert (found.verdict, found.plan.entry.size) == (Verdict.UNKNOWN, 0)
    assert found.bound >= best(problem)
    assert next(asked, None) is None


def test_the_judge_is_asked_once_for_observers_that_are_alike(monkeypatch):
    """16 subsets for two adversaries and the pair of them, who started with nothing."""
    calls = []

    def counted(problem, plan):
        calls.append(problem)
        return judge(problem, plan)

    monkeypatch.setattr(enumeration, "judge", counted)
    problem = four(any_m=2)
    enumerate_plans(problem, Limits())
    assert len(calls) == 16
    assert looks(problem) > 16 * 3


def test_many_plans_or_many_observers_are_not_listed():
    """3^11 plans; and 1,600 for any three of 40 adversaries, beside 3^8 for three."""
    mean = {"aggregation": "average"}
    assert not listable(instance("linear", [], mean, n=11, k=3, tau=1.0))
    assert listable(instance("linear", [], mean, n=8, k=3, tau=1.0))
    assert not listable(instance("linear", [], mean, n=2, k=40, any_m=3, tau=1.0))


def test_withholding_goes_by_price_where_plans_are_few():
    """CP-SAT adds no roots up, and any plan would do for it."""
    disclosure = {"aggregation": "soft-max", "q": 2, "adversaries": "sum"}
    shares = [
        {
            "entries": [0, 1, 2],
            "a": [0.33829056237815233, 0.3107512349876123, 0.35095820263423537],
        },
        {"entries": [0, 1], "a": [0.4470988127651123, 0.5529011872348877]},
    ]
    limit = {"n": 3, "k": 1, "tau": 0.5, "withhold": [1, 1, 1]}
    problem = instance("linear", shares, disclosure, **limit)
    found = cheapest(problem, np.random.default_rng(0), Limits())
    assert (found.price, found.bound) == (2, 2)
