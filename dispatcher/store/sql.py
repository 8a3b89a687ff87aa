"""One SQL text, two dialects: the few differences are rewritten here.

Statements are written once, in PostgreSQL's words, with ``?`` for every parameter:

* ``id = ANY(?)`` and ``id <> ALL(?)`` take a list of integers or of texts;
* ``FOR UPDATE``, ``FOR SHARE``, ``SKIP LOCKED`` lock rows (SQLite's writers have the
  whole store to themselves, so there the words fall away).

A statement therefore has no ``?`` inside a literal. Rewritten texts are remembered.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

Scalar = int | float | str | bytes | None
Value = Scalar | Sequence[int] | Sequence[str]
"""What a parameter may be; a sequence only for ``ANY`` and ``ALL``."""

_ROW_LOCK: Final = re.compile(
    r"\s+FOR\s+(?:NO\s+KEY\s+UPDATE|UPDATE|KEY\s+SHARE|SHARE)"
    r"(?:\s+OF\s+\w+)?(?:\s+SKIP\s+LOCKED|\s+NOWAIT)?"
)
_ANY: Final = re.compile(r"=\s*ANY\s*\(\s*\?\s*\)")
_ALL: Final = re.compile(r"<>\s*ALL\s*\(\s*\?\s*\)")


@lru_cache(maxsize=2048)
def sqlite_text(statement: str) -> tuple[str, bool]:
    """Statement for SQLite, and whether one of its parameters is a list."""
    text = _ROW_LOCK.sub("", statement)
    text, any_count = _ANY.subn("IN (SELECT value FROM json_each(?))", text)
    text, all_count = _ALL.subn("NOT IN (SELECT value FROM json_each(?))", text)
    return text, bool(any_count + all_count)


def sqlite_statement(
    statement: str, parameters: Sequence[Value]
) -> tuple[str, Sequence[Value]]:
    """Statement and parameters as SQLite's driver takes them."""
    text, has_lists = sqlite_text(statement)
    if has_lists:
        parameters = [
            json.dumps(list(value)) if isinstance(value, (list, tuple)) else value
            for value in parameters
        ]
    return text, parameters


@lru_cache(maxsize=2048)
def postgres_text(statement: str) -> str:
    """Statement for psycopg: ``%s`` for each ``?``."""
    return statement.replace("%", "%%").replace("?", "%s")


def postgres_statement(
    statement: str, parameters: Sequence[Value]
) -> tuple[str, Sequence[Value]]:
    """Statement and parameters as psycopg takes them."""
    return postgres_text(statement), parameters


@lru_cache(maxsize=1024)
def quoted(name: str) -> str:
    """Return a table's or column's name, quoted where it needs to be.

    Raises
    ------
    ValueError
        The name is none of ours: names are never taken from outside.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        message = "a table or column name is lower-case letters, digits and _"
        raise ValueError(message)
    return f'"{name}"'
