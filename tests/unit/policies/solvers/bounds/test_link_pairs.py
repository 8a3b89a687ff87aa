"""Limits on links that what is held already is past, for good or only for now."""

from fractions import Fraction

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.model.problem import Pairs
from policies.solvers import SOLVERS, Cause, Limits, Verdict
from policies.solvers.bounds.link_pairs import outgrown
from policies.solvers.explain.messages import sentences
from tests.unit.policies.solvers.bounds.test_link_bounds import friends

ALIKE = Pairs.of([(0, 0), (2, 0)])


def three(k=1, **rest):
    """User 0 was at two places, user 1 at the first of them; all held but entry 1."""
    rest = {"history": ALIKE, "strict_history": True} | rest
    visits = [(0, 0, 1), (0, 1, 1), (1, 0, 1)]
    problem = friends(visits, [(0, 1)], [[1] * k] * 3, **rest)
    problem.lo.flags.writeable = problem.hi.flags.writeable = True
    problem.lo[[0, 2]] = problem.hi[[0, 2]] = 0
    return problem


def solved(problem):
    return SOLVERS["auto"](problem, np.random.default_rng(0), Limits())


@pytest.mark.parametrize("limit", ["tau", "mean_tau"])
def test_a_cosine_past_its_limit_now_may_fall_again(limit):
    """(1, 0) and (1) are alike by 1; with entry 1 it is (1, 1): 1 / sqrt 2 = .707."""
    problem = three(**{limit: Fraction(9, 10)})
    assert not list(outgrown(problem))
    found = solved(problem)
    assert found.verdict is Verdict.SOLVED
    assert found.value == 1


@pytest.mark.parametrize("limit", ["tau", "mean_tau"])
def test_a_cosine_that_nothing_lowers_enough_is_named(limit):
    """.707 at best, and .7 is the limit."""
    problem = three(**{limit: Fraction(7, 10)})
    (clash,) = outgrown(problem)
    assert (clash.cause, clash.properties) == (Cause.HISTORY, (0,))
    assert clash.entries == (0, 2)
    found = solved(problem)
    assert found.verdict is Verdict.INFEASIBLE
    (why,) = sentences(problem, found.core)
    assert why == ("property 0 is past its limit by history alone: entries 0 and 2")


def test_a_limit_on_a_cosine_is_passed_where_it_is_reached():
    """Both held the same alone: 1 for ever, and tau = 1 must not be reached."""
    visits = [(0, 0, 1), (1, 0, 1)]
    both = Pairs.of([(0, 0), (1, 0)])
    for tau, past in ((Fraction(1), 1), (Fraction(11, 10), 0)):
        problem = friends(visits, [(0, 1)], [[1]] * 2, tau=tau, history=both)
        assert len(list(outgrown(problem))) == past


def budget(**changed):
    """Friends 0 and 1 share a place, 0 and 2 another; one adversary."""
    return {
        "schema": "sparsi-instance/1",
        "n_entries": 4,
        "n_adversaries": 1,
        "t": 1,
        "weights": [[1.0]] * 4,
        "properties": [{"left": [0, 1], "right": [2]}, {"left": [0, 1], "right": [3]}],
        "loc": [0, 1, 0, 2],
        "cnt": [3, 1, 1, 1],
        "disclosure": {"kind": "cosine", "aggregation": "worst"},
        "problem": "discbudget",
        "tau": 0.5,
    } | changed


def test_a_core_over_links_names_the_friends_and_how_many_would_do():
    """Both ends at place 0 are 1, .95 with entry 1; the second link shares no place."""
    problem = read_instance(budget()).problem
    found = solved(problem)
    assert found.verdict is Verdict.INFEASIBLE
    (core,) = found.cores
    (clash,) = core.clashes
    assert (clash.properties, clash.entries) == ((0,), (0, 2))
    assert (core.needed, core.exact) == (2, True)
    assert sentences(problem, core)[0] == (
        "property 0 clashes over entries 0 and 2: every assignment to 1 adversary "
        "was ruled out"
    )


def test_a_mean_over_links_names_them_all():
    """.95 over two links is .47; below .4 one adversary is too few."""
    mean = {"kind": "cosine", "aggregation": "average"}
    problem = read_instance(budget(disclosure=mean, tau=0.4)).problem
    (core,) = solved(problem).cores
    (clash,) = core.clashes
    assert (clash.cause, clash.properties) == (Cause.MEAN, (0, 1))
    assert (core.needed, core.exact) == (2, True)
    assert solved(read_instance(budget(disclosure=mean)).problem).value == 1


def test_more_plans_at_the_limit_than_one_would_judge_are_no_trouble():
    """Who gets both of a pair sees 1 = tau: of 6^6 plans 30^3 keep all pairs apart."""
    document = budget(
        n_entries=6,
        n_adversaries=6,
        weights=[[9, 8, 7, 6, 5, 4]] * 6,
        utility_norm=1,
        properties=[{"left": [d], "right": [d + 3]} for d in range(3)],
        loc=[0, 1, 2, 0, 1, 2],
        cnt=[1] * 6,
        tau=1,
    )
    found = solved(read_instance(document).problem)
    assert (found.value, found.bound, found.stopped) == (51, 51, "optimal")
