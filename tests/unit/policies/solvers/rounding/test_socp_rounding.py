"""Means of linear and quadratic loads, in tradeoffs and below limits, against all plans."""

from dataclasses import replace
from fractions import Fraction

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance, rows_of
from policies.model.measures import Measure
from policies.model.problem import Goal
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.auto import TABLE, Auto
from policies.solvers.bounds import cone_relaxation
from policies.solvers.bounds.cone_relaxation import tangent_bound
from policies.solvers.interfaces import timeless
from policies.solvers.load_tables import load_tables
from policies.solvers.rounding.socp_rounding import SocpRounding
from tests.unit.policies.referee import best, evaluate
from tests.unit.policies.tiny import Made, Tiny, pairs_of, priced, uncapped


def solve(tiny, seed=0, **limits):
    limits = {"work": 0.005} | limits
    return SocpRounding()(tiny.problem(), np.random.default_rng(seed), Limits(**limits))


@given(tiny=uncapped((Measure.QUADRATIC, Measure.LINEAR), average=True), data=st.data())
@settings(max_examples=60, deadline=None)
def test_value_and_bound_enclose_the_best_plan(tiny, data):
    """Brute force lies between them; so it does for any tangent and any prices."""
    found = solve(tiny)
    values = [tiny.objective(p) for p in tiny.plans() if tiny.feasible(p)]
    if found.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == tiny.objective(pairs_of(found.plan))
        assert found.value <= max(values)
    if values:
        assert max(values) <= found.bound
        it = load_tables(tiny.problem())
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        assert max(values) <= tangent_bound(
            it, rng.random(it.shape), rng.random(tiny.k)
        )


def square(n=6):
    """Every entry in one set, two workers: an even split is best."""
    one = Made(dict.fromkeys(range(n), 1), NO_CAP, n)
    return Tiny(
        n, 2, [one], measures=(Measure.QUADRATIC,), goal=priced(4, average=True)
    )


def test_an_even_split_is_found_and_its_bound_is_tight():
    """u = 6, f = 1/4, lambda = 4."""
    found = solve(square())
    assert found.value == 5
    assert found.bound - found.value < Fraction(1, 10**4)


def test_same_seed_same_plan():
    """A run can be made again."""
    one, two = solve(square(7), seed=3), solve(square(7), seed=3)
    assert pairs_of(one.plan) == pairs_of(two.plan)


def test_without_time_for_the_relaxation_the_bound_is_the_free_one(monkeypatch):
    """The answer is a plan still."""
    monkeypatch.setattr(
        "policies.solvers.rounding.socp_rounding.solved_cone", lambda *_, **__: None
    )
    found = solve(square())
    assert found.verdict is Verdict.SOLVED
    assert found.bound == 6


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": Goal()},
        {"goal": priced(average=False)},
        {"measures": (Measure.STEP,)},
        {"trusted": [[True, False]]},
        {"sets": [Made({0: 1, 1: 1}, 1, 2)]},
    ],
)
def test_other_problems_are_left_to_others(changed):
    """Budgets, worst sets, steps, trust and limits."""
    assert SocpRounding().supports(square().problem())
    assert not SocpRounding().supports(replace(square(), **changed).problem())


def test_each_cone_is_made_of_one_adversary_alone(monkeypatch):
    """Zeros that are written down would make every step as if all were coupled."""
    asked, solver = [], clarabel.DefaultSolver
    monkeypatch.setattr(
        clarabel, "DefaultSolver", lambda *parts: asked.append(parts) or solver(*parts)
    )
    it = load_tables(square().problem())
    assert cone_relaxation.solved_cone(it, Limits()) is not None
    _, _, rows, _, (signs, *cones), _ = asked[0]
    entry, adversary = np.nonzero(it.may)
    assert rows.data.all()
    assert len(cones) == it.shape[1]
    sizes = [cone.dim for cone in cones]
    for a, size in enumerate(sizes):
        start = signs.dim + sum(sizes[:a])
        columns = rows[start : start + size].tocoo().col
        pairs = columns[columns < len(entry)]
        assert len(pairs)
        assert set(adversary[pairs].tolist()) == {a}


def test_a_step_that_takes_longer_than_there_is_time_is_not_begun(monkeypatch):
    """The cone solver looks at its clock between steps only."""
    it = load_tables(square().problem())
    monkeypatch.setattr(clarabel, "DefaultSolver", None)
    assert cone_relaxation.solved_cone(it, Limits(seconds=1e-6, clock=timeless)) is None


QUADRATIC = {"kind": "quadratic", "aggregation": "average"}


def crossing(n, sizes, tau, *, t=2, k=2, seed=7, **more):
    """Sets that cross each other, a few wanted adversaries an entry, f < tau."""
    rng = np.random.default_rng(seed)
    properties = []
    for size in sizes:
        entries = sorted(rng.choice(n, size, replace=False).tolist())
        properties.append({"entries": entries, "a": [1 / size] * size})
    weights = np.where(rng.random((n, k)) < 0.6, 0.03, rng.uniform(0.2, 0.5, (n, k)))
    return {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": k,
        "t": t,
        "weights": weights.tolist(),
        "utility_norm": float(np.sort(weights, axis=1)[:, -t:].sum()),
        "properties": properties,
        "disclosure": QUADRATIC,
        "problem": "discbudget",
        "tau": tau,
    } | more


@pytest.mark.parametrize("tau", [0.3, 0.5])
@pytest.mark.parametrize("kind", ["linear", "quadratic"])
@pytest.mark.parametrize("prior", [[], [[0, 1], [3, 0]]])
def test_the_bound_is_above_all_plans_and_the_plan_below_the_limit(kind, tau, prior):
    """Seven entries in four sets: value <= optimum of all 3^7 plans <= bound."""
    document = crossing(7, (3, 4, 4, 5), tau, prior=prior)
    document["disclosure"] = {"kind": kind, "aggregation": "average"}
    problem = read_instance(document).problem
    answer = SocpRounding()(problem, np.random.default_rng(0), Limits(work=0.1))
    optimum = best(document)
    if optimum is None:
        assert answer.verdict is Verdict.UNKNOWN
        return
    assert float(answer.bound) >= optimum - 1e-9
    if answer.verdict is Verdict.SOLVED:
        rows = rows_of(answer.plan, problem.n_entries)
        assert evaluate(document, rows)[-1]
        assert float(answer.value) <= optimum + 1e-9


def test_a_hundred_entries_at_the_edge_come_close_to_the_bound():
    """No plan is below 1/9; at 1.06/9 the best plans are within 3 % of the bound."""
    document = crossing(100, [24, 27, 30, 33] * 2, 1.06 / 9, k=3)
    problem = read_instance(document).problem
    solver = SOLVERS["socp-rounding"]
    assert solver.supports(problem)
    answer = solver(problem, np.random.default_rng(0), Limits(work=2))
    assert answer.verdict is Verdict.SOLVED
    assert float(answer.value) > 0.97 * float(answer.bound)


def test_limits_on_single_sets_and_pooled_loads_are_left_to_others():
    """A worst budget, a coalition and a step function have no price here."""
    worst = {"kind": "quadratic", "aggregation": "worst"}
    step = {"kind": "step", "aggregation": "average"}
    fine = crossing(6, (3, 4), 0.6)
    assert SocpRounding().supports(read_instance(fine).problem)
    others = ({"disclosure": worst}, {"disclosure": step}, {"any_m": 2}, {"tau": 0.0})
    for other in others:
        assert not SocpRounding().supports(read_instance(fine | other).problem)


def exact(document):
    """Rows of AUTO that prove."""
    rows = Auto().rows(read_instance(document).problem, Limits())
    kinds = {row.name for row in TABLE if row.phase == "exact"}
    return [name for name in rows if name in kinds]


def test_highs_proves_means_and_cp_sat_follows_it():
    """Few pairs CP-SAT proves first; floats cannot tell what ends on a limit; a pooled
    whole set is first found.
    """
    assert exact(crossing(50, [24, 27, 30, 33], 0.2, k=3)) == ["cp-sat", "highs"]
    assert exact(crossing(100, [24, 27, 30, 33], 0.2, k=3)) == ["highs", "cp-sat-after"]
    step = {"kind": "step", "aggregation": "worst"}
    whole = {"disclosure": step, "problem": "zero_step", "any_m": 2}
    pooled = crossing(30, [5] * 20, 0.0, k=4) | whole
    assert exact(pooled) == ["hitting-set", "cp-sat-feasible", "highs"]
