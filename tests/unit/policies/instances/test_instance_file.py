"""Instance files: read exactly, judged as a naive referee judges, refused clearly."""

import json
from pathlib import Path

import numpy as np
import pytest

from policies.instances.instance_file import read_instance, rows_of
from policies.instances.json_values import InvalidInstance
from policies.judging.judge import judge
from policies.model.problem import Plan
from policies.solvers import SOLVERS, Limits, Verdict
from tests.unit.policies.referee import best, evaluate

HERE = Path(__file__).parents[3] / "data" / "instances"
NAMES = sorted(path.stem for path in HERE.glob("*.json"))


def load(name):
    return json.loads((HERE / f"{name}.json").read_text())


def plan(rows):
    return Plan.of([(d, a) for d, row in enumerate(rows) for a in row])


@pytest.mark.parametrize("name", NAMES)
def test_the_judge_agrees_with_the_referee_on_any_plan(name):
    """u, f, objective, whole properties and feasibility, for 40 random assignments."""
    document = load(name)
    found = read_instance(document)
    k, rng = found.problem.n_adversaries, np.random.default_rng(5)
    for _ in range(40):
        rows = [
            [a for a in range(k) if rng.random() < 0.45]
            for _ in range(found.problem.n_entries)
        ]
        u, f, objective, whole, fine = evaluate(document, rows)
        seen = judge(found.problem, plan(rows))
        measured = seen.f_average if found.problem.goal.average else seen.f
        assert float(seen.u) == pytest.approx(u, abs=1e-12)
        assert float(measured) == pytest.approx(f, abs=1e-12)
        assert float(seen.objective) == pytest.approx(objective, abs=1e-12)
        assert seen.feasible == fine
        if found.kind != "cosine":
            assert seen.disclosed == whole


@pytest.mark.parametrize("solver", ["auto", "milp"])
@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_is_found_or_refuted(name, solver):
    """The reference comes from trying all assignments with the referee."""
    document = load(name)
    found = read_instance(document)
    if not SOLVERS[solver].supports(found.problem):
        pytest.skip("cosine in the objective has no linear model")
    answer = SOLVERS[solver](found.problem, np.random.default_rng(0), Limits(work=20))
    value = document["reference"]["best"]
    if value is None:
        assert answer.verdict is Verdict.INFEASIBLE
        assert answer.core is not None
        return
    assert answer.verdict is Verdict.SOLVED
    rows = rows_of(answer.plan, found.problem.n_entries)
    assert evaluate(document, rows)[-1]
    assert float(answer.bound) >= value - 1e-9
    if found.kind == "cosine" and found.asked == "tradeoff":
        return  # a heuristic with a bound
    assert float(answer.value) == pytest.approx(value, abs=1e-9)
    assert float(answer.bound) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("name", ["odd_ring", "quadratic_average", "tau_zero"])
def test_references_are_what_all_assignments_give(name):
    """The stored optimum, worked out again (the others take longer)."""
    document = load(name)
    assert best(document) == document["reference"]["best"]


def changed(**changes):
    return load("linear_average") | changes


def lacking(*keys, name="linear_average"):
    return {key: value for key, value in load(name).items() if key not in keys}


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("document", "mend"),
    [
        (changed(n_entries=-1), "how many entries there are"),
        (changed(n_adversaries=0), "how many adversaries there are, at least 1"),
        (changed(t=0), "to how many adversaries an entry may go, at least 1"),
        (changed(withhold=[-1] * 7), "a price of at least 1, or null"),
        (changed(capacities=[1, -1]), "or null for any number"),
        (changed(any_m=0), "or 1 for nobody"),
        (changed(history_only_entries=[9]), "Indices count from 0"),
        ({**changed(), "lambda": -1}, "Negative numbers have no meaning"),
        (changed(tau=-1e19), "a number of this range"),
        (changed(priors=[]), "Write prior if that is meant"),
    ],
)
def test_the_advice_fits_what_is_wrong(document, mend):
    """Sizes, prices and limits are no indices."""
    with pytest.raises(InvalidInstance) as told:
        read_instance(document)
    assert mend in told.value.mend


def test_keys_of_the_writers_own_are_named_and_not_read():
    how = {"kind": "linear", "aggregation": "average", "chosen by": "hand"}
    found = read_instance(changed(source="a trial", disclosure=how))
    assert found.notes == (
        "the key 'source' was not read",
        "the key 'chosen by' was not read",
    )


def test_fields_may_be_null_and_a_file_may_say_more_of_itself():
    """What is null is as if it were not there; free text is not read."""
    document = changed(
        prior=None, history_only_entries=None, coalition_groups=None, any_m=None,
        capacities=None, withhold=None, description="drawn", user={"a": 1}, utility=None,
        reference={"anything": []},
    )  # fmt: skip
    assert len(read_instance(document).problem.history) == 0


@pytest.mark.parametrize(
    ("document", "where", "what"),
    [
        ([], "the document", "a list of 0, expected an object"),
        (changed(schema="sparsi-instance/9"), "schema", "expected one of"),
        (changed(schema=None), "schema", "found null"),
        (lacking("n_entries", "t"), "the document", "n_entries, t are missing"),
        (lacking("problem"), "the document", "problem is missing"),
        (changed(disclosure={"kind": "step"}), "disclosure", "aggregation is missing"),
        (changed(properties=[{"entries": [0]}]), "properties[0]", "a is missing"),
        (lacking("cnt", name="cosine_zero"), "the document", "cnt is missing"),
        (
            load("cosine_zero") | {"properties": [{"left": [0]}]},
            "properties[0]",
            "right is missing",
        ),
        (changed(n_entries=-1), "n_entries", "-1 is out of range"),
        (changed(n_entries=True), "n_entries", "found true, expected an integer"),
        (changed(n_adversaries=0), "n_adversaries", "0 is out of range"),
        (changed(t=0), "t", "0 is out of range"),
        (changed(t=1.5), "t", "expected an integer"),
        (changed(weights=[[1.0, 1.0]]), "weights", "length 1, expected 7"),
        (changed(weights=[[1.0]] * 7), "weights[0]", "length 1, expected 2"),
        (changed(weights=[[1.0, -1]] * 7), "weights[0][1]", "-1.0 is out of range"),
        (
            changed(weights=[[1e300, 1]] * 7, utility_norm=1e-300),
            "utility_norm",
            "larger than numbers can be written",
        ),
        (changed(weights=[[float("nan"), 1]] * 7), "weights[0][0]", "NaN or infinity"),
        (changed(weights=[[10**400, 1]] * 7), "weights[0][0]", "NaN or infinity"),
        (changed(weights=nested(9)), "weights", "length 1, expected 7"),
        (changed(weights=[nested(9)] * 7), "weights[0]", "length 1, expected 2"),
        (changed(weights=[[nested(9), 1]] * 7), "weights[0][0]", "found a list of 1"),
        (changed(utility_norm=0), "utility_norm", "expected > 0"),
        (changed(properties={}), "properties", "expected a list"),
        (changed(properties=[3]), "properties[0]", "expected an object"),
        (
            changed(properties=[{"entries": [7], "a": [1]}]),
            "properties[0].entries[0]",
            "7 is out of range, expected 0 to 6",
        ),
        (
            changed(properties=[{"entries": [0, 1], "a": [1]}]),
            "properties[0].a",
            "length 1, expected 2",
        ),
        (
            changed(properties=[{"entries": [0, 1], "a": [0.5, -0.1]}]),
            "properties[0].a[1]",
            "-0.1 is out of range",
        ),
        (
            changed(properties=[{"entries": [0, 1], "a": [0.7, 0.7]}]),
            "properties[0].a",
            "add up to 1.4",
        ),
        (
            changed(properties=[{"classes": [[0]]}]),
            "properties[0].classes",
            "other than step",
        ),
        (
            changed(disclosure={"kind": "cubic", "aggregation": "worst"}),
            "disclosure.kind",
            "'cubic'",
        ),
        (changed(problem="maximise"), "problem", "expected one of tradeoff"),
        (changed(problem="zero_step"), "problem", "zero_step is asked of"),
        (changed(tau=float("inf")), "tau", "NaN or infinity"),
        ({**changed(), "lambda": -1}, "lambda", "-1.0 is out of range"),
        (changed(capacities=[1]), "capacities", "length 1, expected 2"),
        (changed(capacities=[1, -1]), "capacities[1]", "-1 is out of range"),
        (changed(prior=[[0]]), "prior[0]", "length 1, expected 2"),
        (changed(prior=[[0, 2]]), "prior[0][1]", "2 is out of range"),
        (changed(history_only_entries=[9]), "history_only_entries[0]", "9 is out"),
        (changed(coalition_groups=[[0, 5]]), "coalition_groups[0][1]", "5 is out"),
        (changed(any_m=0), "any_m", "0 is out of range"),
        (
            changed(n_entries=0, weights=[], properties=[{"entries": [0], "a": [1]}]),
            "properties[0].entries[0]",
            "0 is out of range, there are none",
        ),
        (
            load("cosine_zero") | {"loc": [0] * 7},
            "the document",
            "names place 0 twice at end 0",
        ),
        (load("cosine_zero") | {"cnt": [1]}, "cnt", "length 1, expected 7"),
        (changed(prior={}), "prior", "an object, expected a list"),
        (changed(prior=0), "prior", "the number 0, expected a list"),
        (changed(prior=""), "prior", "a string, expected a list"),
        (changed(coalition_groups={}), "coalition_groups", "expected a list"),
        (changed(history_only_entries=False), "history_only_entries", "found false"),
        (changed(name=3), "name", "expected a string"),
        (changed(priors=[[0, 0]]), "the document", "the key 'priors' is unknown"),
        (
            changed(disclosure={"kind": "step", "agregation": "worst"}),
            "disclosure",
            "the key 'agregation' is unknown",
        ),
        (
            changed(properties=[{"entries": [0], "a": [1], "clases": [[0]]}]),
            "properties[0]",
            "the key 'clases' is unknown",
        ),
        (
            load("cosine_zero") | {"properties": [{"left": [], "rigth": []}]},
            "properties[0]",
            "the key 'rigth' is unknown",
        ),
        (changed(n_entries=10**9), "n_adversaries", "at most 10000000 pairs"),
        (changed(n_adversaries=10**9), "n_adversaries", "at most 10000000 pairs"),
    ],
)
def test_a_bad_file_is_refused_with_place_and_remedy(document, where, what):
    """Each message says what was found, where, and how to mend it."""
    with pytest.raises(InvalidInstance) as told:
        read_instance(document)
    assert told.value.where == where
    assert what in told.value.what
    assert told.value.mend.endswith(".")


@pytest.mark.parametrize(
    ("utility", "u"),
    [
        ({"kind": "concave", "curve": "cap", "cap": 1.5}, 1.5),
        ({"kind": "coverage", "topics": [1, 2], "touches": [[0], [0, 1]]}, 3.0),
        ({"kind": "facility", "serves": [[1, 2], [3, 0]], "scale": [0.5]}, 2.5),
    ],
)
def test_a_utility_that_is_no_sum_over_pairs_is_read(utility, u):
    """One worker who gets both entries; by hand."""
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 2,
        "n_adversaries": 1,
        "t": 1,
        "weights": [[1.0], [1.0]],
        "utility_norm": 1.0,
        "utility": utility,
        "properties": [],
        "disclosure": {"kind": "step", "aggregation": "worst"},
        "problem": "zero_step",
    }
    problem = read_instance(document).problem
    assert judge(problem, Plan.of([(0, 0), (1, 0)])).u == u
    del document["utility_norm"]
    problem = read_instance(document).problem
    assert float(judge(problem, Plan.of([(0, 0), (1, 0)])).u) == pytest.approx(1)


@pytest.mark.parametrize(
    ("utility", "where"),
    [
        ({"kind": "linear"}, "utility.kind"),
        ({"kind": "concave", "curve": "cap", "cap": 0}, "utility.cap"),
        ({"kind": "coverage", "topics": [1], "touches": [[1], []]}, "utility.touches"),
        ({"kind": "facility", "serves": [[1, -2]]}, "utility.serves"),
        ({"kind": "concave", "curve": "root", "scale": [-1]}, "utility.scale"),
    ],
)
def test_a_utility_that_is_off_is_located(utility, where):
    """The message names the field."""
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 2,
        "n_adversaries": 1,
        "t": 1,
        "weights": [[1.0], [1.0]],
        "utility": utility,
        "properties": [],
        "disclosure": {"kind": "step", "aggregation": "worst"},
        "problem": "zero_step",
    }
    with pytest.raises(InvalidInstance, match=where):
        read_instance(document)


def test_weights_of_an_entry_that_is_named_twice_are_added_exactly():
    """0.1 and 0.7 are 4/5, which is not below 0.8; as floats they are a little less."""
    document = changed(
        properties=[{"entries": [0, 0, 1], "a": [0.1, 0.7, 0.2]}],
        disclosure={"kind": "linear", "aggregation": "worst"},
        problem="discbudget",
        tau=0.8,
    )
    sets = read_instance(document).problem.sets
    assert (sets.entry.tolist(), sets.amount.tolist()) == ([0, 1], [8, 2])
    assert (sets.full.tolist(), sets.cap.tolist()) == ([10], [7])
