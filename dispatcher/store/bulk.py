"""The one bulk writer: ``executemany`` on SQLite, binary COPY on PostgreSQL.

Rows are tuples in the order of the columns named. They are taken lazily, so that a
generator writes more rows than fit in memory; while it runs, the transaction takes no
other statement (PostgreSQL could not answer it), so it must not look anything up.

A few rows go by plain statements on PostgreSQL too: a COPY through a temporary table
costs more than they do. Upserts go in key order there, so that two writers never
wait for each other in a circle.

SQLite's driver looks for an adapter, at the cost of a whole row, for every value that
is not exactly ``int``, ``float``, ``str`` or ``bytearray``. So hot rows contain no None
(a column that none of them has is left out), and bytes are passed as ``bytearray``.
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Dialect,
    Double,
    Executable,
    Float,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    TableClause,
    bindparam,
    cast,
    column,
    func,
    select,
    update,
)
from sqlalchemy import table as lightweight
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.types import TypeEngine

from dispatcher.model import metadata
from dispatcher.store import column_blocks
from dispatcher.store.backend import Backend
from dispatcher.store.column_blocks import Block
from dispatcher.store.statements import DriverStatement, insert

Rows = Iterable[Sequence[Any]]

FEW: Final = 64
"""Most rows for which PostgreSQL gets statements instead of a COPY."""

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

    __slots__ = ("_backend", "_cursor", "_dialect", "_temporary", "_watch")

    def __init__(
        self,
        backend: Backend,
        dialect: Dialect,
        cursor: Any,  # noqa: ANN401
        watch: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._backend = backend
        self._dialect = dialect
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
        new = _insert(table, tuple(columns))
        if self._backend.one_writer:
            return self._many(new, columns, rows)
        head, rest = _split(rows)
        if not rest:
            return self._many(new, columns, head)
        return self._copy(table, columns, itertools.chain(head, rest))

    def insert_blocks(
        self, table: str, columns: Sequence[str], blocks: Iterable[Block]
    ) -> int:
        """Insert new rows that come as columns, as :meth:`insert_many` does rows."""
        types = column_types(table, tuple(columns))
        new = _insert(table, tuple(columns))
        source = iter(blocks)
        if self._backend.one_writer:
            rows = map(column_blocks.rows_of, source)
            return self._many(new, columns, itertools.chain.from_iterable(rows))
        head: list[Block] = []
        for block in source:
            head.append(block)
            if sum(block.size for block in head) >= FEW:
                return self._copy_blocks(
                    table, columns, types, itertools.chain(head, source)
                )
        few = [row for block in head for row in column_blocks.rows_of(block)]
        return self._many(new, columns, few)

    def insert_new(
        self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Rows
    ) -> int:
        """Insert the rows whose key is not there yet.

        Returns
        -------
        int
            Number of rows inserted.
        """
        return self._merge(table, keys, columns, rows, _KEEP)

    def upsert_many(
        self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Rows
    ) -> int:
        """Insert rows, or overwrite the columns of those that exist.

        ``columns`` includes the keys. ``rows`` has each key once.
        """
        changed = any(name not in keys for name in columns)
        return self._merge(table, keys, columns, rows, _OVERWRITE if changed else _KEEP)

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
        return self._merge(table, keys, [*keys, add], rows, _ADD)

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
        names = (*keys, *columns)
        column_types(table, names)
        head, rest = _split(rows)
        if self._backend.one_writer or not rest:
            if not rest:
                head.sort(key=operator.itemgetter(slice(len(keys))))
            changed = _update(table, tuple(keys), tuple(columns))
            return self._many(changed, names, itertools.chain(head, rest))
        source = self._loaded(table, names, itertools.chain(head, rest))
        target = metadata.tables[table]
        return self._finished(
            update(target)
            .where(*(target.c[name] == source.c[name] for name in keys))
            .values({name: source.c[name] for name in columns}),
            source,
        )

    def _merge(
        self,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        rows: Rows,
        action: str,
    ) -> int:
        new = _merging(table, tuple(keys), tuple(columns), action)
        if self._backend.one_writer:
            return self._many(new, columns, rows)
        head, rest = _split(rows)
        if not rest:
            places = [list(columns).index(name) for name in keys]
            head.sort(key=lambda row: tuple(row[place] for place in places))
            return self._many(new, columns, head)
        source = self._loaded(table, columns, itertools.chain(head, rest))
        taken = select(*source.c)
        if action == _ADD:  # a key may come several times
            own, total = (source.c[name] for name in keys), source.c[columns[-1]]
            taken = select(*own, cast(func.sum(total), BigInteger))
            taken = taken.group_by(*(source.c[name] for name in keys))
        taken = taken.order_by(*(source.c[name] for name in keys))
        merged = insert(_bare(table, columns)).from_select(list(columns), taken)
        return self._finished(_on_conflict(merged, keys, columns, action), source)

    def _many(
        self, statement: DriverStatement, columns: Sequence[str], rows: Rows
    ) -> int:
        head, rest = _split(rows)
        if not head:
            return 0  # the driver would ask the server all the same
        text, places = statement.for_rows(self._dialect, tuple(columns))
        every: Rows = itertools.chain(head, rest)
        if places is not None:
            every = map(places, every)
        with self._watch():
            if len(head) == 1:
                self._cursor.execute(text, next(iter(every)))
            else:
                self._cursor.executemany(text, every)
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
            copy.write(column_blocks.START)
            for block in column_blocks.gathered(blocks):
                copy.write(column_blocks.copied(block, types))
            copy.write(column_blocks.END)
        return int(self._cursor.rowcount)

    def _loaded(self, table: str, columns: Sequence[str], rows: Rows) -> TableClause:
        """Copy rows into a temporary table; return it."""
        name = f"bulk_{next(self._temporary)}"
        listed = ", ".join(quoted(column) for column in columns)
        self._statement(
            f"CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS"
            f" SELECT {listed} FROM {quoted(table)} WITH NO DATA"
        )
        self._copy(name, columns, rows, of=table)
        known = metadata.tables[table].c
        return lightweight(name, *(column(n, known[n].type) for n in columns))

    def _finished(self, statement: Executable, source: TableClause) -> int:
        text, _ = DriverStatement(statement).for_driver(self._dialect, {})
        self._statement(text)
        count = int(self._cursor.rowcount)
        self._statement(f"DROP TABLE {source.name}")
        return count

    def _statement(self, text: str) -> None:
        with self._watch():
            self._cursor.execute(text, prepare=False)


_KEEP: Final = "keep"
_OVERWRITE: Final = "overwrite"
_ADD: Final = "add"
"""What to do with a row whose key exists."""


@lru_cache(maxsize=256)
def _insert(table: str, columns: tuple[str, ...]) -> DriverStatement:
    column_types(table, columns)
    return DriverStatement(_new(table, columns))


@lru_cache(maxsize=256)
def _merging(
    table: str, keys: tuple[str, ...], columns: tuple[str, ...], action: str
) -> DriverStatement:
    column_types(table, columns)
    return DriverStatement(_on_conflict(_new(table, columns), keys, columns, action))


@lru_cache(maxsize=256)
def _update(
    table: str, keys: tuple[str, ...], columns: tuple[str, ...]
) -> DriverStatement:
    target = metadata.tables[table]
    return DriverStatement(
        update(target)
        .where(*(target.c[name] == bindparam(f"{name}_") for name in keys))
        .values({name: bindparam(f"{name}_") for name in columns})
    )


def _new(table: str, columns: Sequence[str]) -> Insert:
    values: dict[str, Any] = {name: bindparam(f"{name}_") for name in columns}
    return insert(_bare(table, columns)).values(values)


def _bare(name: str, columns: Sequence[str]) -> TableClause:
    """Only these columns of a table: rows get no defaults of the model, as in a COPY."""
    known = metadata.tables[name].c
    return lightweight(name, *(column(n, known[n].type) for n in columns))


def _on_conflict(
    new: Insert, keys: Sequence[str], columns: Sequence[str], action: str
) -> Insert:
    if action == _KEEP:
        return new.on_conflict_do_nothing(index_elements=list(keys))
    changed: dict[str, Any] = {
        name: new.excluded[name] for name in columns if name not in keys
    }
    if action == _ADD:
        table = new.table
        changed = {name: table.c[name] + added for name, added in changed.items()}
    return new.on_conflict_do_update(index_elements=list(keys), set_=changed)


def _copy_text(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(quoted(name) for name in columns)
    return f"COPY {quoted(table)} ({names}) FROM STDIN (FORMAT BINARY)"


def _split(rows: Rows) -> tuple[list[Sequence[Any]], Rows]:
    """Split off the first few rows; the others are an empty tuple if there are none."""
    iterator = iter(rows)
    head = list(itertools.islice(iterator, FEW))
    if len(head) < FEW:
        return head, ()
    return head, iterator


@lru_cache(maxsize=1024)
def quoted(name: str) -> str:
    """Return a table's or column's name, quoted where it needs to be.

    Raises
    ------
    ValueError
        The name is not in the model: names never come from outside.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        message = "a table or column name is lower-case letters, digits and _"
        raise ValueError(message)
    return f'"{name}"'
