"""Connections that are kept open between two transactions."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any, Final

from dispatcher.store.backend import Backend

IDLE_CONNECTIONS: Final = 8
"""Connections of each kind that are kept open for the next transaction."""


class Pool:
    """Idle connections of one kind, last in first out, of this process only."""

    def __init__(self, backend: Backend, *, writes: bool) -> None:
        self._backend = backend
        self._writes = writes
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._process = os.getpid()

    def begin(self) -> Any:  # noqa: ANN401
        """Return a connection with a transaction begun on it."""
        while (connection := self._take()) is not None:
            try:
                self._backend.begin(connection, writes=self._writes)
            except self._backend.driver.Error:
                if self._backend.usable(connection):
                    self.give(connection)  # alive: the error is about the store
                    raise
                self._discard(connection)  # the server closed it while it was idle
            else:
                return connection
        connection = self._backend.connect(writes=self._writes)
        try:
            self._backend.begin(connection, writes=self._writes)
        except BaseException:
            self._discard(connection)
            raise
        return connection

    def _take(self) -> Any | None:  # noqa: ANN401
        with self._lock:
            if self._process != os.getpid():
                # A child of fork may neither use nor close its parent's connections.
                self._idle, self._process = [], os.getpid()
            return self._idle.pop() if self._idle else None

    def give(self, connection: Any) -> None:  # noqa: ANN401
        """Take a connection back, if it is fit for another transaction."""
        if self._backend.usable(connection):
            with self._lock:
                if len(self._idle) < IDLE_CONNECTIONS:
                    self._idle.append(connection)
                    return
        self._discard(connection)

    def _discard(self, connection: Any) -> None:  # noqa: ANN401
        with suppress(self._backend.driver.Error):
            connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        while (connection := self._take()) is not None:
            self._discard(connection)
