"""Open keys are kept for the next value, but not without bound."""

import ast
from pathlib import Path

import dispatcher
from dispatcher.store.vault import CACHED, Vault


def test_the_cache_of_open_keys_has_a_bound():
    vault = Vault()
    for number in range(CACHED + 10):
        vault._keep(number, None)
    kept = [number for number in range(CACHED + 10) if number in vault]
    assert kept == list(range(10, CACHED + 10))


ROOT = Path(dispatcher.__file__).parent
OPEN_SHOWN = {
    "custody/residue_scan.py": {"erasure.shown_of"},
    "stages/intake/questions.py": {"gold_questions.shown_values"},
    "stages/sending.py": {"tasks.cargo"},
    "stages/serving/__init__.py": {"serving.shown_entry"},
    "stages/serving/fetching.py": {"tasks.published"},
    "stages/serving/task_assignment.py": {"serving.shown_entry"},
    "operations/answers.py": {"serving.shown_entry"},
}
"""Who may open what workers see, and by which function of the store.

Operators see it where they judge answers that disagree, with a role for it and once they
have proven again who they are; each look is a line of the audit log.
"""


def opens_shown(function: ast.AST) -> bool:
    return isinstance(function, ast.FunctionDef) and any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith("tx.vault.open")
        and "'entry.shown'" in ast.unparse(node)
        for node in ast.walk(function)
    )


def used(path: Path) -> set[str]:
    """Functions of the store that a module calls, as MODULE.NAME."""
    tree = ast.parse(path.read_text("utf-8"))
    modules = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dispatcher.store"
        for alias in node.names
    }
    return {
        f"{modules[node.value.id]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
    }


def test_safety_40_few_may_open_what_workers_see():
    """Behind the gate, and for erasure and questions that are made up."""
    doors = {
        f"{path.stem}.{function.name}"
        for path in (ROOT / "store").glob("*.py")
        for function in ast.parse(path.read_text("utf-8")).body
        if opens_shown(function)
    }
    assert doors == set().union(*OPEN_SHOWN.values())
    outside = [p for p in ROOT.rglob("*.py") if p.parent != ROOT / "store"]
    found = {path.relative_to(ROOT).as_posix(): used(path) & doors for path in outside}
    assert {name: called for name, called in found.items() if called} == OPEN_SHOWN
