"""Every solver on every sample: under a clock as ``solve`` asks, and by work alone."""

import json
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.solvers import SOLVERS, Limits, Verdict

SAMPLES = sorted((Path(__file__).parents[3] / "data" / "instances").glob("*.json"))


def solve(problem, name, **limits):
    limits = Limits(**limits)
    return SOLVERS[name](problem, np.random.default_rng(0), limits)


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_no_solver_crashes_on_a_sample_without_a_limit_of_work(name):
    """Work without end is no number of steps: repairs once took it for one."""
    limits = {"work": float("inf"), "seconds": 0.1, "clock": monotonic, "threads": 2}
    for path in SAMPLES:
        document = json.loads(path.read_text())
        problem = read_instance(document).problem
        if not SOLVERS[name].supports(problem):
            continue
        found = solve(problem, name, **limits)
        best = document["reference"]["best"]
        if found.verdict is Verdict.SOLVED:
            assert best - 1e-9 <= found.bound, path.stem
            assert found.value <= best + 1e-9, path.stem
        elif found.verdict is Verdict.INFEASIBLE:
            assert best is None, path.stem


def utilities(n):
    """One utility of each kind, for so many entries."""
    return [
        {"kind": "concave", "curve": "root"},
        {"kind": "concave", "curve": "log"},
        {"kind": "concave", "curve": "cap", "cap": 1.5},
        {"kind": "coverage", "touches": [[d % 3] for d in range(n)], "topics": [1] * 3},
        {"kind": "facility", "serves": [[d % 4 for d in range(n)]] * 2},
    ]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_whether_there_is_a_plan_does_not_depend_on_what_it_is_worth(path):
    """``auto`` decides every sample under a utility of each kind, on any machine."""
    document = json.loads(path.read_text())
    none = document["reference"]["best"] is None
    for utility in utilities(document["n_entries"]):
        problem = read_instance(document | {"utility": utility}).problem
        found = solve(problem, "auto", work=1.0)
        expected = Verdict.INFEASIBLE if none else Verdict.SOLVED
        assert found.verdict is expected, utility["kind"]
