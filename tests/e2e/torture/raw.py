"""The store read from outside: plain SQL, none of the program's code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

Row = tuple[Any, ...]


class Raw:
    """One read-only connection to the store of a scene."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str) -> list[Row]:
        return list(self._connection.execute(statement).fetchall())

    def value(self, statement: str) -> Any:
        return self.rows(statement)[0][0]


@contextmanager
def opened(directory: Path, store: str | None) -> Iterator[Raw]:
    """Open the store for reading."""
    if store is not None:
        with psycopg.connect(store) as connection:
            connection.read_only = True
            yield Raw(connection)
        return
    path = directory / "dispatcher.db"
    lite = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        yield Raw(lite)
    finally:
        lite.close()


def is_free(directory: Path, store: str | None) -> bool:
    """Whether nobody is in the midst of a write that would keep a leader waiting."""
    if store is not None:
        with psycopg.connect(store) as connection:
            try:
                connection.execute("SELECT 1 FROM lease FOR UPDATE NOWAIT")
            except psycopg.errors.LockNotAvailable:
                return False
            finally:
                connection.rollback()
        return True
    path = directory / "dispatcher.db"
    lite = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        lite.execute("BEGIN IMMEDIATE")
        lite.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    finally:
        lite.close()
    return True


def settled(raw: Raw) -> tuple[int, int, int]:
    """Fields settled, fields, answers."""
    done = "SELECT count(*) FROM result WHERE state IN ('answered', 'conflict')"
    return (
        raw.value(done),
        raw.value("SELECT count(*) FROM entry"),
        raw.value("SELECT count(*) FROM answer WHERE valid = 1"),
    )
