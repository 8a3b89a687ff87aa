"""Statements of text for tests that look at tables.

The product's own are constructs over the models; here ``?`` stands for a parameter, and
``= ANY(?)`` takes a list.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import CursorResult, TextClause, bindparam, text

from dispatcher.store.transaction import Tx

_MARK = re.compile(r"= ANY\(\?\)|\?")


def statement(words: str, parameters: Sequence[Any] = ()) -> TextClause:
    """The text with the values bound to it."""
    names = (f"p{number}" for number in range(len(parameters)))
    binds = []

    def named(mark: re.Match[str]) -> str:
        name = next(names)
        value = parameters[len(binds)]
        is_list = mark.group() != "?"
        binds.append(bindparam(name, value, expanding=is_list))
        return f"IN :{name}" if is_list else f":{name}"

    return text(_MARK.sub(named, words.replace(":", r"\:"))).bindparams(*binds)


def execute(tx: Tx, words: str, parameters: Sequence[Any] = ()) -> int:
    """Run a statement; return how many rows it touched."""
    return run(tx, words, parameters).rowcount


def run(tx: Tx, words: str, parameters: Sequence[Any] = ()) -> CursorResult[Any]:
    return tx.execute(statement(words, parameters))


def rows(tx: Tx, words: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in run(tx, words, parameters).all()]


def one(tx: Tx, words: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """First row, or None."""
    row = run(tx, words, parameters).first()
    return None if row is None else tuple(row)


def value(tx: Tx, words: str, parameters: Sequence[Any] = ()) -> Any:
    """First column of the first row, or None."""
    return run(tx, words, parameters).scalar()


def stream(
    tx: Tx, words: str, parameters: Sequence[Any] = ()
) -> Iterator[tuple[Any, ...]]:
    return tx.stream(statement(words, parameters))
