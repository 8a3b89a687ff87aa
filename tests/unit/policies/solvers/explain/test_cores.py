"""Why an instance has no plan: what pools, and what is held, in the user's words."""

from dataclasses import replace

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.solvers import SOLVERS, Cause, Limits, Verdict
from policies.solvers.explain import cores
from tests.unit.policies.tiny import Tiny, step


def document(**changed):
    """Three entries that nobody may hold together, two adversaries."""
    k = changed.get("n_adversaries", 2)
    return {
        "schema": "sparsi-instance/1",
        "n_entries": 3,
        "n_adversaries": k,
        "t": 1,
        "weights": [[1.0] * k] * 3,
        "properties": [{"entries": [0, 1, 2]}],
        "disclosure": {"kind": "step", "aggregation": "worst"},
        "problem": "zero_step",
    } | changed


def core(**changed):
    problem = read_instance(document(**changed)).problem
    found = SOLVERS["auto"](problem, np.random.default_rng(0), Limits())
    assert found.verdict is Verdict.INFEASIBLE
    return found.core


def test_where_all_who_there_are_pool_one_more_may_do():
    """Any two of two hold three entries; of three adversaries one is left out."""
    found = core(any_m=2)
    assert found.clashes[0].cause is Cause.COALITION
    assert (found.needed, found.exact) == (3, True)


def test_a_set_as_small_as_the_coalitions_is_lost_to_any_number():
    assert core(any_m=3).needed is None


def test_coalitions_wider_than_the_adversaries_grow_with_them():
    """Any five hold five entries for sure; six are kept apart by six adversaries."""
    five = [{"entries": [0, 1, 2, 3, 4]}]
    few = core(any_m=5, n_entries=5, weights=[[1.0] * 2] * 5, properties=five)
    assert few.needed is None
    six = [{"entries": [0, 1, 2, 3, 4, 5]}]
    many = core(any_m=5, n_entries=6, weights=[[1.0] * 2] * 6, properties=six)
    assert (many.needed, many.exact) == (6, True)


def test_adversaries_without_room_do_not_keep_a_set_apart():
    """Four there are, but only two may get anything, and any two pool."""
    found = core(n_adversaries=4, any_m=2, capacities=[3, 3, 0, 0])
    assert found.clashes[0].cause is Cause.COALITION
    assert found.needed == 5


def test_more_coalitions_than_are_listed_end_the_count_of_adversaries():
    """Any 7 of 23 are 245,157 coalitions: how many would do stays open."""
    found = core(
        n_adversaries=20,
        any_m=7,
        n_entries=8,
        weights=[[1.0] * 20] * 8,
        properties=[{"entries": list(range(8))}],
        capacities=[2] * 4 + [0] * 16,
    )
    assert (found.needed, found.exact) == (None, False)


@pytest.mark.parametrize(
    ("told", "tried", "needed"),
    [
        (lambda k: None, [3, 5, 9, 17], (None, False)),
        (lambda k: True if k > 5 else None, [3, 5, 9, 7, 6], (6, False)),
        (lambda k: k > 5 or (False if k > 3 else None), [3, 5, 7, 6], (6, True)),
        (lambda k: k > 5, [3, 4, 5, 6], (6, True)),
    ],
    ids=["all open", "few open", "one open", "none open"],
)
def test_where_searches_stay_open_numbers_of_adversaries_are_passed_over(
    monkeypatch, told, tried, needed
):
    """Where pairs pool each is a model of all pairs: 24 that stay open took 25 s of CPU."""
    asked = []

    def possible(problem, rng, limits):
        asked.append(problem.n_adversaries)
        return told(problem.n_adversaries)

    monkeypatch.setattr(cores, "possible", possible)
    problem = read_instance(document(any_m=2)).problem
    found = cores.explain(problem, np.random.default_rng(0), Limits()).core
    assert (found.needed, found.exact) == needed
    assert asked == tried


@pytest.mark.parametrize("kind", ["step", "linear", "quadratic"])
def test_a_mean_that_history_is_past_names_what_was_held(kind):
    """Entry 0 alone is all of properties 0 and 1 of three: 2/3."""
    found = core(
        properties=[{"entries": [d], "a": [1.0]} for d in (0, 0, 1)],
        disclosure={"kind": kind, "aggregation": "average"},
        problem="discbudget",
        tau=0.5,
        prior=[[0, 0]],
        history_only_entries=[0],
    )
    (clash,) = found.clashes
    assert (clash.cause, clash.properties, clash.entries) == (
        Cause.HISTORY,
        (0, 1),
        (0,),
    )


@pytest.mark.parametrize("changed", [{}, {"capacities": [5, 5]}])
def test_links_without_a_limit_of_their_own_are_no_mean(changed):
    """An odd cycle of friends and two adversaries: sets of two, no tau anywhere."""
    cycle = [{"left": [i], "right": [(i + 1) % 5]} for i in range(5)]
    found = core(
        n_entries=5,
        weights=[[1.0] * 2] * 5,
        loc=[0] * 5,
        cnt=[1] * 5,
        properties=cycle,
        disclosure={"kind": "common", "aggregation": "worst"},
        problem="zero_cosine",
        **changed,
    )
    assert found.clashes[0].cause is Cause.SEARCH
    assert found.clashes[0].entries == (0, 1, 2, 3, 4)


def test_weights_of_links_without_a_limit_are_left_out_with_them():
    """Adversary 0 may get nothing, and entry 1 may not go to adversary 1 alone."""
    found = core(
        properties=[{"left": [0], "right": [1]}, {"left": [1], "right": [2]}],
        loc=[0, 0, 0],
        cnt=[1, 1, 1],
        disclosure={
            "kind": "cosine",
            "aggregation": "average",
            "property_weights": [3, 0],
        },
        problem="tradeoff",
        capacities=[0, 2],
    )
    assert found.clashes[0].cause is Cause.CAPACITY


def test_what_trusted_adversaries_held_is_past_no_limit():
    """Adversary 0 holds all of a set and is trusted with it; 1 may not get it too."""
    held = [(0, 0), (1, 0)]
    tiny = Tiny(2, 2, [step(0, 1)], history=held, trusted=[[True, False]])
    problem = replace(tiny.problem(), strict_history=True)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), Limits())
    assert found.verdict is Verdict.SOLVED


@pytest.mark.parametrize(
    "changed",
    [
        {"properties": [{"classes": [[0, 1, 2], [0]]}]},
        {
            "properties": [{"left": [0, 1], "right": [2, 0]}],
            "loc": [0, 1, 2],
            "cnt": [1, 1, 1],
            "disclosure": {"kind": "common", "aggregation": "worst"},
            "problem": "discbudget",
            "tau": 0.5,
        },
    ],
)
def test_entries_that_do_not_matter_are_no_part_of_a_clash(changed):
    """Entry 0 alone is in both classes, or at both ends."""
    found = core(**changed)
    assert found.clashes[0].cause is Cause.SEARCH
    assert (found.clashes[0].entries, found.clashes[0].properties) == ((0,), (0,))


def test_a_mean_that_ends_on_its_limit_is_told_by_what_makes_it_up():
    """Entry 0 makes (.63489 + .714047) / 2 of who gets it; floats call that a tie."""
    found = core(
        properties=[
            {"entries": [0, 1], "a": [0.63489, 0.36411]},
            {"entries": [0, 2], "a": [0.714047, 0.284953]},
        ],
        disclosure={"kind": "linear", "aggregation": "average"},
        problem="discbudget",
        tau=0.6744685,
    )
    (clash,) = found.clashes
    assert (clash.entries, clash.properties) == ((0,), (0, 1))
