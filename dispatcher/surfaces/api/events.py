"""Server-sent events: what happened, as it happens, for any number of readers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from starlette.concurrency import run_in_threadpool

from dispatcher.core.errors import DispatcherError
from dispatcher.model import Event
from dispatcher.store import Store, events

PERIOD: Final = 1.0
"""Seconds between two looks at the store, one for all readers."""
LOOKED_BACK: Final = 256
"""Lines below the newest that are looked at again: ids are given before a commit."""
PIECE: Final = 500
LONGEST: Final = 100.0
"""Seconds of one stream; the reader comes again with its Last-Event-ID."""
MOST: Final = 2_000
"""Readers at once."""
MOST_OF_ONE: Final = 100
"""How many of them may be of one principal."""
BEAT: Final = 15.0


@dataclass
class Stream:
    """The newest events, read once for all who listen.

    Parameters
    ----------
    store : Store
    period : float
        Seconds between two looks.
    """

    store: Store
    period: float = PERIOD
    _readers: dict[asyncio.Queue[Event], str] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    def is_full(self, reader: str) -> bool:
        """Whether no further stream of a reader is served."""
        readers = self._readers.values()
        own = sum(one == reader for one in readers)
        return len(readers) >= MOST or own >= MOST_OF_ONE

    async def read(self, after: int | None, reader: str) -> AsyncIterator[str]:
        """Yield events behind an id, then those that come.

        Parameters
        ----------
        after : int, optional
            None: only those that come.
        reader : str
            Name of the principal, who may read so many streams at once.
        """
        if self.is_full(reader):  # several who came at once found the last place free
            yield "retry: 30000\n\n"
            return
        queue: asyncio.Queue[Event] = asyncio.Queue(PIECE)
        loop = asyncio.get_running_loop()
        ends = loop.time() + LONGEST
        self._readers[queue] = reader
        try:
            await self._begin()
            yield "retry: 1000\n\n"
            sent: set[int] = set()
            while after is not None:
                found = await run_in_threadpool(self._following, after)
                for one in found:
                    sent.add(one.id)
                    yield _text(one)
                after = found[-1].id if len(found) == PIECE else None
            while (left := ends - loop.time()) > 0:
                try:
                    one = await asyncio.wait_for(queue.get(), min(left, BEAT))
                except TimeoutError:
                    yield ": \n\n"
                    continue
                if one.id not in sent:
                    yield _text(one)
                if queue.empty() and queue not in self._readers:
                    return  # it was too slow: it comes again by Last-Event-ID
        finally:
            self._readers.pop(queue, None)
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _begin(self) -> None:
        if self._task is None or self._task.done():
            last = await run_in_threadpool(self._last)
            near = await run_in_threadpool(self._following, last - LOOKED_BACK)
            self._seen = {one.id for one in near}
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look(last))

    async def _look(self, last: int) -> None:
        while True:
            await asyncio.sleep(self.period)
            try:
                found = await run_in_threadpool(self._following, last - LOOKED_BACK)
            except DispatcherError:
                continue  # the store is away: the next look finds all
            for one in found:
                if one.id in self._seen:
                    continue
                for queue in list(self._readers):
                    if queue.full():
                        self._readers.pop(queue, None)
                    else:
                        queue.put_nowait(one)
            last = max((one.id for one in found), default=last)
            self._seen = {one.id for one in found if one.id > last - LOOKED_BACK}

    def _following(self, after: int) -> list[Event]:
        with self.store.read() as tx:
            return events.following(tx, after, PIECE)

    def _last(self) -> int:
        with self.store.read() as tx:
            return events.last(tx)


def _text(event: Event) -> str:
    """One event: what and when; who asks for more reads the audit log."""
    at = datetime.fromtimestamp(event.at / 1e6, UTC).isoformat()
    data = json.dumps({"id": event.id, "at": at, "action": event.action})
    return f"id: {event.id}\nevent: {event.action}\ndata: {data}\n\n"
