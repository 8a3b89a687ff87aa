"""What is set otherwise for PostgreSQL: psycopg's adapters, SQLAlchemy's transactions."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable
from typing import Any, Final

from psycopg import adapters
from psycopg.adapt import AdaptersMap
from psycopg.types.array import ListBinaryDumper, ListDumper
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

_BIGINTS: Final = 1016
"""PostgreSQL's number of the type ``bigint[]``."""

_HEAD: Final = struct.Struct("!5I")  # dimensions, nulls, type of items, items, first


class _Arrays(ListBinaryDumper):
    """Lists; those of integers, which may be ten thousands of ids, in a few passes."""

    def dump(self, obj: list[Any]) -> Any:  # noqa: ANN401
        if self.oid != _BIGINTS or set(map(type, obj)) != {int}:
            return super().dump(obj)
        numbers = array("q", obj)
        if sys.byteorder == "little":
            numbers.byteswap()
        raw = numbers.tobytes()
        items = bytearray(12 * len(obj))  # each: its length, 8, and the number
        items[3::12] = b"\x08" * len(obj)
        for place in range(8):
            items[4 + place :: 12] = raw[place::8]
        return _HEAD.pack(1, 0, Int8BinaryDumper.oid, len(obj), 1) + items


def adapted() -> AdaptersMap:
    """Send every integer as bigint and every sequence as an array.

    Psycopg's choice by size would have a statement prepared anew for every combination
    of sizes, and a tuple would become a row.
    """
    mine = AdaptersMap(adapters)
    mine.register_dumper(int, Int8Dumper)
    mine.register_dumper(int, Int8BinaryDumper)
    for kind in (list, tuple):
        mine.register_dumper(kind, ListDumper)
        mine.register_dumper(kind, _Arrays)
    return mine


class PostgresStoreDialect(PGDialect_psycopg):
    """Transactions as the store begins and commits them; see :class:`PostgresBackend`.

    Connections are in autocommit mode, so that the driver begins none by itself.
    """

    supports_statement_cache = True

    def __init__(
        self,
        begin: Callable[[Any], None] | None = None,
        commit: Callable[[Any], None] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._begin, self._commit = begin, commit

    def on_connect(self) -> None:
        """Do nothing: the backend makes its connections ready itself."""

    def do_begin(self, dbapi_connection: Any) -> None:  # noqa: ANN401
        """Start a transaction."""
        assert self._begin is not None
        self._begin(dbapi_connection)

    def do_commit(self, dbapi_connection: Any) -> None:  # noqa: ANN401
        """Commit it; returns only if it was kept."""
        assert self._commit is not None
        self._commit(dbapi_connection)


registry.register("postgresql.store", __name__, PostgresStoreDialect.__name__)
