"""Live pages: server-sent events that say when there is something new to fetch.

One look at the store a second serves all open pages of the process; a stream holds
nothing of the work, only that it has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from starlette.concurrency import run_in_threadpool

from dispatcher.core.errors import DispatcherError
from dispatcher.store import Store, statistics
from dispatcher.surfaces.api.events import BEAT, LONGEST, MOST

PERIOD: Final = 1.0
"""Seconds between two looks at the store."""


@dataclass
class Live:
    """Whether the store has moved, found once for all who watch.

    Parameters
    ----------
    store : Store
    period : float
        Seconds between two looks.
    """

    store: Store
    period: float = PERIOD
    _mark: tuple[int, ...] = ()
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _readers: int = 0
    _task: asyncio.Task[None] | None = None

    def is_full(self) -> bool:
        """Whether no further page is served."""
        return self._readers >= MOST

    async def read(self) -> AsyncIterator[str]:
        """Yield ``moved`` whenever the store has, and a comment now and then."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + LONGEST
        self._readers += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look())
            yield "retry: 2000\n\n"
            while loop.time() < ends:
                moved = self._moved
                try:
                    await asyncio.wait_for(moved.wait(), BEAT)
                except TimeoutError:
                    yield ": \n\n"
                else:
                    yield "event: moved\ndata:\n\n"
        finally:
            self._readers -= 1
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _look(self) -> None:
        self._mark = ()
        while True:
            try:
                found = await run_in_threadpool(self._read)
            except DispatcherError:
                found = self._mark  # the store is away: the next look finds it
            if self._mark and found != self._mark:
                self._moved.set()  # wakes all who wait; who comes later waits anew
                self._moved = asyncio.Event()
            self._mark = found
            await asyncio.sleep(self.period)

    def _read(self) -> tuple[int, ...]:
        with self.store.read() as tx:
            return statistics.mark(tx)
