"""The linear model keeps every plan that a strict limit on a mean keeps."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Average, Goal
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from tests.unit.policies.tiny import Made, Tiny


def shared(n, tau, sets=None, first=1):
    """One copy of each entry to two adversaries, and a limit on mean disclosure."""
    sets = sets or [list(range(n))]
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[first, 1]] * n,
        "properties": [{"entries": m, "a": [1 / len(m)] * len(m)} for m in sets],
        "disclosure": {"kind": "linear", "aggregation": "average"},
        "problem": "discbudget",
        "tau": tau,
    }
    return read_instance(document).problem


def ask(name, problem):
    return SOLVERS[name](problem, np.random.default_rng(0), Limits(work=0.1))


@pytest.mark.parametrize("name", ["milp", "lp-rounding", "dependent-rounding", "auto"])
@pytest.mark.parametrize(("n", "tau"), [(2, 0.50000005), (3, 0.6666667)])
def test_a_plan_hardly_below_a_limit_on_a_mean_is_found(n, tau, name):
    """Half of two entries and two of three: less than 10^-7 below the limit."""
    found = ask(name, shared(n, tau))
    assert (found.verdict, found.value) == (Verdict.SOLVED, 1)


def test_a_strict_limit_on_a_mean_that_all_plans_are_at_is_refuted():
    """Two of three entries are the limit itself."""
    assert ask("milp", shared(3, 2 / 3)).verdict is Verdict.INFEASIBLE


def test_a_plan_at_a_strict_limit_without_even_steps_makes_way_for_one_below():
    """Sets of 17 to 31 entries, whose mean has too many values to lie between them.

    Whole sets of 31 and 29 and 20 of 23 would be worth most, and are the limit.
    """
    starts = np.cumsum([0, 17, 19, 23, 29, 31])
    sets = [list(range(a, b)) for a, b in pairwise(starts)]
    problem = shared(int(starts[-1]), 0.5, sets, first=2)
    cap = replace(problem.averages[0], limit=Fraction(2 * 23 + 20, 5 * 23))
    found = ask("milp", replace(problem, averages=(cap,)))
    assert found.verdict is Verdict.SOLVED
    assert (found.plan.adversary == 0).sum() == 31 + 29 + 20 - 1


@pytest.mark.parametrize("name", ["milp", "auto"])
def test_the_worst_square_of_weights_of_very_many_sums_is_bounded_from_below(name):
    """Entries 0 and 1 together are all of it; apart they are .93 of it at most."""
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 2,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[0.0, 2.0], [0.0, 0.933415]],
        "utility_norm": 7,
        "properties": [
            {"entries": [1, 0], "a": [0.07035948980193699, 0.929640510198063]}
        ],
        "disclosure": {"kind": "quadratic", "aggregation": "worst"},
        "problem": "tradeoff",
        "lambda": 1,
    }
    found = ask(name, read_instance(document).problem)
    apart = 2 / 7 - 0.929640510198063**2
    assert float(found.value) == pytest.approx(apart)
    assert found.bound >= found.value


def overfull(measure, n=3, **changed):
    """All of the first set is 8/7 of what makes f = 1, all of the second 4 times that."""
    sets = [Made({0: 4, 1: 3, 2: 1}, NO_CAP, 7), Made({1: 2, 2: 2}, NO_CAP, 1)]
    return Tiny(n, 2, sets, (measure,), weights=[[5, 0]] * n, **changed)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("measure", [Measure.LINEAR, Measure.QUADRATIC])
@pytest.mark.parametrize("lambda_", [1, 5, 40])
def test_no_more_than_all_of_a_set_is_disclosed(measure, average, lambda_):
    """The weights of its fields, each up to 1, may add up to more."""
    goal = Goal(Objective.TRADEOFF, Fraction(lambda_), Fraction(0), average)
    tiny = overfull(measure, goal=goal)
    found = ask("milp", tiny.problem())
    assert found.value == tiny.best()
    assert float(found.bound) == pytest.approx(float(found.value), abs=1e-6)


@pytest.mark.parametrize("measure", [Measure.LINEAR, Measure.QUADRATIC])
def test_a_mean_takes_no_set_for_more_than_whole(measure):
    """Entries 1 and 2 are all of the second set, and 4/7 of the first."""
    part = Fraction(4, 7) ** measure.power
    cap = Average((0,), (1 + part) / 2)
    tiny = overfull(measure, averages=(cap,))
    found = ask("milp", tiny.problem())
    assert found.verdict is Verdict.SOLVED
    assert found.value == tiny.best() == 10


def test_a_mean_over_fewer_sets_than_there_are_may_be_above_1():
    """Two whole sets, divided by 1: f = 2 is no reason why there is no plan."""
    goal = Goal(Objective.TRADEOFF, Fraction(1), average=True, over=1)
    sets = [Made({0: 1}, NO_CAP, 1)] * 2
    found = ask("milp", Tiny(1, 1, sets, goal=goal).problem())
    assert (found.verdict, found.value) == (Verdict.SOLVED, 0)
