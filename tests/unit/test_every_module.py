"""Every module is run by a test (docs/decisions/0015), and a class name is one thing."""

import ast
from pathlib import Path

import pytest

from dispatcher.surfaces.cli.tree import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGES = ("policies", "connectors", "dispatcher")

SEARCH = "tests/unit/policies/solvers/search"
PROVIDER = "tests/integration/test_provider_sign_in.py"
RUN_BY = {
    "connectors.prolific.signed_links": "tests/contract/test_prolific.py",
    "connectors.prolific.webhooks": "tests/contract/test_prolific.py",
    "connectors.sftp.session": "tests/unit/connectors/sftp/test_feed.py",
    "dispatcher.stages.intake.questions": "tests/integration/test_questions.py",
    # prints what the test compares
    "dispatcher.surfaces.api.__main__": "tests/integration/test_api.py",
    "dispatcher.surfaces.console.acting": "tests/integration/test_console_acts.py",
    "dispatcher.access.provider_sign_in": PROVIDER,
    "dispatcher.surfaces.console.provider": PROVIDER,
    "dispatcher.surfaces.console.judging": "tests/integration/test_console_acts.py",
    "dispatcher.surfaces.console.read_cache": "tests/integration/test_console.py",
    "dispatcher.surfaces.console.tables": "tests/integration/test_console_acts.py",
    "policies.solvers.kernels.__main__": "Makefile",  # before the tests of all targets
    "policies.solvers.kernels.pick_next_best": f"{SEARCH}/test_greedy.py",
}
"""Tests of modules that no test reaches by two imports."""


def code(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return found


def modules() -> dict[str, ast.Module]:
    """All modules that do something: more than a docstring, or names for others."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): tree
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
        for tree in [code(path)]
    }


def test_every_module_is_run_by_a_test() -> None:
    every = modules()
    tests = set().union(
        *(imported(code(path)) for path in (ROOT / "tests").rglob("*.py"))
    )
    packages = {
        f"{path.parent.relative_to(ROOT).as_posix().replace('/', '.')}": code(path)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    tests |= {
        f"dispatcher.surfaces.cli.{one.module}" for one in COMMANDS
    }  # by test_tree
    reached = tests & (every.keys() | packages.keys())
    reached |= set().union(*(imported((every | packages)[name]) for name in reached))
    assert every.keys() - reached == RUN_BY.keys()


@pytest.mark.parametrize("module", RUN_BY)
def test_the_test_that_runs_it_is_there(module: str) -> None:
    assert (ROOT / RUN_BY[module]).is_file()


HOMONYMS = {"Api": "each connector has one client of its service's protocol"}
"""Names of classes that several modules may have, and why."""


def named_after_what_they_show(path: Path) -> bool:
    """Documents of the API: their names are public."""
    return path.is_relative_to(ROOT / "dispatcher/surfaces/api/documents")


def test_a_class_name_of_the_dispatcher_and_its_connectors_is_one_thing() -> None:
    named: dict[str, list[str]] = {}
    for package in ("connectors", "dispatcher"):
        for path in (ROOT / package).rglob("*.py"):
            if not named_after_what_they_show(path):
                for node in code(path).body:
                    if isinstance(node, ast.ClassDef):
                        named.setdefault(node.name, []).append(str(path))
    shared = {name: where for name, where in named.items() if len(where) > 1}
    assert shared.keys() == HOMONYMS.keys(), shared
