"""Whose turn it is to write: threads get it in the order in which they asked."""

from __future__ import annotations

import threading
from collections import deque


class Turn:
    """A lock that is handed to whoever waits longest.

    A plain lock goes to anybody: a thread that books piece after piece would take it
    again before a waiting one has woken up, and a worker's page would wait in vain.
    """

    def __init__(self) -> None:
        self._inside = threading.Lock()  # held for moments only
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for the turn for so many seconds at most; False if it did not come."""
        with self._inside:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=timeout):
            return True
        with self._inside:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
        return True  # it came at the last moment

    def release(self) -> None:
        """Give the turn to the next; nobody else can come between."""
        with self._inside:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
