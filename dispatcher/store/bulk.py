"""The one bulk writer: ``executemany`` on SQLite, binary COPY on PostgreSQL.

Rows are tuples in the order of the columns named. They are taken lazily, so that a
generator writes more rows than fit in memory; while it runs, the transaction takes no
other statement (PostgreSQL could not answer it), so it must not look anything up.

A few rows go by plain statements on PostgreSQL too: a COPY through a temporary table
costs more than they do. Upserts go in key order there, so that two writers never
wait for each other in a circle.

The drivers of SQLite look for an adapter, at the price of a whole row, for every value
that is no exact ``int``, ``float``, ``str`` or ``bytearray``. So hot rows hold no None
(a column that none of them has is left out), and bytes go as ``bytearray``.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Double,
    Float,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
)
from sqlalchemy.types import TypeEngine

from dispatcher.model import metadata
from dispatcher.store import packed
from dispatcher.store.backend import Backend
from dispatcher.store.packed import Block
from dispatcher.store.sql import quoted

Rows = Iterable[Sequence[Any]]

FEW: Final = 64
"""Up to so many rows PostgreSQL gets as statements instead of a COPY."""

# Narrow types before those they derive from.
_POSTGRES_TYPES: Final[tuple[tuple[type[TypeEngine[Any]], str], ...]] = (
    (SmallInteger, "int2"),
    (BigInteger, "int8"),
    (Integer, "int4"),
    (Double, "float8"),
    (Float, "float8"),
    (LargeBinary, "bytea"),
    (String, "text"),
)


@lru_cache(maxsize=256)
def column_types(table: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """PostgreSQL's names of the columns' types, for binary COPY.

    Raises
    ------
    ValueError
        The model has no such table or column.
    """
    if table not in metadata.tables:
        message = f"the model has no table {table}"
        raise ValueError(message)
    known = metadata.tables[table].columns
    types = []
    for name in columns:
        if name not in known:
            message = f"table {table} has no column {name}"
            raise ValueError(message)
        found = next(
            (
                word
                for kind, word in _POSTGRES_TYPES
                if isinstance(known[name].type, kind)
            ),
            None,
        )
        assert found is not None, f"{table}.{name} has a type unknown to COPY"
        types.append(found)
    return tuple(types)


class BulkWriter:
    """Bulk writes of one transaction (call them on :class:`Tx`)."""

    __slots__ = ("_backend", "_cursor", "_temporary", "_watch")

    def __init__(
        self,
        backend: Backend,
        cursor: Any,  # noqa: ANN401
        watch: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._backend = backend
        self._cursor = cursor
        self._watch = watch
        self._temporary = itertools.count()

    def insert_many(self, table: str, columns: Sequence[str], rows: Rows) -> int:
        """Insert new rows.

        Returns
        -------
        int
            Number of rows.

        Raises
        ------
        Clash
            A row is there already or breaks a CHECK. The transaction is lost on
            PostgreSQL and half written on SQLite: let the error end it.
        """
        column_types(table, tuple(columns))
        insert = _insert(table, tuple(columns))
        if self._backend.one_writer:
            return self._many(insert, rows)
        head, rest = _split(rows)
        if not rest:
            return self._many(insert, head)
        return self._copy(table, columns, itertools.chain(head, rest))

    def insert_blocks(
        self, table: str, columns: Sequence[str], blocks: Iterable[Block]
    ) -> int:
        """Insert new rows that come as columns, as :meth:`insert_many` does rows."""
        types = column_types(table, tuple(columns))
        insert = _insert(table, tuple(columns))
        source = iter(blocks)
        if self._backend.one_writer:
            rows = map(packed.rows_of, source)
            return self._many(insert, itertools.chain.from_iterable(rows))
        head: list[Block] = []
        for block in source:
            head.append(block)
            if sum(block.size for block in head) >= FEW:
                return self._copy_blocks(
                    table, columns, types, itertools.chain(head, source)
                )
        return self._many(insert, [row for b in head for row in packed.rows_of(b)])

    def insert_new(
        self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Rows
    ) -> int:
        """Insert the rows whose key is not there yet.

        Returns
        -------
        int
            Number of rows inserted.
        """
        return self._merge(table, keys, columns, rows, "DO NOTHING")

    def upsert_many(
        self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Rows
    ) -> int:
        """Insert rows, or overwrite the columns of those that exist.

        ``columns`` holds the keys too. A key comes once in ``rows``.
        """
        changed = [name for name in columns if name not in keys]
        setting = ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in changed)
        action = f"DO UPDATE SET {setting}" if changed else "DO NOTHING"
        return self._merge(table, keys, columns, rows, action)

    def upsert_add(self, table: str, keys: Sequence[str], add: str, rows: Rows) -> int:
        """Add to a counter of each key, which starts at 0.

        Parameters
        ----------
        table : str
            Name of the table; its other columns need defaults.
        keys : Sequence[str]
            Columns of the primary key.
        add : str
            The counter.
        rows : Iterable[Sequence[Any]]
            Tuples ``(*key, n)``; a key may come several times.
        """
        name = quoted(add)
        setting = f"{name} = {quoted(table)}.{name} + excluded.{name}"
        return self._merge(
            table, keys, [*keys, add], rows, f"DO UPDATE SET {setting}", total=add
        )

    def update_many(
        self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Rows
    ) -> int:
        """Change columns of rows found by key; keys that are not there are ignored.

        Parameters
        ----------
        table : str
            Name of the table.
        keys, columns : Sequence[str]
            What finds a row, and what is set: disjoint.
        rows : Iterable[Sequence[Any]]
            Tuples ``(*key, *columns)``; a key comes once.

        Returns
        -------
        int
            Number of rows changed.
        """
        column_types(table, (*keys, *columns))
        head, rest = _split(rows)
        if self._backend.one_writer or not rest:
            setting = ", ".join(f"{quoted(n)} = ?" for n in columns)
            found = " AND ".join(f"{quoted(n)} = ?" for n in keys)
            text = f"UPDATE {quoted(table)} SET {setting} WHERE {found}"
            cut = len(keys)
            if not rest:
                head.sort(key=lambda row: tuple(row[:cut]))
            turned = ((*r[cut:], *r[:cut]) for r in itertools.chain(head, rest))
            return self._many(text, turned)
        names = [*keys, *columns]
        source = self._loaded(table, names, itertools.chain(head, rest))
        setting = ", ".join(f"{quoted(n)} = s.{quoted(n)}" for n in columns)
        found = " AND ".join(f"t.{quoted(n)} = s.{quoted(n)}" for n in keys)
        text = f"UPDATE {quoted(table)} t SET {setting} FROM {source} s WHERE {found}"
        return self._finished(text, source)

    def _merge(
        self,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        rows: Rows,
        action: str,
        *,
        total: str | None = None,
    ) -> int:
        column_types(table, tuple(columns))
        listed = ", ".join(quoted(name) for name in keys)
        conflict = f" ON CONFLICT ({listed}) {action}"
        if self._backend.one_writer:
            return self._many(_insert(table, tuple(columns)) + conflict, rows)
        head, rest = _split(rows)
        if not rest:
            places = [list(columns).index(name) for name in keys]
            head.sort(key=lambda row: tuple(row[place] for place in places))
            return self._many(_insert(table, tuple(columns)) + conflict, head)
        source = self._loaded(table, columns, itertools.chain(head, rest))
        names = ", ".join(quoted(name) for name in columns)
        taken, grouped = names, ""
        if total is not None:
            taken = f"{listed}, sum({quoted(total)})::bigint"
            grouped = f" GROUP BY {listed}"
        text = (
            f"INSERT INTO {quoted(table)} ({names})"
            f" SELECT {taken} FROM {source}{grouped} ORDER BY {listed}{conflict}"
        )
        return self._finished(text, source)

    def _many(self, statement: str, rows: Rows) -> int:
        head, rest = _split(rows)
        if not head:
            return 0  # the driver would ask the server all the same
        text, _ = self._backend.statement(statement, ())
        with self._watch():
            if len(head) == 1:
                self._cursor.execute(text, head[0])
            else:
                self._cursor.executemany(text, itertools.chain(head, rest))
        return max(0, int(self._cursor.rowcount))

    def _copy(
        self, target: str, columns: Sequence[str], rows: Rows, *, of: str = ""
    ) -> int:
        with self._watch(), self._cursor.copy(_copy_text(target, columns)) as copy:
            copy.set_types(column_types(of or target, tuple(columns)))
            write = copy.write_row
            for row in rows:
                write(row)
        return int(self._cursor.rowcount)

    def _copy_blocks(
        self,
        table: str,
        columns: Sequence[str],
        types: Sequence[str],
        blocks: Iterable[Block],
    ) -> int:
        with self._watch(), self._cursor.copy(_copy_text(table, columns)) as copy:
            copy.write(packed.START)
            for block in packed.gathered(blocks):
                copy.write(packed.copied(block, types))
            copy.write(packed.END)
        return int(self._cursor.rowcount)

    def _loaded(self, table: str, columns: Sequence[str], rows: Rows) -> str:
        """Copy rows into a temporary table; return its name."""
        name = f"bulk_{next(self._temporary)}"
        listed = ", ".join(quoted(column) for column in columns)
        self._statement(
            f"CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS"
            f" SELECT {listed} FROM {quoted(table)} WITH NO DATA"
        )
        self._copy(name, columns, rows, of=table)
        return name

    def _finished(self, text: str, source: str) -> int:
        self._statement(text)
        count = int(self._cursor.rowcount)
        self._statement(f"DROP TABLE {source}")
        return count

    def _statement(self, text: str) -> None:
        with self._watch():
            self._cursor.execute(text, prepare=False)


@lru_cache(maxsize=256)
def _insert(table: str, columns: tuple[str, ...]) -> str:
    names = ", ".join(quoted(name) for name in columns)
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"


def _copy_text(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(quoted(name) for name in columns)
    return f"COPY {quoted(table)} ({names}) FROM STDIN (FORMAT BINARY)"


def _split(rows: Rows) -> tuple[list[Sequence[Any]], Rows]:
    """First few rows, and the rest: an empty tuple when there is none."""
    iterator = iter(rows)
    head = list(itertools.islice(iterator, FEW))
    if len(head) < FEW:
        return head, ()
    return head, iterator
