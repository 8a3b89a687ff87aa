"""What the two databases have in common, as a :class:`Store` sees them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from dispatcher.core.errors import DispatcherError
from dispatcher.store.sql import Value


class Backend(Protocol):
    """One database: its driver, its connections, its words.

    ``one_writer`` says that writers exclude each other in the whole store. Connections
    are in autocommit mode: transactions are begun and ended by statements.
    """

    name: str
    place: str
    path: Path | None
    one_writer: bool
    driver: Any

    def connect(self, *, writes: bool) -> Any:  # noqa: ANN401
        """Open a connection."""

    def begin(self, connection: Any, *, writes: bool) -> None:  # noqa: ANN401
        """Start a transaction."""

    def commit(self, connection: Any) -> None:  # noqa: ANN401
        """Commit it; returns only if it was kept, and asks where that is in doubt."""

    def usable(self, connection: Any) -> bool:  # noqa: ANN401
        """Whether the connection may serve another transaction."""

    def cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor for statements."""

    def streaming_cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor for more rows than fit in memory."""

    def journey(self, connection: Any) -> AbstractContextManager[None]:  # noqa: ANN401
        """Let statements go together; what they come to is known at the end."""

    def statement(
        self, statement: str, parameters: Sequence[Value]
    ) -> tuple[str, Sequence[Value]]:
        """Statement and parameters as the driver takes them."""

    def fault(self, error: Exception) -> DispatcherError | None:
        """Error for the user, or None for a mistake of this program."""
