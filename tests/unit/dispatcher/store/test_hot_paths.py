"""Decision 0011 names the modules that use the driver bare, and no other does."""

import ast
import re
from pathlib import Path

import pytest

import dispatcher.store

STORE = Path(dispatcher.store.__file__).parent
ROOT = STORE.parents[1]
DECISION = (
    ROOT / "docs" / "decisions" / "0011-sql-as-the-ecosystem-writes-it.md"
).read_text(encoding="utf-8")
HOT = DECISION.partition("## Hot paths")[2].partition("\n## ")[0]
PATHS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in HOT.splitlines()
    if line.startswith("| ") and not line.startswith(("| Path ", "|---"))
]
MACHINERY = {"bulk", "engine", "statements", "transaction"}
"""Modules that make driver statements for the others, or for ids."""
BULK = ("insert_blocks", "insert_many", "insert_new", "update_many", "upsert_")


def in_code(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def names_used(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        getattr(node, "attr", None) or getattr(node, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
    }


def is_hot(path: Path) -> bool:
    return "DriverStatement" in names_used(path)


def test_each_module_that_uses_the_driver_bare_is_named() -> None:
    named = set().union(*(in_code(modules) for _, modules, _ in PATHS))
    hot = {path.stem for path in STORE.glob("*.py") if is_hot(path)} - MACHINERY
    assert len(PATHS) > 5
    assert hot - named == set()
    assert named - {path.stem for path in STORE.glob("*.py")} == set()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[0])
def test_each_module_named_uses_the_driver_or_the_bulk_writer(path: list[str]) -> None:
    for module in in_code(path[1]) - MACHINERY:
        file = STORE / f"{module}.py"
        assert is_hot(file) or any(
            name.startswith(BULK) for name in names_used(file)
        ), module


SQL = re.compile(
    r"(BEGIN|COMMIT|COPY|CREATE|DELETE FROM|INSERT INTO|PRAGMA|SELECT|UPDATE|VACUUM)\b"
)


def has_sql(path: Path) -> bool:
    """Whether a text of it, docstrings apart, begins as a statement does."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return any(
        SQL.match(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in said
    )


def test_each_module_with_statements_of_text_is_named() -> None:
    left = DECISION.partition("## What is left")[2]
    named = set(re.findall(r"`store/(\w+\.py)`", left))
    found = {path for path in STORE.parent.rglob("*.py") if has_sql(path)}
    assert found == {STORE / name for name in named}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[0])
def test_each_path_has_its_benchmark(path: list[str]) -> None:
    benchmark = re.match(r"`(\w+)", path[2])
    assert benchmark
    assert (ROOT / "benchmarks" / f"{benchmark.group(1)}.py").is_file()


@pytest.mark.parametrize("name", re.findall(r"`((?:store|tests)/[\w/]+\.py)", DECISION))
def test_each_file_named_exists(name: str) -> None:
    parent = STORE.parent if name.startswith("store/") else ROOT
    assert (parent / name).is_file()
