"""Finished plans: read in both forms, judged as solved, and every damage is named."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance, rows_of
from policies.instances.json_values import InvalidInstance
from policies.instances.plan_document import read_plan
from policies.judging.judge import judge
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.interfaces import timeless
from tests.unit.policies.referee import evaluate

PAIR = {
    "schema": "sparsi-instance/1",
    "n_entries": 4,
    "n_adversaries": 3,
    "t": 2,
    "weights": [[1, 2, 3]] * 4,
    "utility_norm": 1,
    "properties": [{"entries": [0, 1]}, {"entries": [1, 2]}],
    "disclosure": {"kind": "step", "aggregation": "worst"},
    "problem": "zero_step",
    "capacities": [2, None, None],
    "prior": [[3, 2]],
    "history_only_entries": [3],
}
KEPT = [[0], [1], [0], []]
"""A plan of it that keeps every limit."""


def judged(document, rows):
    """The judgement of a plan that went through a file."""
    found = read_instance(document)
    sizes = found.problem.n_entries, found.problem.n_adversaries
    return judge(found.problem, read_plan(json.loads(json.dumps(rows)), *sizes))


@st.composite
def instances(draw):
    """Documents of up to 4 entries and 3 adversaries; quarters, so that floats are exact."""
    n, k = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["step", "linear", "quadratic"]))
    asked = ["tradeoff", "discbudget"] + ["zero_step"] * (kind == "step")
    closed = draw(st.sets(st.integers(0, n - 1), max_size=1))
    held = st.tuples(st.integers(0, n - 1), st.integers(0, k - 1))
    members = st.sets(st.integers(0, n - 1), min_size=1)
    return PAIR | {
        "n_entries": n,
        "n_adversaries": k,
        "t": draw(st.integers(1, 3)),
        "weights": [[draw(st.integers(0, 3)) for _ in range(k)] for _ in range(n)],
        "properties": [
            {"entries": sorted(p), "a": [0.25] * len(p)}
            for p in draw(st.lists(members, max_size=3))
        ],
        "disclosure": {
            "kind": kind,
            "aggregation": draw(st.sampled_from(["worst", "average"])),
        },
        "problem": draw(st.sampled_from(asked)),
        "lambda": draw(st.integers(0, 4)),
        "tau": draw(st.integers(1, 4)) / 4,
        "capacities": draw(
            st.none() | st.lists(st.none() | st.integers(0, 3), min_size=k, max_size=k)
        ),
        "prior": [list(pair) for pair in sorted(draw(st.sets(held, max_size=2)))],
        "history_only_entries": sorted(closed),
    }


@st.composite
def planned(draw):
    document = draw(instances())
    row = st.sets(st.integers(0, document["n_adversaries"] - 1)).map(sorted)
    n = document["n_entries"]
    return document, draw(st.lists(row, min_size=n, max_size=n))


@given(planned(), st.booleans())
def test_any_plan_is_judged_as_the_naive_referee_judges_it(drawn, wrapped):
    """u, f, objective, whole properties and the verdict, in both forms of the file."""
    document, rows = drawn
    u, f, objective, whole, fine = evaluate(document, rows)
    seen = judged(document, {"assignment": rows, "core": None} if wrapped else rows)
    assert float(seen.u) == pytest.approx(u, abs=1e-12)
    assert float(seen.f_goal) == pytest.approx(f, abs=1e-12)
    assert float(seen.objective) == pytest.approx(objective, abs=1e-12)
    assert seen.feasible == fine
    assert seen.feasible == (not seen.violations)
    if document["disclosure"]["kind"] == "step":
        assert seen.disclosed == whole


@settings(max_examples=40, deadline=None)
@given(instances(), st.sampled_from(["greedyl", "milp"]))
def test_what_a_solver_returns_is_judged_feasible_with_the_same_objective(document, by):
    """Its plan, as rows in a file, read again: nothing is lost and nothing is gained."""
    found = read_instance(document)
    answer = SOLVERS[by](
        found.problem, np.random.default_rng(0), Limits(seconds=10, clock=timeless)
    )
    if answer.verdict is not Verdict.SOLVED:
        return
    seen = judged(document, rows_of(answer.plan, document["n_entries"]))
    assert (seen.violations, seen.objective) == ((), answer.value)


@pytest.mark.parametrize(
    ("entry", "row", "told"),
    [
        (0, [], "entry 0 gets 0 copies, expected 1 to 2"),
        (0, [0, 1, 2], "entry 0 gets 3 copies, expected 1 to 2"),
        (3, [1], "entry 3 gets 1 copy, it is history only"),
        (1, [0], "adversary 0 gets 3 new exposures, capacity 2"),
        (1, [0], "property 0: entries 0, 1 are all held by adversary 0"),
        (2, [1], "property 1: entries 1, 2 are all held by adversary 1"),
    ],
)
def test_a_damaged_plan_names_its_damage(entry, row, told):
    """The plan keeps everything until one row of it is changed."""
    assert judged(PAIR, KEPT).violations == ()
    rows = [row if d == entry else kept for d, kept in enumerate(KEPT)]
    assert told in judged(PAIR, rows).violations


SIMPLE = {"capacities": None, "prior": None, "history_only_entries": None}
PLACES = {"loc": [0, 0, 1, 1], "cnt": [1, 1, 1, 1]}
LINKS = [{"left": [0, 2], "right": [1, 3]}, {"left": [2], "right": [3]}]
ALL = [[0], [0], [0], [1]]


@pytest.mark.parametrize(
    ("change", "rows", "told"),
    [
        (
            {"properties": [{"classes": [[0, 1], [2]]}]},
            ALL,
            ["property 0: an entry of every class is held by adversary 0"],
        ),
        (
            {"properties": [{"entries": [0]}], "coalition_groups": [[0, 1]]},
            ALL,
            [
                "property 0: entry 0 is held by adversary 0",
                "property 0: entry 0 is held by adversaries 0, 1 together",
            ],
        ),
        (
            {"prior": [[0, 2], [1, 2]]},
            [[0], [1], [0], [1]],
            ["property 0: entries 0, 1 are all held by adversary 2, by history alone"],
        ),
        (
            {
                "properties": [{"entries": [0, 1, 2], "a": [0.25, 0.25, 0.5]}],
                "disclosure": {"kind": "quadratic", "aggregation": "worst"},
                "problem": "discbudget",
                "tau": 0.5,
            },
            ALL,
            ["property 0: 1 is disclosed to adversary 0, allowed at most 1/4"],
        ),
        (
            {
                "properties": [{"entries": [0, 1]}, {"entries": [3]}],
                "disclosure": {"kind": "step", "aggregation": "average"},
                "problem": "discbudget",
                "tau": 0.5,
            },
            ALL,
            [
                "the mean disclosure to adversary 0 is 1/2, allowed below 1/2",
                "the mean disclosure to adversary 1 is 1/2, allowed below 1/2",
            ],
        ),
        (
            {
                "properties": LINKS,
                "disclosure": {"kind": "common", "aggregation": "worst"},
                "problem": "discbudget",
                "tau": 0.5,
            }
            | PLACES,
            ALL,
            ["property 0: 1 is disclosed to adversary 0, allowed below 1/2"],
        ),
        (
            {
                "properties": LINKS,
                "disclosure": {"kind": "common", "aggregation": "average"},
                "problem": "discbudget",
                "tau": 0.5,
            }
            | PLACES,
            ALL,
            ["the mean disclosure to adversary 0 is 1/2, allowed below 1/2"],
        ),
        (
            {
                "disclosure": {
                    "kind": "step",
                    "aggregation": "worst",
                    "adversaries": "sum",
                },
                "properties": [{"entries": [0, 1]}, {"entries": [3]}],
                "problem": "discbudget",
                "tau": 1.5,
            },
            ALL,
            ["the worst disclosure in all is 2, allowed below 3/2"],
        ),
        (
            {
                "properties": [{"entries": [0, 1]}, {"entries": [3]}],
                "disclosure": {
                    "kind": "step",
                    "aggregation": "average",
                    "property_weights": [2, 1],
                },
                "problem": "discbudget",
                "tau": 0.5,
            },
            ALL,
            ["the average disclosure to adversary 0 is 2/3, allowed below 1/2"],
        ),
        (
            {
                "properties": [LINKS[0], LINKS[0], LINKS[1]],
                "disclosure": {
                    "kind": "common",
                    "aggregation": "worst",
                    "property_weights": [2, 3, 0],
                },
                "problem": "discbudget",
                "tau": 0.5,
            }
            | PLACES,
            ALL,
            [
                "property 0: 1 is disclosed to adversary 0, allowed below 1/4",
                "property 1: 1 is disclosed to adversary 0, allowed below 1/6",
            ],
        ),
        (
            {
                "properties": [LINKS[0], LINKS[1], LINKS[0], LINKS[0]],
                "disclosure": {"kind": "cosine", "aggregation": "worst"},
                "problem": "zero_cosine",
            }
            | PLACES,
            ALL,
            ["properties 0, 2, 3: entries 0, 1 are all held by adversary 0"],
        ),
        (
            {
                "properties": [LINKS[0]] * 10,
                "disclosure": {"kind": "cosine", "aggregation": "worst"},
                "problem": "zero_cosine",
            }
            | PLACES,
            ALL,
            [
                "properties 0, 1, 2, 3, 4, 5, 6, 7 and 2 more: entries 0, 1 are all "
                "held by adversary 0"
            ],
        ),
    ],
)
def test_every_sort_of_limit_is_told_in_words(change, rows, told):
    assert list(judged(PAIR | SIMPLE | change, rows).violations) == told


@pytest.mark.parametrize("tau", [0, -1])
@pytest.mark.parametrize("aggregation", ["worst", "average", "count"])
@pytest.mark.parametrize("kind", ["step", "linear", "common", "cosine"])
def test_a_limit_that_nothing_is_below_is_told_once(kind, aggregation, tau):
    """0 is the tau of a file without one: f is at least 0, whoever sees what."""
    change = {
        "properties": LINKS if kind in ("common", "cosine") else [{"entries": [0, 1]}],
        "disclosure": {"kind": kind, "aggregation": aggregation},
        "problem": "discbudget",
        "tau": tau,
    }
    if kind == "linear":
        change["properties"][0]["a"] = [0.5, 0.5]
    if aggregation == "count":
        change["disclosure"]["level"] = 0.5
    document = PAIR | SIMPLE | change | (PLACES if kind in ("common", "cosine") else {})
    for rows in (ALL, [[0], [1], [0], [1]]):
        told = judged(document, rows).violations
        assert told == (f"no disclosure is below tau = {tau}",)
    if tau == 0:
        document.pop("tau")
        assert judged(document, ALL).violations == ("no disclosure is below tau = 0",)


def test_a_large_coalition_is_counted():
    """Ten who pool what they hold: eight are named."""
    many = {
        "n_entries": 2,
        "n_adversaries": 10,
        "weights": [[1] * 10] * 2,
        "properties": [{"entries": [0, 1]}],
        "coalition_groups": [list(range(10))],
    }
    assert judged(PAIR | SIMPLE | many, [[0], [1]]).violations == (
        "property 0: entries 0, 1 are all held by adversaries 0, 1, 2, 3, 4, 5, 6, 7 "
        "and 2 more together",
    )


def test_a_long_set_is_counted_and_a_long_list_is_cut():
    """12 entries of one set; 40 sets of which 20 are told."""
    wide = {
        "n_entries": 12,
        "weights": [[1, 1, 1]] * 12,
        "properties": [{"entries": list(range(12))}] * 40,
    }
    seen = judged(PAIR | SIMPLE | wide, [[0]] * 12)
    assert len(seen.violations) == 21
    assert seen.violations[0] == "property 0: all 12 entries are held by adversary 0"
    assert seen.violations[-1] == "and 20 more limits crossed"


@pytest.mark.parametrize(
    ("document", "where", "what"),
    [
        (None, "the plan", "found null, expected a list"),
        ("[[0]]", "the plan", "found a string"),
        ({}, "the plan", "the key 'assignment' is missing"),
        ({"front": [KEPT]}, "the plan", "the key 'assignment' is missing"),
        (PAIR, "schema", "this is an instance, expected a plan"),
        (
            {"assignment": None},
            "assignment",
            "there is no plan, or that none was found",
        ),
        ({"assignment": 7}, "assignment", "found the number 7, expected a list"),
        (KEPT[:3], "the plan", "the list has 3 rows, expected 4"),
        ([*KEPT, []], "the plan", "the list has 5 rows, expected 4"),
        ([0, 1, 0, 2], "the plan[0]", "found the number 0, expected a list"),
        ([*KEPT[:3], None], "the plan[3]", "found null, expected a list"),
        ([[3], *KEPT[1:]], "the plan[0][0]", "3 is out of range, expected 0 to 2"),
        ([[0, -1], *KEPT[1:]], "the plan[0][1]", "-1 is out of range"),
        ([[10**400], *KEPT[1:]], "the plan[0][0]", "out of range"),
        ([[0.0], *KEPT[1:]], "the plan[0][0]", "expected an integer"),
        ([[math.nan], *KEPT[1:]], "the plan[0][0]", "expected an integer"),
        ([[True], *KEPT[1:]], "the plan[0][0]", "found true, expected an integer"),
        ([["0"], *KEPT[1:]], "the plan[0][0]", "found a string"),
        ({"assignment": [[1, 0, 1], *KEPT[1:]]}, "assignment[0][2]", "adversary 1 sta"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(document, where, what):
    with pytest.raises(InvalidInstance) as caught:
        read_plan(document, 4, 3)
    assert caught.value.where == where
    assert what in caught.value.what
    assert caught.value.mend.endswith(".")


def test_a_plan_of_nothing_is_a_plan():
    assert len(read_plan([], 0, 1)) == 0
