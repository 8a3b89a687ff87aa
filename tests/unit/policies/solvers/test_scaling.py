"""Objectives of any size: the same question, whatever its unit."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks import paper_data
from policies.instances.instance_file import read_instance
from policies.model.exact_numbers import grid
from policies.model.measures import Measure
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.scaling import near_one, restored

HERE = Path(__file__).parents[3] / "data" / "instances"
SIZES = [1e-300, 1e-20, 1e-15, 1e9, 1e300]


def load(name):
    return json.loads((HERE / f"{name}.json").read_text())


def solve(document, name="auto"):
    problem = read_instance(document).problem
    return SOLVERS[name](problem, np.random.default_rng(0), Limits())


def times(weights, size):
    return [[w * size for w in row] for row in weights]


@pytest.mark.parametrize("size", SIZES)
def test_a_table_of_numbers_keeps_its_proportions_at_any_size(size):
    """Integers once had no unit below 2^-60: small weights became 0."""
    table = np.array([[0.37, 0.1], [1 / 3, 0.0]])
    steps, unit = grid(table * size, 2**61)
    seen = [float(int(s) * unit / Fraction(size)) for s in steps.ravel()]
    assert seen == pytest.approx(table.ravel().tolist(), rel=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "name", ["step_pairs", "budget_worst", "linear_average", "any_two_pool"]
)
def test_weights_and_their_norm_may_have_any_unit(name, size):
    """Both times the same number ask for the same plan, of the same worth."""
    document = load(name)
    best, norm = document["reference"]["best"], document["utility_norm"]
    asked = {
        "weights": times(document["weights"], size / 10),
        "utility_norm": norm * (size / 10),
    }
    found = solve(document | asked)
    if best is None:
        assert found.verdict is Verdict.INFEASIBLE
        return
    assert float(found.value) == pytest.approx(best, abs=1e-9)
    assert float(found.bound) == pytest.approx(best, abs=1e-8)
    assert found.stopped == "optimal"


@pytest.mark.parametrize("size", [1e-300, 1e-20, 1e9])
def test_a_small_utility_is_maximised_like_a_large_one(size):
    """Without a norm to match, u itself is small: still the best of plans."""
    document = load("step_pairs")
    best = document["reference"]["best"]
    found = solve(document | {"weights": times(document["weights"], size)})
    assert float(found.value / Fraction(size)) == pytest.approx(best, rel=1e-9)
    assert float(found.bound / Fraction(size)) == pytest.approx(best, rel=1e-6)


def test_a_plan_is_optimal_by_its_own_size_not_beside_1():
    """At 10^-12 any gap is below 2 x 10^-9: GREEDY's plan was said to be optimal."""
    made = paper_data.synthetic(0, 60, 12, 2, 2, Measure.QUADRATIC, average=True)
    unit = Fraction(1, 10**12)
    goal = replace(made.goal, lambda_=unit)
    weights = replace(made.weights, unit=made.weights.unit * unit)
    small = replace(made, goal=goal, weights=weights)
    limits = Limits(work=0.03)
    of_one, found = (
        SOLVERS["auto"](one, np.random.default_rng(0), limits) for one in (made, small)
    )
    assert found.value / unit == of_one.value
    assert float(found.bound / unit) == pytest.approx(float(of_one.bound))


@pytest.mark.parametrize(
    "change", [{"lambda": 1e30}, {"utility_norm": 1e300}, {"weights": [[5e-324] * 2]}]
)
@pytest.mark.parametrize("solver", ["auto", "milp"])
def test_a_tradeoff_has_a_plan_whatever_outweighs_what(solver, change):
    """HiGHS once refused the numbers, and that was told as time that ran out."""
    document = load("linear_average")
    if "weights" in change:
        change = {"weights": change["weights"] * document["n_entries"]}
    found = solve(document | change, solver)
    assert found.verdict is Verdict.SOLVED
    assert found.stopped in {"optimal", "gap"}
    assert found.bound >= found.value


def test_where_f_outweighs_all_the_best_of_plans_without_it_is_found():
    """No set is completed, and u decides among such plans."""
    document = load("step_tradeoff_average")
    found = solve(document | {"lambda": 1e30, "tau": 0.0})
    assert found.judged is not None
    assert found.judged.f_average == 0
    assert found.stopped == "optimal"
    sealed = solve(document | {"lambda": 100.0, "tau": 0.0})
    assert float(found.value) == pytest.approx(float(sealed.value), abs=1e-9)


def test_what_is_proven_at_one_size_only_is_a_gap():
    """2 parts of 10^9 of a huge objective are no small part of what is left of it."""
    problem = read_instance(load("linear_average") | {"lambda": 1e30}).problem
    near, unit = near_one(problem)
    assert unit == 10**30
    found = SOLVERS["auto"](near, np.random.default_rng(0), Limits())
    told = restored(problem, found, unit)
    assert told.value == told.judged.objective
    apart = restored(problem, replace(found, bound=Fraction(1)), unit)
    assert apart.bound == unit
    assert apart.stopped == "gap"


@pytest.mark.parametrize("size", [1e-9, 1e-5, 1e5, 1e9])
@pytest.mark.parametrize("aggregation", ["worst", "count"])
def test_weights_of_properties_may_have_any_unit(aggregation, size):
    """lambda times the smaller, f is worth the same: so is the plan."""
    document = load("linear_average")
    many = len(document["properties"])
    how = {"kind": "linear", "aggregation": aggregation, "adversaries": "sum"}
    if aggregation == "count":
        how["level"] = 0.3
    made = {}
    for unit in (1.0, size):
        how["property_weights"] = [unit] * many
        asked = {
            "disclosure": dict(how),
            "lambda": 0.5 / unit,
            "problem": "tradeoff",
            "tau": 0,
        }
        made[unit] = solve(document | asked)
    one, other = made[1.0], made[size]
    assert float(other.value) == pytest.approx(float(one.value), abs=1e-9)
    assert float(other.bound) == pytest.approx(float(one.bound), abs=1e-8)
