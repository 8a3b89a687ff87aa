"""The common interface of the two databases for a :class:`Store`."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import Engine, QueuePool

from dispatcher.core.errors import DispatcherError

CACHE_MIB: Final = 256
"""Memory for the page caches of a process on SQLite, unless the settings say another."""

KEPT: Final = 8
"""Idle connections that stay open, of readers and of writers."""

MOST: Final = 64
"""Connections at once, of readers and of writers: more than a daemon has threads."""

OPTIONS: Final[Mapping[str, Any]] = {
    # Last in, first out, so that what is not needed falls out of use.
    "poolclass": QueuePool,
    "pool_size": KEPT,
    "max_overflow": MOST - KEPT,
    "pool_use_lifo": True,
    "pool_reset_on_return": None,  # a transaction is ended before that, see Store
    "hide_parameters": True,  # errors contain no values
    "execution_options": {"preserve_rowcount": True},  # of an INSERT too
}
"""Common arguments of all engines."""


class Backend(Protocol):
    """One database: its driver, its connections, its SQL.

    ``one_writer`` says that writers exclude each other in the whole store. Connections
    are in autocommit mode: transactions are begun and ended by statements.
    """

    name: str
    place: str
    path: Path | None
    one_writer: bool
    driver: Any

    def engine(self, *, writes: bool) -> Engine:
        """Make an engine whose transactions read one snapshot, or write."""

    def connect(self, *, writes: bool) -> Any:  # noqa: ANN401
        """Open a connection of the driver's."""

    def usable(self, connection: Any) -> bool:  # noqa: ANN401
        """Whether the connection may serve another transaction."""

    def cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor for statements."""

    def streaming_cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor for more rows than fit in memory."""

    def journey(self, connection: Any) -> AbstractContextManager[None]:  # noqa: ANN401
        """Pipeline statements; their results are available at the end."""

    def fault(self, error: Exception) -> DispatcherError | None:
        """Return the error for the user, or None for a bug of this program."""
