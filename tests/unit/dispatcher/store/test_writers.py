"""Each table is written by one module, which is then where its rules are kept.

The sources are read, not run: SQL texts, SQLAlchemy's ``insert``, ``update`` and
``delete``, and the bulk writer's calls.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dispatcher
import dispatcher.model
from dispatcher.model import metadata

ROOT = Path(dispatcher.__file__).parent

WHOLE_STORES = frozenset(
    {
        "store.bulk",  # writes what it is told to
        "store.dumping",  # reads a backup back: every table, as it was
        "store.rekey",  # seals values where they stand, and changes nothing else
        "store.transaction",  # hands on to bulk
    }
)
"""Modules that write tables without knowing them."""

ANY_TABLE = "<any>"
"""Stands for a table whose name is not in the statement."""

_TEXT = re.compile(r"\b(?:INSERT INTO|DELETE FROM|UPDATE) +(\w+|\?)")
_LOCK = re.compile(r"FOR (NO KEY )?UPDATE|DO UPDATE SET")
_BULK = frozenset(
    {
        "insert_blocks",
        "insert_many",
        "insert_new",
        "update_many",
        "upsert_add",
        "upsert_many",
    }
)
_CONSTRUCTS = frozenset({"insert", "update", "delete"})
_TABLES = {
    name: kind.__tablename__
    for name, kind in vars(dispatcher.model).items()
    if hasattr(kind, "__tablename__")
}


def text_of(node: ast.AST) -> str | None:
    """Text of a constant, with ``?`` for what is put into it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) or "?" for part in parts)
    return None


def docstrings(tree: ast.AST) -> set[int]:
    """Texts that stand alone: they say something, and run nothing."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def tables_written(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    known = tables_named(tree)
    skipped = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        text = None if id(node) in skipped else text_of(node)
        if text is not None:
            for name in _TEXT.findall(_LOCK.sub("", text)):
                if name == "?":
                    yield ANY_TABLE
                elif name in metadata.tables:
                    yield name
        if isinstance(node, ast.Call) and node.args:
            yield from called(node, known)


def tables_named(tree: ast.AST) -> dict[str, str]:
    """Tables by the names that their models have in a source."""
    other = {
        alias.asname: _TABLES[alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dispatcher.model"
        for alias in node.names
        if alias.asname and alias.name in _TABLES
    }
    return _TABLES | other


def called(node: ast.Call, known: dict[str, str]) -> Iterator[str]:
    """Tables that a call writes."""
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
    first = node.args[0]
    if name in _BULK:
        text = text_of(first)
        yield text if text in metadata.tables else ANY_TABLE
    elif name in _CONSTRUCTS and isinstance(first, ast.Name):
        if first.id in known:
            yield known[first.id]
        elif isinstance(node.func, ast.Name):
            yield ANY_TABLE


@cache
def writers() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if module in WHOLE_STORES:
            continue
        for table in tables_written(path.read_text()):
            found[table].add(module.removesuffix(".__init__"))
    return found


def test_each_table_is_written_by_one_module() -> None:
    found = writers()
    several = {
        table: modules
        for table, modules in found.items()
        if len(modules) > 1 or table == ANY_TABLE
    }
    assert several == {}


def test_every_table_is_written() -> None:
    assert set(metadata.tables) - set(writers()) == set()


def test_writes_are_found_however_they_are_said() -> None:
    def found(source: str) -> set[str]:
        return set(tables_written(source))

    assert found('tx.execute("UPDATE task SET state = ?")') == {"task"}
    assert found('tx.execute("INSERT INTO run" " (id) VALUES (?)")') == {"run"}
    assert found('tx.execute(f"DELETE FROM {table} WHERE x")') == {ANY_TABLE}
    assert found('tx.insert_many("event", a, b)') == {"event"}
    assert found("tx.upsert_add(table, a, b, c)") == {ANY_TABLE}
    assert found("X = sa.update(Task).values(a=1)") == {"task"}
    assert found("X = insert(Pause).values(a=1)") == {"pause"}
    assert found("X = delete(model)") == {ANY_TABLE}
    assert found("seen.update(more)") == set()
    assert found("from dispatcher.model import Run as R\nupdate(R)") == {"run"}
    assert found('"""INSERT INTO run is said here."""') == set()
    assert found('tx.rows("SELECT 1 FROM task FOR UPDATE")') == set()
    assert found("select(Task)") == set()
