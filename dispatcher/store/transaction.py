"""One transaction: statements, look-ups, streams, bulk writes, ids."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from dispatcher.store import packed
from dispatcher.store.backend import Backend
from dispatcher.store.bulk import BulkWriter, Rows
from dispatcher.store.journal import Piece
from dispatcher.store.packed import Block, Ints
from dispatcher.store.sql import Value
from dispatcher.store.vault import Vault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Row = tuple[Any, ...]
Question = tuple[str, Sequence[Value]]
"""A statement and its parameters."""


class Reserver(Protocol):
    """Hands out blocks of ids."""

    def reserve(self, tx: "Tx", name: str, count: int) -> int:
        """First of ``count`` ids that nobody else has."""


class Tx:
    """A transaction of the store, from :meth:`Store.read` or :meth:`Store.write`.

    Statements follow the rules of :mod:`dispatcher.store.sql`. A transaction belongs
    to the thread that opened it, and ends with its ``with`` block.

    Attributes
    ----------
    dialect : str
        ``sqlite`` or ``postgresql``.
    vault : Vault
        Seals and opens values.
    grown : list of Piece or None
        Lines of the ledger that this transaction appended; None where no journal
        wants them.
    ticket : int or None
        Of its commit in the journal.
    lasting : dict
        What this process knows of the store that no transaction changes any more.
    made : dict of int to AESGCM
        Data keys that this transaction made. Only it knows them: were it rolled back,
        another process might give their ids to other keys.
    """

    __slots__ = (
        "_backend",
        "_bulk",
        "_busy",
        "_connection",
        "_cursor",
        "_errors",
        "_failed",
        "_ids",
        "_streams",
        "dialect",
        "grown",
        "lasting",
        "made",
        "ticket",
        "vault",
    )

    def __init__(
        self,
        backend: Backend,
        connection: Any,  # noqa: ANN401
        ids: Reserver,
        vault: Vault,
        lasting: dict[str, Any],
    ) -> None:
        self.dialect = backend.name
        self._backend = backend
        self._connection = connection
        self._cursor = backend.cursor(connection)
        self._errors = (backend.driver.Error, OverflowError, UnicodeEncodeError)
        self._bulk = BulkWriter(backend, self._cursor, self._watch)
        self._busy = self._failed = False
        self._streams: list[Any] = []
        self._ids = ids
        self.vault = vault
        self.lasting = lasting
        self.grown: list[Piece] | None = None
        self.ticket: int | None = None
        self.made: dict[int, AESGCM] = {}

    def execute(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        """Run a statement; return how many rows it touched."""
        self._run(statement, parameters)
        return int(self._cursor.rowcount)

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query (or of a RETURNING clause)."""
        self._run(statement, parameters)
        try:
            return self._cursor.fetchall()  # type: ignore[no-any-return]
        except self._errors as error:
            raise self._fault(error) from None

    def one(self, statement: str, parameters: Sequence[Value] = ()) -> Row | None:
        """First row of a query, or None."""
        self._run(statement, parameters)
        try:
            return self._cursor.fetchone()  # type: ignore[no-any-return]
        except self._errors as error:
            raise self._fault(error) from None

    def value(self, statement: str, parameters: Sequence[Value] = ()) -> Any:  # noqa: ANN401
        """First column of the first row, or None."""
        row = self.one(statement, parameters)
        return None if row is None else row[0]

    def answers(self, questions: Sequence[Question]) -> list[list[Row]]:
        """All rows of several queries, run in order, for one journey to the server.

        Each sees what was committed when it began, so a query after one that waited
        for a lock sees what the lock's last holder wrote.
        """
        if self._backend.one_writer:
            return [self.rows(*question) for question in questions]
        self._check_free()
        cursors = []
        with self.journey():
            for statement, parameters in questions:
                cursors.append(cursor := self._backend.cursor(self._connection))
                cursor.execute(*self._backend.statement(statement, parameters))
            return [cursor.fetchall() for cursor in cursors]

    def numbers(self, columns: tuple[str, ...], asked: Sequence[Question]) -> Ints:
        """Rows of queries of the same columns, shape (rows, columns), for one journey.

        No object is made of any of their numbers where the database can pack them.

        Parameters
        ----------
        columns : tuple of str
            Integers, none of them NULL.
        asked : Sequence of (str, Sequence)
            All that follows the columns, from ``FROM`` on, and its parameters. In
            their order.
        """
        width = len(columns)
        if self._backend.one_writer:
            told = ", ".join(columns)
            queries = ((f"SELECT {told} {source}", given) for source, given in asked)
            tables = [packed.table(self.stream(*query), width) for query in queries]
        else:
            found = self.answers(
                [(_packing(columns, source), given) for source, given in asked]
            )
            tables = [packed.unpacked(rows[0][0], width) for rows in found]
        return packed.joined(tables, width)

    @contextmanager
    def journey(self) -> Iterator[None]:
        """Let the statements of the block go to the server together.

        For writes that nothing in the block asks after: how many rows they touched is
        not known, and the error of any of them may come at the end only.
        """
        try:
            with self._backend.journey(self._connection):
                yield
        except self._errors as error:
            raise self._fault(error) from None

    def stream(self, statement: str, parameters: Sequence[Value] = ()) -> Iterator[Row]:
        """Rows of a query of any size, in constant memory.

        Other statements may run in between, but none that changes what is read.
        """
        text, parameters = self._backend.statement(statement, parameters)
        self._check_free()
        cursor = self._backend.streaming_cursor(self._connection)
        self._streams.append(cursor)
        try:
            cursor.execute(text, parameters)
            for row in cursor:
                if self._busy:  # a call here would be dear: it is once a row
                    self._check_free()
                yield row
        except self._errors as error:
            raise self._fault(error) from None
        finally:
            if not self._busy:  # else close() will, when the connection is free
                cursor.close()

    def insert_many(self, table: str, columns: Sequence[str], rows: Rows) -> int:
        """Insert rows in bulk; see :meth:`BulkWriter.insert_many`."""
        return self._bulk.insert_many(table, columns, rows)

    def insert_blocks(
        self, table: str, columns: Sequence[str], blocks: Iterable[Block]
    ) -> int:
        """Insert rows that come as columns; see :meth:`BulkWriter.insert_blocks`."""
        return self._bulk.insert_blocks(table, columns, blocks)

    def insert_new(
        self,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        rows: Rows,
    ) -> int:
        """Insert the rows that are not there; see :meth:`BulkWriter.insert_new`."""
        return self._bulk.insert_new(table, keys, columns, rows)

    def upsert_many(
        self,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        rows: Rows,
    ) -> int:
        """Insert or overwrite rows; see :meth:`BulkWriter.upsert_many`."""
        return self._bulk.upsert_many(table, keys, columns, rows)

    def upsert_add(
        self,
        table: str,
        keys: Sequence[str],
        add: str,
        rows: Rows,
    ) -> int:
        """Add to a counter of each key; see :meth:`BulkWriter.upsert_add`."""
        return self._bulk.upsert_add(table, keys, add, rows)

    def update_many(
        self,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        rows: Rows,
    ) -> int:
        """Change rows by key; see :meth:`BulkWriter.update_many`."""
        return self._bulk.update_many(table, keys, columns, rows)

    def reserve(self, name: str, count: int = 1) -> int:
        """Reserve ``count`` consecutive ids of a table; return the first.

        Ids start at 1. Blocks of aborted transactions leave gaps.
        """
        return self._ids.reserve(self, name, count)

    def finish(self) -> None:
        """End the statements, before the commit.

        Raises
        ------
        RuntimeError
            One of them failed and the error was caught inside the transaction.
            PostgreSQL would roll back without a word, SQLite would keep the rest.
        """
        self.close()
        if self._failed:
            message = "a statement failed: let its error end the transaction"
            raise RuntimeError(message)

    def close(self) -> None:
        """Take no more statements.

        A stream that nobody read to its end would otherwise be closed at any time, in
        the midst of the connection's next transaction.
        """
        for cursor in (*self._streams, self._cursor):
            cursor.close()

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """Guard a bulk write: no statement beside it, and its errors translated."""
        self._check_free()
        self._busy = True
        try:
            yield
        except self._errors as error:
            raise self._fault(error) from None
        except BaseException:
            self._failed = True
            raise
        finally:
            self._busy = False

    def _check_free(self) -> None:
        if self._busy:
            message = "a statement while rows are written: look things up before"
            raise RuntimeError(message)

    def _run(self, statement: str, parameters: Sequence[Value]) -> None:
        if self._busy:
            self._check_free()
        text, parameters = self._backend.statement(statement, parameters)
        try:
            self._cursor.execute(text, parameters)
        except self._errors as error:
            raise self._fault(error) from None

    def _fault(self, error: Exception) -> Exception:
        self._failed = True
        return self._backend.fault(error) or error


@lru_cache(maxsize=64)
def _packing(columns: tuple[str, ...], source: str) -> str:
    """Query of PostgreSQL that puts all rows into one string of bytes."""
    named = ", ".join(f"CAST({c} AS BIGINT) AS n{i}" for i, c in enumerate(columns))
    sent = " || ".join(f"int8send(n{i})" for i in range(len(columns)))
    return f"SELECT string_agg({sent}, '') FROM (SELECT {named} {source}) q"
