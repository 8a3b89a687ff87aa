"""Each column is read by some query: what is only written is a promise to nobody.

The sources are read, not run. A column is read where a statement names it
(``col(Run.name)``), or where whole rows are read (``select(Run)``) and some expression
takes the attribute. What a statement sets (``values(...)``, ``set_={...}``) reads nothing.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sqlmodel import SQLModel

import dispatcher
from dispatcher import model

ROOT = Path(dispatcher.__file__).parent
MODELS = {
    name: kind
    for name, kind in vars(model).items()
    if isinstance(kind, type) and issubclass(kind, SQLModel)
}

ONLY_WRITTEN = {
    "IdBlock.name": "the primary key: an upsert finds the row by its conflict",
    "WebhookDelivery.call": "of the primary key: a second insert conflicts with it",
}
"""Columns that no query reads, with the reason for keeping each."""


def models_named(tree: ast.AST) -> dict[str, str]:
    """Names of models in a source, those given by imports and ``aliased`` too."""
    found = {name: name for name in MODELS}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=names):
                found |= {
                    one.asname: one.name
                    for one in names
                    if one.asname and one.name in MODELS
                }
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Name(id="aliased"), args=[ast.Name(id=kind), *_]
                ),
            ) if kind in found:
                found[name] = found[kind]
    return found


def set_by(node: ast.Call) -> Iterator[ast.AST]:
    """Expressions that say what a statement writes."""
    if getattr(node.func, "attr", None) == "values":
        yield from node.args
        yield from (one.value for one in node.keywords)
    yield from (one.value for one in node.keywords if one.arg == "set_")


def reads(source: str) -> tuple[set[str], set[str], set[str]]:
    """Columns that a source names, models that it reads whole, attributes it takes."""
    tree = ast.parse(source)
    known = models_named(tree)
    written = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for part in set_by(node)
        for inner in ast.walk(part)
    }
    named, whole, taken = set(), set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in known:
                if id(node) not in written:
                    named.add(f"{known[name]}.{attr}")
            case ast.Attribute(attr=attr, ctx=ast.Load()):
                taken.add(attr)
            case ast.Call(func=ast.Name(id="select" | "getattr"), args=arguments):
                whole |= {
                    known[one.id]
                    for one in arguments
                    if isinstance(one, ast.Name) and one.id in known
                }
    return named, whole, taken


def unread(sources: Mapping[str, str]) -> set[str]:
    found = [reads(text) for text in sources.values()]
    named, whole, taken = (set().union(*parts) for parts in zip(*found, strict=True))
    return {
        f"{name}.{column.key}"
        for name, kind in MODELS.items()
        for column in kind.__table__.columns
        if f"{name}.{column.key}" not in named
        and not (name in whole and column.key in taken)
    }


def test_each_column_is_read() -> None:
    sources = {
        str(path): path.read_text()
        for path in ROOT.rglob("*.py")
        if path.parent.name != "model"
    }
    assert unread(sources) == ONLY_WRITTEN.keys()


@pytest.mark.parametrize(
    ("source", "is_read"),
    [
        ("X = select(Pause.at)", True),
        ("X = select(Pause.scope).where(col(Pause.at) < 1)", True),
        ("from dispatcher.model import Pause as P\nX = select(P.at)", True),
        ("p = aliased(Pause)\nX = select(p.at)", True),
        ("X = select(Pause)\ny = one.at", True),
        ("X = select(Pause)", False),
        ("y = one.at", False),
        ("X = insert(Pause).values(at=now)", False),
        ("X = update(Pause).values(at=Pause.at + 1)", False),
        ("X = new.on_conflict_do_update(set_={'at': Pause.at})", False),
        ('tx.insert_many("pause", ("scope", "at"), rows)', False),
    ],
)
def test_a_read_is_told_from_a_write(source: str, *, is_read: bool) -> None:
    assert ("Pause.at" not in unread({"x": source})) is is_read
