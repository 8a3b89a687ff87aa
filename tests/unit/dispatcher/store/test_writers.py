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


Nodes = list[ast.AST]
_MAY_WRITE = re.compile("insert|update|delete|upsert", re.IGNORECASE)


def nodes_of(source: str) -> Nodes:
    """All nodes of a source; none where no word of it could write."""
    return list(ast.walk(ast.parse(source))) if _MAY_WRITE.search(source) else []


def docstrings(nodes: Nodes) -> set[int]:
    """Texts that stand alone: they say something, and run nothing."""
    return {id(node.value) for node in nodes if isinstance(node, ast.Expr)}


def texts(nodes: Nodes) -> Iterator[str]:
    """Texts that may be run."""
    skipped = docstrings(nodes)
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        text = None if id(node) in skipped else text_of(node)
        if text is not None:
            yield text


def tables_written(source: str) -> Iterator[str]:
    nodes = nodes_of(source)
    known = tables_named(nodes)
    for text in texts(nodes):
        for name in _TEXT.findall(_LOCK.sub("", text)):
            if name == "?":
                yield ANY_TABLE
            elif name in metadata.tables:
                yield name
    for node in nodes:
        if isinstance(node, ast.Call) and node.args:
            yield from called(node, known)


def tables_named(nodes: Nodes) -> dict[str, str]:
    """Tables by the names that their models have in a source."""
    other = {
        alias.asname: _TABLES[alias.name]
        for node in nodes
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


TESTS = ROOT.parent / "tests"
_TEXT_OF_TESTS = re.compile(
    r"\b(?:INSERT(?: OR \w+)? INTO|REPLACE INTO|DELETE FROM|UPDATE|TRUNCATE"
    r"|(?:ALTER|DROP) TABLE|DROP TRIGGER) +\"?(\w+|\?)"
)
_VERB = re.compile(r"\b(INSERT|REPLACE|DELETE|UPDATE|TRUNCATE|ALTER|DROP)\b")
BY_TEXT = {
    "edits.py": "edits of a store by hand, which tests call by name",
    "conftest.py": "puts the rows of all tables back after a test",
    "integration/test_hostile_strings.py": "a worker's name looks like SQL",
    "unit/dispatcher/store/test_writers.py": "the examples below",
}
"""Files of tests that write the store's tables in words of SQL, and why."""


def written_by_text(source: str) -> set[str]:
    """Tables of a store, and its triggers, that a source writes in words of SQL."""
    if not _VERB.search(source):
        return set()  # not parsed at all
    ours = {*metadata.tables, "alembic_version", "?"}
    return {
        name
        for text in texts(list(ast.walk(ast.parse(source))))
        for name in _TEXT_OF_TESTS.findall(_LOCK.sub("", text))
        if name.partition("_no_")[0] in ours
    }


def test_tests_write_tables_by_operations_models_and_named_edits() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): written_by_text(path.read_text())
        for path in TESTS.rglob("*.py")
    }
    assert {name: tables for name, tables in found.items() if tables}.keys() == (
        BY_TEXT.keys()
    )


def test_words_of_sql_in_tests_are_found() -> None:
    assert written_by_text('sql.execute(tx, "DELETE FROM pause")') == {"pause"}
    assert written_by_text('do(f"UPDATE {table} SET a = 1")') == {"?"}
    assert written_by_text('"INSERT OR REPLACE INTO run VALUES (1)" + x') == {"run"}
    assert written_by_text('f("DROP TRIGGER policy_no_delete")') == {"policy_no_delete"}
    assert written_by_text('f("UPDATE alembic_version SET version_num = 1")')
    assert not written_by_text('f("INSERT INTO another VALUES (1)")')


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
