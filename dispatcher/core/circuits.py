"""Which connectors may be called now: each fails, rests and is slow for itself alone.

A connector that failed rests, longer after each failure in a row (a circuit breaker);
one that works is called no more often than its manifest allows (a token bucket); one
that is slow keeps its own turn, and no other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from connectors.base import TryLater
from dispatcher.core.rate_limit import Rate, RateLimiter

MICRO: Final = 1_000_000
LONGEST: Final = 1800 * MICRO
"""A failed connector is tried again after half an hour at the latest."""

FAULTS: Final = 3
"""Failures of unknown kind in a row after which a connector rests; one may be a task's."""

REST: Final = 60 * MICRO
HURRY: Final = 5.0
"""Seconds that a turn waits for a connector; then it goes on without it."""


def pause_of(error: TryLater) -> int:
    """Microseconds that a connector asks for: a day at the most."""
    return round(min(error.after, 86_400.0) * MICRO)


class Circuits:
    """Rests and paces of connectors; each connector is used by one thread at a time.

    Parameters
    ----------
    per_minute : Mapping
        Connector -> most calls in a minute; None: as many as there are.
    clock : callable
        () -> microseconds.
    """

    def __init__(
        self, per_minute: Mapping[str, int | None], clock: Callable[[], int]
    ) -> None:
        self._limits = {
            name: RateLimiter(Rate(limit, limit))
            for name, limit in per_minute.items()
            if limit is not None
        }
        self._clock = clock
        self._until: dict[str, int] = {}
        self._failures: dict[str, int] = {}

    @property
    def resting(self) -> Mapping[str, int]:
        """Connectors that rest, by the moment (microseconds) until which they do."""
        now = self._clock()
        return {name: until for name, until in self._until.items() if until > now}

    def rests(self, name: str) -> bool:
        """Whether it is not to be called now."""
        return self._until.get(name, 0) > self._clock()

    def worked(self, name: str) -> None:
        """Note that it answered as it should: the next failure is a first one."""
        self._failures.pop(name, None)

    def rest(self, name: str, pause: int) -> None:
        """Let it rest for so many microseconds, whatever it did before."""
        self._until[name] = self._clock() + pause

    def failed(self, name: str, pause: int = REST, *, after: int = 1) -> bool:
        """Note a failure; from number `after` in a row on it rests, twice as long each.

        Returns
        -------
        bool
            Whether it rests now.
        """
        count = self._failures.get(name, 0) + 1
        self._failures[name] = count
        if count < after:
            return False
        doubled = pause << min(count - after, 20)
        self.rest(name, min(doubled, max(pause, LONGEST)))
        return True

    def room(self, name: str, most: int) -> int:
        """How many calls its pace allows now, at most so many."""
        limit = self._limits.get(name)
        return (
            most if limit is None else min(most, limit.available(name, self._clock()))
        )

    def spend(self, name: str, calls: int) -> None:
        """Count calls against the pace."""
        if name in self._limits:
            self._limits[name].spend(name, calls, self._clock())


class Turns:
    """Work for several connectors side by side, one turn of each at a time.

    Parameters
    ----------
    hurry : float
        Seconds that :meth:`take` waits for the slowest.
    """

    def __init__(self, hurry: float = HURRY) -> None:
        self._hurry = hurry
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: dict[str, Future[int]] = {}

    @property
    def busy(self) -> list[str]:
        """Connectors whose turn has not ended."""
        return [name for name, one in self._under_way.items() if not one.done()]

    def take(self, names: Iterable[str], job: Callable[[str], int]) -> int:
        """Do a job for each connector that has none under way.

        What is not done in time goes on; its result, or what it raised, is the next
        turn's.

        Returns
        -------
        int
            The sum of what was done since the turn before.
        """
        free = [name for name in names if name not in self._under_way]
        if len(free) == 1 and not self._under_way:
            return job(free[0])
        if free and self._pool is None:
            self._pool = ThreadPoolExecutor(32, "connector")
        for name in free:
            assert self._pool is not None, "made above"
            self._under_way[name] = self._pool.submit(job, name)
        done, _ = wait(self._under_way.values(), self._hurry)
        ended = {name: one for name, one in self._under_way.items() if one in done}
        for name in ended:
            del self._under_way[name]
        return sum(one.result() for one in ended.values())
