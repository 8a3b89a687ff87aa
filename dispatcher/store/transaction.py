"""One transaction: statements, look-ups, streams, bulk writes, ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Protocol,
    TypeVar,
    TypeVarTuple,
    overload,
)

import sqlalchemy
from sqlalchemy import (
    Connection,
    CursorResult,
    Executable,
    MetaData,
)
from sqlalchemy.exc import StatementError
from sqlalchemy.sql.selectable import TypedReturnsRows
from sqlmodel import SQLModel
from sqlmodel.sql.expression import SelectOfScalar

from dispatcher.store import column_blocks
from dispatcher.store.backend import Backend
from dispatcher.store.bulk import BulkWriter, Rows
from dispatcher.store.column_blocks import Block, Ints
from dispatcher.store.statements import DriverStatement, Parameters, locks_rows
from dispatcher.store.vault import Vault

# -- what a transaction hands on of the ledger's lines, so that they are kept twice ----
# The store knows only this: lines that a transaction appended are handed to a journal
# after its commit and before :meth:`Store.write` returns. Whoever was given a journal's
# word that all is settled may let bytes leave.


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive lines of one chain, as they stand in evidence.

    ``text`` holds them whole, each with its LF; it is empty where the store has to be
    asked, since evidence keeps what the line is about in another file.
    """

    chain: str
    chain_id: int
    first: int
    prev: str
    last: int
    head: str
    text: bytes


class Journal(Protocol):
    """Keeps the ledger's lines outside of the store."""

    def ready(self) -> None:
        """Say that lines can be kept, before they are committed.

        Raises
        ------
        NotShipped, LedgerAhead, LedgerBroken, LedgerForeign
            They cannot: the transaction must not commit.
        """

    def begin(self, tx: Tx) -> int:
        """Announce the commit of a transaction with lines; return its ticket."""

    def ship(self, ticket: int, pieces: Sequence[Piece]) -> None:
        """Keep the lines of a commit; they are durable when this returns.

        Without any line as much is written and waited for as with one.

        Raises
        ------
        NotShipped
            They are in the store only: nothing of them may be shown yet.
        """

    def lose(self, ticket: int) -> None:
        """Note that a commit failed, or that nobody knows whether it did."""

    def works(self) -> bool:
        """Whether lines can be kept, by what is known without trying."""

    def settle(
        self, tx: Tx | None = None, chain: int | None = None, *, afresh: bool = False
    ) -> None:
        """Wait until every line committed by now is kept.

        Parameters
        ----------
        tx : Tx, optional
            In which what is to be shown was read: lines that it cannot see yet are not
            waited for.
        chain : int, optional
            Of the adversary who is to be shown something; None: of all.
        afresh : bool
            Compare with the whole store, as whoever begins to lead must: another process
            may have died between its commit and its lines.

        Raises
        ------
        NotShipped, LedgerAhead, LedgerBroken, LedgerForeign
        """

    def ship_waiting(self, epoch: int) -> int:
        """Ship what servers beside the leader wait for; return how many rows they were.

        Raises
        ------
        StaleLease
            ``epoch`` is not that of the daemon that leads.
        NotShipped, LedgerAhead, LedgerBroken, LedgerForeign
        """


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Row = tuple[Any, ...]
Ts = TypeVarTuple("Ts")
T = TypeVar("T")
M = TypeVar("M", bound=SQLModel)
Question = tuple[DriverStatement, Parameters]
"""A statement and its parameters."""

NOTHING: Final[Parameters] = {}
_STREAMING: Final = {"yield_per": 10_000}
_NO_QUERY: Final = "a query inside a journey would find nothing, or end it"
_NO_LOCK: Final = "a read transaction locks no rows: PostgreSQL would refuse it"


class Reserver(Protocol):
    """Hands out blocks of ids."""

    def reserve(self, tx: Tx, name: str, count: int) -> int:
        """First of ``count`` ids that nobody else has."""


class Tx:
    """A transaction of the store, from :meth:`Store.read` or :meth:`Store.write`.

    Statements are SQLAlchemy's constructs over the models; :mod:`.statements` has what
    they lack. Those that the driver gets bare are named ``driver_*``, and only what
    docs/decisions/0011 lists uses them. A transaction belongs to the thread that opened
    it, and ends with its ``with`` block.

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
    reads : bool
        Whether it only reads: then no statement may lock rows, on SQLite neither, which
        locks none.
    waits : bool
        Whether its commit waits for the journal though it appended no line, so that its
        time does not tell that it appended none.
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
        "_dialect",
        "_driver",
        "_errors",
        "_failed",
        "_ids",
        "_streams",
        "_writing",
        "dialect",
        "grown",
        "lasting",
        "made",
        "reads",
        "ticket",
        "vault",
        "waits",
    )

    def __init__(
        self,
        backend: Backend,
        connection: Connection,
        ids: Reserver,
        vault: Vault,
        lasting: dict[str, Any],
    ) -> None:
        self.dialect = backend.name
        self._backend = backend
        self._connection = connection
        self._dialect = connection.dialect
        self._driver = connection.connection.driver_connection
        self._cursor = backend.cursor(self._driver)
        self._errors = (
            backend.driver.Error,
            StatementError,
            OverflowError,
            UnicodeEncodeError,
        )
        self._bulk = BulkWriter(backend, self._dialect, self._cursor, self._watch)
        self._busy = self._failed = self._writing = False
        self._streams: list[Any] = []
        self._ids = ids
        self.vault = vault
        self.lasting = lasting
        self.grown: list[Piece] | None = None
        self.ticket: int | None = None
        self.reads = False
        self.waits = False
        self.made: dict[int, AESGCM] = {}

    # -- SQLAlchemy's statements -------------------------------------------------------

    @overload
    def execute(  # type: ignore[overload-overlap]
        self, statement: TypedReturnsRows[*Ts], parameters: Parameters = ...
    ) -> CursorResult[*Ts]: ...
    @overload
    def execute(
        self, statement: Executable, parameters: Parameters = ...
    ) -> CursorResult[Any]: ...
    def execute(self, statement: Executable, parameters: Parameters = NOTHING) -> Any:
        """Run a statement.

        Parameters
        ----------
        statement : Executable
            A module's constant with a ``bindparam`` for each value that changes: to
            build one costs five times what it costs to run it.
        parameters : mapping
            Values of those parameters.

        Returns
        -------
        CursorResult
            Its rows are named tuples; ``rowcount`` says how many rows a change touched.
        """
        if self._busy:
            self._check_free()
        if self._writing and statement.is_select:
            raise AssertionError(_NO_QUERY)
        if self.reads and locks_rows(statement):
            raise AssertionError(_NO_LOCK)
        try:
            return self._connection.execute(statement, parameters or None)
        except self._errors as error:
            raise self._fault(error) from None

    @overload
    def scalar(
        self, statement: TypedReturnsRows[T], parameters: Parameters = ...
    ) -> T | None: ...
    @overload
    def scalar(self, statement: Executable, parameters: Parameters = ...) -> Any: ...  # noqa: ANN401
    def scalar(self, statement: Executable, parameters: Parameters = NOTHING) -> Any:
        """First column of the first row, or None."""
        return self.execute(statement, parameters).scalar()

    @overload
    def scalars(
        self, statement: TypedReturnsRows[T], parameters: Parameters = ...
    ) -> list[T]: ...
    @overload
    def scalars(
        self, statement: Executable, parameters: Parameters = ...
    ) -> list[Any]: ...
    def scalars(
        self, statement: Executable, parameters: Parameters = NOTHING
    ) -> list[Any]:
        """First column of all rows."""
        return list(self.execute(statement, parameters).scalars())

    def models(
        self, statement: SelectOfScalar[M], parameters: Parameters = NOTHING
    ) -> list[M]:
        """Rows of ``select(Model)`` as objects of the model.

        An object costs ten times a row, and to change it changes nothing in the store:
        select columns where rows come by the thousand.
        """
        model = _model_of(statement)
        rows = self.execute(statement, parameters).mappings()
        return [model.model_construct(**row) for row in rows]

    def model(
        self, statement: SelectOfScalar[M], parameters: Parameters = NOTHING
    ) -> M | None:
        """First row of ``select(Model)`` as an object of the model, or None."""
        row = self.execute(statement, parameters).mappings().first()
        return None if row is None else _model_of(statement).model_construct(**row)

    @overload
    def stream(
        self, statement: TypedReturnsRows[*Ts], parameters: Parameters = ...
    ) -> Iterator[sqlalchemy.Row[*Ts]]: ...
    @overload
    def stream(
        self, statement: Executable, parameters: Parameters = ...
    ) -> Iterator[Any]: ...
    def stream(
        self, statement: Executable, parameters: Parameters = NOTHING
    ) -> Iterator[Any]:
        """Rows of a query of any size, in constant memory.

        Other statements may run in between, but none that changes what is read.
        """
        self._check_free()
        if self._writing:
            raise AssertionError(_NO_QUERY)
        if self.reads and locks_rows(statement):
            raise AssertionError(_NO_LOCK)
        try:
            result = self._connection.execute(
                statement, parameters or None, execution_options=_STREAMING
            )
        except self._errors as error:
            raise self._fault(error) from None
        self._streams.append(result)
        yield from self._guarded(result)

    def _guarded(self, rows: Any) -> Iterator[Any]:  # noqa: ANN401
        try:
            for row in rows:
                if self._busy:  # a call here would be dear: it is once a row
                    self._check_free()
                yield row
        except self._errors as error:
            raise self._fault(error) from None
        finally:
            if not self._busy:  # else close() will, when the connection is free
                rows.close()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Keep all that the block writes or, where an error leaves it, nothing of it.

        The journal is not sent lines that are taken back.
        """
        before = len(self.grown or ())
        try:
            with self._connection.begin_nested():
                yield
        except BaseException:
            del (self.grown or [])[before:]
            raise

    def reflected(self) -> MetaData:
        """Tables that the database has, whatever the model says."""
        found = MetaData()
        found.reflect(self._connection)
        return found

    # -- the driver's statements: only for what decision 0011 names --------------------

    def driver_execute(
        self, statement: DriverStatement, parameters: Parameters = NOTHING
    ) -> int:
        """Run a statement; return how many rows it touched."""
        self._run(statement, parameters)
        return int(self._cursor.rowcount)

    def driver_rows(
        self, statement: DriverStatement, parameters: Parameters = NOTHING
    ) -> list[Row]:
        """All rows of a query (or of a RETURNING clause)."""
        self._ask(statement, parameters)
        try:
            return self._cursor.fetchall()  # type: ignore[no-any-return]
        except self._errors as error:
            raise self._fault(error) from None

    def driver_one(
        self, statement: DriverStatement, parameters: Parameters = NOTHING
    ) -> Row | None:
        """First row of a query, or None."""
        self._ask(statement, parameters)
        try:
            return self._cursor.fetchone()  # type: ignore[no-any-return]
        except self._errors as error:
            raise self._fault(error) from None

    def driver_value(
        self, statement: DriverStatement, parameters: Parameters = NOTHING
    ) -> Any:  # noqa: ANN401
        """First column of the first row, or None."""
        row = self.driver_one(statement, parameters)
        return None if row is None else row[0]

    def driver_stream(
        self, statement: DriverStatement, parameters: Parameters = NOTHING
    ) -> Iterator[Row]:
        """Rows of a query of any size; see :meth:`stream`."""
        text, values = statement.for_driver(self._dialect, parameters)
        self._check_free()
        self._check_no_journey(statement)
        if self.reads and statement.locks:
            raise AssertionError(_NO_LOCK)
        cursor = self._backend.streaming_cursor(self._driver)
        self._streams.append(cursor)
        try:
            cursor.execute(text, values)
        except self._errors as error:
            raise self._fault(error) from None
        yield from self._guarded(cursor)

    def driver_answers(self, questions: Sequence[Question]) -> list[list[Row]]:
        """All rows of several queries, run in order, for one journey to the server.

        Each sees what was committed when it began, so a query after one that waited
        for a lock sees what the lock's last holder wrote.
        """
        if self._backend.one_writer:
            return [self.driver_rows(*question) for question in questions]
        self._check_free()
        for statement, _ in questions:
            self._check_no_journey(statement)
        cursors = []
        with self.journey():
            for statement, parameters in questions:
                cursors.append(cursor := self._backend.cursor(self._driver))
                cursor.execute(*statement.for_driver(self._dialect, parameters))
            return [cursor.fetchall() for cursor in cursors]

    def driver_numbers(
        self, width: int, asked: Sequence[tuple[DriverStatement, Parameters]]
    ) -> Ints:
        """Rows of queries of the same columns, shape (rows, columns), for one journey.

        No object is made of any of their numbers where the database can pack them.

        Parameters
        ----------
        width : int
            Number of columns: integers, none of them NULL.
        asked : Sequence of (DriverStatement, mapping)
            The queries and their parameters, in order.
        """
        if self._backend.one_writer:
            tables = [self._table(width, *one) for one in asked]
        else:
            found = self.driver_answers([(s.packed(), given) for s, given in asked])
            tables = [column_blocks.unpacked(rows[0][0], width) for rows in found]
        return column_blocks.joined(tables, width)

    def _table(
        self, width: int, statement: DriverStatement, parameters: Parameters
    ) -> Ints:
        """Rows of one query, from the driver into an array without a stop here."""
        self._ask(statement, parameters)
        try:
            return column_blocks.table(self._cursor, width)
        except self._errors as error:
            raise self._fault(error) from None

    @contextmanager
    def journey(self) -> Iterator[None]:
        """Let the statements of the block go to the server together.

        For writes that nothing in the block asks after: how many rows they touched is
        not known, and the error of any of them may come at the end only.
        """
        outer, self._writing = self._writing, True
        try:
            with self._backend.journey(self._driver):
                yield
        except self._errors as error:
            raise self._fault(error) from None
        finally:
            self._writing = outer

    # -- bulk writes ---------------------------------------------------------------------

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

    def _run(self, statement: DriverStatement, parameters: Parameters) -> None:
        if self._busy:
            self._check_free()
        if self.reads and statement.locks:
            raise AssertionError(_NO_LOCK)
        text, values = statement.for_driver(self._dialect, parameters)
        try:
            self._cursor.execute(text, values)
        except self._errors as error:
            raise self._fault(error) from None

    def _ask(self, statement: DriverStatement, parameters: Parameters) -> None:
        if self._writing:
            self._check_no_journey(statement)
        self._run(statement, parameters)

    def _check_no_journey(self, statement: DriverStatement) -> None:
        # SQLite makes no journeys, and reserves ids by what a change returns.
        if self._writing and (statement.is_query or not self._backend.one_writer):
            raise AssertionError(_NO_QUERY)

    def _fault(self, error: Exception) -> Exception:
        self._failed = True
        return translated(self._backend, error)


def translated(backend: Backend, error: Exception) -> Exception:
    """Error that a user may see for one of SQLAlchemy's or of the driver's."""
    original = error.orig if isinstance(error, StatementError) else error
    fault = backend.fault(original) if isinstance(original, Exception) else None
    return fault or error


@lru_cache(maxsize=256)
def _model_of(statement: SelectOfScalar[M]) -> type[M]:
    """Model that a ``select(Model)`` selects."""
    model: type[M] = statement.column_descriptions[0]["type"]
    return model
