"""PostgreSQL through psycopg 3: the address, the session, the connection."""

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, create_engine

from dispatcher.core.errors import (
    DispatcherError,
    Invalid,
    StoreUnreachable,
    StoreUnusable,
    Usage,
)
from dispatcher.store.backend import OPTIONS
from dispatcher.store.driver_errors import (
    no_database,
    not_kept,
    outcome_unknown,
    postgres_fault,
    unreachable,
)

SCHEMES: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")
ASK_MS: Final = 100
"""Milliseconds between two questions how a commit ended."""

_PATIENCE: Final[Mapping[str, Any]] = {
    "application_name": "dispatcher",
    "connect_timeout": 10,
    # A server that vanished without a word is noticed in some seconds, not in hours.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 12_000,
}

_NUMBER: Final = "transaction"
"""What a pooled connection knows its transaction's number by."""

_BEGIN: Final = {
    # One journey: the number by which the outcome of a commit can be asked for later.
    True: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    " SELECT pg_current_xact_id()::text",
    False: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


def _psycopg() -> Any:  # noqa: ANN401
    try:
        import psycopg  # noqa: PLC0415
    except ImportError:
        raise StoreUnusable(
            "PostgreSQL's driver is not installed",
            why="It comes as an extra.",
            fix="Run: pip install 'sparsi-dispatcher[postgres]'",
        ) from None
    return psycopg


def connection_facts(url: str, *, password_allowed: bool) -> dict[str, Any]:
    """Parts of a store's URL, checked.

    Parameters
    ----------
    url : str
        ``postgresql://USER@HOST:PORT/DATABASE?option=value``.
    password_allowed : bool
        Whether the URL came from a private file rather than from a command line,
        where every user of the machine could read it.

    Raises
    ------
    Usage
        The URL has a password, and may not.
    Invalid
        The URL is malformed, or names no database.
    """
    psycopg = _psycopg()
    plain = "postgresql://" + url.partition("://")[2]
    try:
        facts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(plain)
    except psycopg.ProgrammingError:
        raise Invalid(
            "the store's URL is malformed",
            why="It is not of the form postgresql://USER@HOST:PORT/DATABASE.",
            fix="Check it; characters like @ and / in a part are percent-encoded.",
        ) from None
    if facts.get("password") and not password_allowed:
        raise Usage(
            "the store's URL has a password in it",
            why="Other users of this machine see command lines; shells keep them.",
            fix="Put the password in ~/.pgpass (PGPASSFILE), or the whole URL in a"
            " file named by DISPATCHER_STORE_FILE.",
        )
    if not facts.get("dbname"):
        raise Invalid(
            "the store's URL names no database",
            why="PostgreSQL would take the user's name for it.",
            fix="Name it: postgresql://USER@HOST:PORT/DATABASE",
        )
    return facts


class PostgresBackend:
    """How a :class:`~dispatcher.store.engine.Store` speaks to PostgreSQL."""

    name = "postgresql"
    one_writer = False
    path: Path | None = None

    def __init__(self, url: str, *, wait_ms: int, password_allowed: bool) -> None:
        self.driver = _psycopg()
        self._facts = connection_facts(url, password_allowed=password_allowed)
        shown = {k: v for k, v in self._facts.items() if k in {"host", "port", "user"}}
        self.place = " ".join(
            [f"postgresql {self._facts['dbname']}"]
            + [f"{key}={value}" for key, value in sorted(shown.items())]
        )
        self._wait_ms = wait_ms
        self._names = itertools.count()
        from dispatcher.store import driver_adapters  # noqa: PLC0415 - an extra

        self._adapters = driver_adapters.adapted()

    def engine(self, *, writes: bool) -> Engine:
        """Make an engine whose transactions read one snapshot, or write."""
        return create_engine(
            "postgresql+store://",
            creator=partial(self.connect, writes=writes),
            begin=partial(self._begin, writes=writes),
            commit=self._commit,
            paramstyle="format",
            use_native_hstore=False,
            pool_timeout=self._wait_ms / 1000,
            **OPTIONS,
        )

    def connect(self, *, writes: bool) -> Any:  # noqa: ANN401, ARG002
        """Open a connection in autocommit mode: transactions are begun by hand.

        Raises
        ------
        StoreUnreachable
            The server does not answer or refuses the user.
        StoreUnusable
            The database is not in UTF-8.
        """
        facts = {**_PATIENCE, **self._facts}
        try:
            connection = self.driver.connect(
                **facts,
                client_encoding="utf8",
                autocommit=True,
                prepare_threshold=2,
                context=self._adapters,
            )
        except self.driver.OperationalError as error:
            raise self._refusal(error) from None
        try:
            # What an exposure's commit promises must not hang on a server's defaults.
            row = connection.execute(
                "SELECT set_config('lock_timeout', %s, false),"
                " set_config('synchronous_commit', CASE"
                "   WHEN current_setting('synchronous_commit') = 'off' THEN 'on'"
                "   ELSE current_setting('synchronous_commit') END, false),"
                " current_setting('server_encoding')",
                [f"{self._wait_ms}ms"],
            ).fetchone()
        except BaseException:
            connection.close()
            raise
        if row[2] != "UTF8":
            connection.close()
            raise StoreUnusable(
                "the PostgreSQL database is not in UTF-8",
                why=f"Its encoding is {row[2]}; some texts could not be stored.",
                fix="Make one with: createdb --encoding=UTF8 --template=template0 NAME",
            )
        return connection

    def _refusal(self, error: Exception) -> DispatcherError:
        """Error for a connection that was not made.

        The server's code does not reach us then, only its words (no password in them).
        """
        words = (str(error).strip().splitlines() or ["It gave no reason"])[0]
        if "database" in words and "does not exist" in words:
            return no_database()
        return unreachable(f"{words[:200]}.")

    def _begin(self, pooled: Any, *, writes: bool) -> None:  # noqa: ANN401
        """Start a transaction: writers take row locks, readers see one snapshot."""
        pooled.info.pop(_NUMBER, None)
        begun = pooled.driver_connection.execute(_BEGIN[writes], prepare=False)
        if writes:
            begun.nextset()
            pooled.info[_NUMBER] = begun.fetchone()[0]

    def _commit(self, pooled: Any) -> None:  # noqa: ANN401
        """Commit; if the connection breaks in it, ask the server how it ended.

        Raises
        ------
        NotKept
            The server says that it was rolled back.
        StoreUnreachable
            It could not be asked: whether it was kept is unknown.
        """
        connection, number = pooled.driver_connection, pooled.info.pop(_NUMBER, None)
        try:
            connection.execute("COMMIT", prepare=False)
        except self.driver.Error:
            if not connection.closed or number is None:
                raise  # the server said no, or there was nothing to be kept
            kept = self._outcome(number)
            if kept is None:
                raise outcome_unknown() from None
            if not kept:
                raise not_kept() from None

    def _outcome(self, number: str) -> bool | None:
        """Whether a transaction was committed; None if that stays unknown for long.

        Right after the break the old session may still be at it, and the server may be
        starting again: it is asked for as long as one waits for a lock.
        """
        for _ in range(max(1, round(self._wait_ms / ASK_MS))):
            try:
                asked = self.connect(writes=False)
            except StoreUnreachable:
                asked = None
            if asked is not None:
                with suppress(self.driver.OperationalError), closing(asked):
                    said = asked.execute(
                        "SELECT pg_xact_status(%s::xid8)", [number]
                    ).fetchone()[0]
                    if said != "in progress":
                        return None if said is None else bool(said == "committed")
            threading.Event().wait(ASK_MS / 1000)
        return None

    def usable(self, connection: Any) -> bool:  # noqa: ANN401
        """Whether the connection may go back to the pool."""
        idle = self.driver.pq.TransactionStatus.IDLE
        return not connection.closed and connection.info.transaction_status == idle

    def cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor for statements, with values in binary."""
        return connection.cursor(binary=True)

    def streaming_cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor whose rows stay on the server until they are read."""
        cursor = connection.cursor(name=f"stream_{next(self._names)}", binary=True)
        cursor.itersize = 10_000
        return cursor

    @contextmanager
    def journey(self, connection: Any) -> Iterator[None]:  # noqa: ANN401
        """Send statements without waiting for each one's answer (pipeline mode)."""
        pipeline = connection.pipeline()
        pipeline.__enter__()
        try:
            yield
        except BaseException:
            # The first error is the one to report; the driver would log the others, and
            # the server's words can hold values.
            with suppress(self.driver.Error):
                pipeline.__exit__(None, None, None)
            raise
        pipeline.__exit__(None, None, None)

    def fault(self, error: Exception) -> DispatcherError | None:
        """Error for the user, or None for a mistake of this program."""
        return postgres_fault(error)
