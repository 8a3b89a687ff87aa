"""What a problem is decides who solves it."""

import json
import time
from itertools import count

import numpy as np
import pytest

from benchmarks import families, paper_data
from policies.instances.instance_file import read_instance
from policies.model.measures import Measure
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.auto import Auto
from policies.solvers.coloring import small_sets
from policies.solvers.exact import linear_model
from policies.solvers.features import LARGE, Features
from policies.solvers.search.greedy import Graspl
from tests.unit.policies.referee import best
from tests.unit.policies.tiny import Tiny, classes, step


def made(measure, *, average, n=60, m=8, k=3, t=2):
    return paper_data.synthetic(0, n, m, k, t, measure, average=average)


def features(problem):
    return Features(problem, Limits())


def test_only_large_tradeoffs_over_loads_are_left_to_heuristics_alone():
    """500 x 50 x 2 is; a tenth of it, a limit, or a step function is not."""
    big = made(Measure.LINEAR, average=True, n=500, m=50, k=2)
    assert len(big.sets.entry) * 2 >= LARGE
    assert features(big).heavy
    assert not features(made(Measure.LINEAR, average=True)).heavy
    assert not features(made(Measure.STEP, average=False, n=500, m=50, k=2)).heavy
    assert not features(paper_data.sealed(big)).heavy


def test_three_adversaries_and_one_copy_are_few_places_to_go():
    assert not features(Tiny(6, 4, [step(0, 1, 2)], hi=[1] * 6).problem()).tight
    assert features(Tiny(6, 3, [step(0, 1, 2)], hi=[1] * 6).problem()).tight
    assert not features(Tiny(6, 3, [step(0, 1, 2)], hi=[2] * 6).problem()).tight


def test_sets_of_half_of_all_entries_are_not_small():
    assert small_sets(Tiny(6, 4, [step(0, 1, 2)]).problem())
    assert not small_sets(Tiny(30, 4, [step(*range(15))]).problem())


def test_cp_sat_counts_limits_on_single_sets():
    """A cap on a mean, or a tradeoff, is not for it."""
    assert features(Tiny(2, 2, [classes((0,), (1,))]).problem()).counted
    assert not features(made(Measure.LINEAR, average=False)).counted


@pytest.mark.parametrize(
    ("measure", "average", "told"),
    [
        (Measure.LINEAR, True, "exchanges"),
        (Measure.QUADRATIC, True, "cone relaxation"),
        (Measure.LINEAR, False, "large neighbourhoods"),
        (Measure.QUADRATIC, False, "large neighbourhoods"),
    ],
)
def test_every_tradeoff_starts_from_the_solver_for_its_function(measure, average, told):
    """Quadratic means went to GRASPL alone once, 57 % from their bound."""
    problem = made(measure, average=average, n=30, m=4)
    limits = Limits(work=0.05)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    assert found.verdict is Verdict.SOLVED
    assert any(told in text for text in found.tried)


def test_dense_step_tradeoffs_are_as_good_as_their_sealed_form():
    """Leaking costs 1, or 1 / 8 of it on average: the sealed optimum is the best."""
    for average in (False, True):
        problem = made(Measure.STEP, average=average, k=2)
        limits = Limits(work=5)
        rng = np.random.default_rng(0)
        found = SOLVERS["auto"](problem, rng, limits)
        sealed = SOLVERS["auto"](paper_data.sealed(problem), rng, limits)
        assert found.stopped == sealed.stopped == "optimal"
        assert found.value == sealed.value


def test_near_the_edge_of_a_budget_a_plan_is_found():
    """Linear worst, tau = .37 where 1 / 4 is least: CP-SAT finds one where greedy fails."""
    rng = np.random.default_rng(3)
    n, k = 24, 4
    properties = []
    for _ in range(8):
        entries = np.flatnonzero(rng.random(n) < 0.5).tolist()
        share = [1 / len(entries)] * len(entries)
        properties.append({"entries": entries, "a": share})
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": k,
        "t": 1,
        "weights": rng.random((n, k)).round(3).tolist(),
        "utility_norm": 10.0,
        "properties": properties,
        "disclosure": {"kind": "linear", "aggregation": "worst"},
        "problem": "discbudget",
        "tau": 0.37,
    }
    problem = read_instance(json.loads(json.dumps(document))).problem
    ticks = count()
    limits = Limits(seconds=1e5, clock=lambda: float(next(ticks)), work=3)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    assert found.verdict is Verdict.SOLVED
    assert found.judged.f < 0.37


def uneven(rng, n, m):
    """Properties whose weights have no common step."""
    for _ in range(m):
        entries = sorted(rng.choice(n, 3, replace=False).tolist())
        a = rng.random(3) + 0.1
        yield {"entries": entries, "a": (a / a.sum() * 0.999).tolist()}


def test_squares_of_many_uneven_sets_keep_a_bound():
    """Tangents lie below squares: 8 sets x 3 hands against all assignments."""
    rng = np.random.default_rng(1)
    n, k = 5, 3
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": k,
        "t": 1,
        "weights": rng.random((n, k)).round(3).tolist(),
        "utility_norm": 5.0,
        "properties": list(uneven(rng, n, 8)),
        "disclosure": {"kind": "quadratic", "aggregation": "average"},
        "problem": "tradeoff",
        "lambda": 2.0,
        "tau": 0.0,
    }
    problem = read_instance(document).problem
    assert problem.sets.n_sets * k > linear_model.MANY
    found = SOLVERS["milp"](problem, np.random.default_rng(0), Limits())
    optimum = best(document)
    assert float(found.value) == pytest.approx(optimum, abs=1e-4)
    assert optimum <= float(found.bound) <= optimum + 1e-3


def test_cosine_under_a_limit_draws_anew_while_there_is_time(monkeypatch):
    """The last of many draws counts as much as the first."""
    properties = [{"left": [0, 1], "right": [2, 3]}, {"left": [2, 3], "right": [4, 5]}]
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 6,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[1, 0.5]] * 6,
        "utility_norm": 6.0,
        "loc": [0, 1, 0, 1, 0, 1],
        "cnt": [3, 1, 1, 2, 2, 2],
        "properties": properties,
        "disclosure": {"kind": "cosine", "aggregation": "average"},
        "problem": "discbudget",
        "tau": 0.4,
    }
    problem = read_instance(document).problem
    tries = []

    class Counted(Graspl):
        def __call__(self, problem, rng, limits):
            tries.append(limits.seconds)
            return super().__call__(problem, rng, limits)

    monkeypatch.setattr("policies.solvers.auto.Graspl", Counted)
    monkeypatch.setattr("policies.solvers.features.listable", lambda _: False)
    limits = Limits(seconds=60, clock=time.perf_counter, work=0.05)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    assert found.verdict is Verdict.SOLVED
    assert len(tries) > 1
    assert max(tries) <= 60
    assert float(found.value) == pytest.approx(best(document), abs=1e-9)


def test_small_sets_for_all_adversaries_are_not_left_to_hitting_sets():
    """t = k = 2: one adversary's cheapest hitting set leaves the other none, often."""
    problem = families.sparse((40, 50, 2, 2, 3, 4), 0)
    assert SOLVERS["hitting-set"].supports(problem)
    limits = Limits(work=5)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    assert found.verdict is Verdict.SOLVED
    assert found.judged.disclosed == 0
    assert "cheapest hitting sets" not in found.tried


def drawn(n, m, k, seed=0):
    """Random sets of three entries; whole weights of 1 to 9."""
    rng = np.random.default_rng(seed)
    sets = [step(*rng.choice(n, 3, replace=False).tolist()) for _ in range(m)]
    weights = rng.integers(1, 10, (n, k)).tolist()
    return Tiny(n, k, sets, weights=weights).problem()


def test_a_small_colouring_is_proven_as_by_highs():
    limits = Limits(seconds=600.0, clock=time.perf_counter, threads=2)
    problem = drawn(40, 60, 2)
    expected, found = (
        SOLVERS[name](problem, np.random.default_rng(0), limits)
        for name in ("milp", "auto")
    )
    assert expected.stopped == found.stopped == "optimal"
    assert found.value == found.bound == expected.value


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((300, 480, 2), False), ((400, 640, 2), True), ((400, 400, 3), False)],
    ids=["few", "many", "easy"],
)
def test_many_strained_entries_are_annealed_rather_than_coloured(sizes, expected):
    """CP-SAT may prove few by itself, and more where there is room."""
    problem = drawn(*sizes)
    assert features(problem).crossed is expected


def test_many_easy_entries_are_proven():
    """Annealing alone had the value, and no proof: CP-SAT was not asked to the end."""
    problem = drawn(400, 400, 3)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), Limits(work=2))
    assert found.stopped == "optimal"
    assert found.value == found.bound


def test_what_is_proven_at_the_start_has_no_prices(monkeypatch):
    """They took a tenth of the time for a bound that nothing was left of."""
    refused = lambda *_: pytest.fail("priced")  # noqa: E731
    monkeypatch.setattr("policies.solvers.bounds.lagrangian.price_bound", refused)
    limits = Limits(work=2)
    found = SOLVERS["auto"](drawn(100, 50, 2), np.random.default_rng(0), limits)
    assert found.stopped == "optimal"


def test_levels_of_f_bound_the_worst_load_where_highs_leaves_a_gap():
    """Without them the bound was that of HiGHS, 1 % above."""
    problem = paper_data.synthetic(1, 60, 12, 2, 2, Measure.QUADRATIC, average=False)
    limits = Limits(work=0.03)
    found, without = (
        Auto(frozenset(off))(problem, np.random.default_rng(1), limits)
        for off in ((), ("levels",))
    )
    assert found.value <= found.bound < without.bound
