"""Plans of DiscBudget close below a limit on the mean."""

import numpy as np
import pytest

from policies.instances.instance_file import read_instance, rows_of
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.auto import TABLE, Auto
from policies.solvers.rounding.socp_rounding import SocpRounding, priced
from tests.unit.policies.referee import best, evaluate

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
    assert priced(read_instance(fine).problem) is not None
    others = ({"disclosure": worst}, {"disclosure": step}, {"any_m": 2}, {"tau": 0.0})
    for other in others:
        assert priced(read_instance(fine | other).problem) is None


def exact(document):
    """Rows of AUTO that prove."""
    rows = Auto().rows(read_instance(document).problem, Limits())
    kinds = {row.name for row in TABLE if row.phase == "exact"}
    return [name for name in rows if name in kinds]


def test_highs_proves_means_and_cp_sat_follows_it():
    """Floats cannot tell what ends on a limit; a pooled whole set is first found."""
    assert exact(crossing(100, [24, 27, 30, 33], 0.2, k=3)) == ["highs", "cp-sat-after"]
    step = {"kind": "step", "aggregation": "worst"}
    whole = {"disclosure": step, "problem": "zero_step", "any_m": 2}
    pooled = crossing(30, [5] * 20, 0.0, k=4) | whole
    assert exact(pooled) == ["hitting-set", "cp-sat-feasible", "highs"]
