"""The public face: `from policies import ...`, and the page that shows it."""

import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import policies
from policies import InvalidPolicy, Problem, Verdict, read_policy, solve
from policies.instances.instance_file import read_instance
from policies.judging.judge import judge
from policies.model.problem import Plan
from policies.model.sets import InvalidProblem
from tests.unit.policies.tiny import CUBIC

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "howto" / "library.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

FOUR = {
    "schema": "sparsi-instance/1",
    "n_entries": 4,
    "n_adversaries": 2,
    "t": 1,
    "weights": [[0.9, 0.2], [0.8, 0.3], [0.4, 0.7], [0.6, 0.6]],
    "properties": [
        {"entries": [0, 1], "a": [0.5, 0.5]},
        {"entries": [0, 2, 3], "a": [0.6, 0.2, 0.2]},
    ],
    "disclosure": {"kind": "linear", "aggregation": "average"},
    "problem": "tradeoff",
    "lambda": 1,
    "tau": 0,
}


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs blocks of the page one after the other in one namespace; no time passes."""
    monkeypatch.setitem(solve.__kwdefaults__, "clock", lambda: 0.0)
    names = {}

    def run_block(source):
        exec(compile(source, "library.md", "exec"), names)
        return capsys.readouterr().out

    return run_block


def test_the_blocks_of_the_page_print_what_it_says(run):
    printed = [run(block) for block in BLOCKS]
    assert printed[: len(PRINTED)] == PRINTED
    assert "POL" in printed[-1]  # the policy's errors, by their codes


def test_the_problem_of_the_readme_takes_less_than_ten_lines():
    """And its solution is the one worked out by hand in docs/reference/instances.md."""
    lines = [line for line in BLOCKS[0].splitlines() if line]
    assert len(lines) < 10
    assert "0.2833333333333333" in PRINTED[0]
    assert "[(0, 0), (1, 1), (2, 1), (3, 1)]" in PRINTED[0]


def test_every_name_of_the_face_is_there_and_listed():
    assert {
        name: hasattr(policies, name) for name in policies.__all__
    } == dict.fromkeys(policies.__all__, True)
    assert set(policies.__all__) <= set(dir(policies))
    with pytest.raises(AttributeError, match="has no attribute 'sovle'"):
        _ = policies.sovle


@pytest.mark.parametrize(
    "asked", ["import policies", "from policies import read_policy"]
)
def test_the_policy_language_loads_no_numpy(asked):
    """Each command reads a policy, and numpy alone takes as long as all the rest."""
    words = f"{asked}\nimport sys\nprint({{'numpy', 'ortools'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("package", ["policies", "connectors", "dispatcher"])
def test_the_packages_say_that_they_are_typed(package):
    assert (ROOT / package / "py.typed").exists()


@pytest.mark.parametrize(
    ("problem", "objective", "tau"),
    [("tradeoff", "tradeoff", 0), ("discbudget", "disc-budget", 0.7)],
)
@pytest.mark.parametrize("aggregation", ["worst", "average"])
@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_plain_lists_and_an_instance_file_make_one_problem(
    kind, aggregation, problem, objective, tau
):
    """Every one of the 16 plans with one copy is judged alike."""
    document = FOUR | {
        "disclosure": {"kind": kind, "aggregation": aggregation},
        "problem": problem,
        "tau": tau,
    }
    read = read_instance(document).problem
    sets = [
        dict(zip(p["entries"], p["a"], strict=True)) for p in document["properties"]
    ]
    made = Problem.from_sets(
        document["weights"],
        sets,
        disclosure=kind,
        aggregation=aggregation,
        objective=objective,
        tau=tau,
    )
    for number in range(16):
        plan = Plan.of((d, number >> d & 1) for d in range(4))
        one, other = judge(made, plan), judge(read, plan)
        assert one.objective == other.objective
        assert one.f_goal == other.f_goal
        assert one.feasible == other.feasible


def test_a_plan_lists_its_pairs_as_plain_integers():
    assert list(Plan.of([(1, 0), (0, 1)])) == [(0, 1), (1, 0)]


def test_history_forbidden_pairs_capacities_and_coalitions_reach_the_judge():
    """Adversary 0 holds entry 0; entry 1 completes the set, alone or pooled."""
    problem = Problem.from_sets(
        [1, 1, 1],
        [[0, 1]],
        adversaries=3,
        copies=[0, 1, 1],
        history=[(0, 0)],
        forbidden=[(2, 2)],
        capacity=[None, 0, 2],
        coalitions=[[0, 1]],
    )
    judged = {a: judge(problem, Plan.of([(1, a), (2, 0)])).feasible for a in range(3)}
    assert judged == {0: False, 1: False, 2: True}
    assert not judge(problem, Plan.of([(1, 2), (2, 2)])).feasible


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [1, 1]}, "weights has 1 dimensions, expected a row an entry"),
        ({"adversaries": 3}, "weights has 2 columns, expected 3"),
        ({"weights": [[1, -1]]}, "weights holds NaN, infinity or a negative number"),
        ({"sets": [[2]]}, "sets.entry holds 2, expected < 2"),
        ({"sets": [[0.5]]}, "sets.entry is float64"),
        ({"sets": [{0: 0.5}]}, "set 0 has weights, expected entries alone"),
        (
            {"sets": [[0], {0: 0.9, 1: 0.2}], "disclosure": "linear"},
            "set 1: the weights",
        ),
        ({"sets": [{0: -1}], "disclosure": "linear"}, "set 0 has a weight below 0"),
        ({"disclosure": "cubic"}, "disclosure is 'cubic', expected step, linear, quad"),
        (
            {"aggregation": "mean"},
            "aggregation is 'mean', expected 'worst' or 'average'",
        ),
        ({"objective": "max"}, "objective is 'max', expected 'disc-budget' or"),
        ({"utility_norm": 0}, "utility_norm is 0, expected > 0"),
        ({"copies": -1}, "copies holds -1, expected >= 0"),
        ({"history": [(0, 2)]}, "history.adversary holds 2, expected < 2"),
    ],
)
def test_what_is_off_is_refused_with_value_and_expectation(changes, message):
    good = {"weights": [[1, 1], [1, 1]], "sets": [[0, 1]]}
    with pytest.raises(InvalidProblem, match=message):
        Problem.from_sets(**(good | changes))


def test_utility_is_one_at_most_unless_its_norm_is_given():
    """Two entries of 3 and 2 at best; the plan gives 3 + 1."""
    plan = Plan.of([(0, 0), (1, 1)])
    weights = [[3, 1], [2, 1]]
    assert judge(Problem.from_sets(weights, [[0, 1]]), plan).u == Fraction(4, 5)
    plain = Problem.from_sets(weights, [[0, 1]], utility_norm=1)
    assert judge(plain, plan).u == 4
    worthless = Problem.from_sets([[0, 0], [0, 0]], [[0, 1]])
    assert judge(worthless, plan).u == 0


def test_a_search_by_name_says_which_names_there_are_and_fit():
    problem = Problem.from_sets([[1, 1], [1, 1]], [[0, 1]])
    assert solve(problem, algorithm="greedy").verdict is Verdict.SOLVED
    with pytest.raises(ValueError, match="algorithm is 'best', expected one of auto, "):
        solve(problem, algorithm="best")
    linear = Problem.from_sets(
        [[1, 1], [1, 1]], [[0, 1]], disclosure="linear", objective="tradeoff"
    )
    with pytest.raises(ValueError, match="clique does not take this problem, but auto"):
        solve(linear, algorithm="clique")


@pytest.mark.parametrize(("measure", "shown"), [(CUBIC, "cubic"), (3, "3")])
def test_a_disclosure_function_that_is_not_registered_is_refused_by_name(
    measure, shown
):
    with pytest.raises(InvalidProblem, match="'cubic', expected step, linear, "):
        Problem.from_sets([[1, 1], [1, 1]], [[0, 1]], disclosure="cubic")
    problem = Problem.from_sets([[1, 1], [1, 1]], [[0, 1]])
    known = f"measures holds {shown}, expected measures of MEASURES: step, linear, "
    with pytest.raises(InvalidProblem, match=known):
        replace(problem.sets, measures=(measure,))


def test_a_policy_is_read_or_refused_with_its_places():
    text = (ROOT / "examples" / "policies" / "tickets.toml").read_text()
    assert read_policy(text).name == read_policy(text.encode()).name == "tickets"
    with pytest.raises(InvalidPolicy, match=r"mine\.toml:1:11") as refused:
        read_policy("version = 2\n", "mine.toml")
    assert refused.value.diagnostics


def test_importing_any_module_loads_no_engine():
    """Engines take seconds to load: whoever needs one loads it when it is called."""
    code = """
import importlib, pkgutil, sys, policies
for module in pkgutil.walk_packages(policies.__path__, "policies."):
    importlib.import_module(module.name)
    heavy = {"scipy", "numba", "ortools", "highspy", "clarabel"} & set(sys.modules)
    assert not heavy, (module.name, heavy)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import sys, policies.document; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
