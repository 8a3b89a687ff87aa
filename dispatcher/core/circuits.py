"""Whether a connector may be called now: a circuit breaker and a rate limit.

A connector that failed rests, longer after each failure in a row; one that works is
called no more often than its manifest allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from connectors.base import TryLater
from dispatcher.core.rate_limit import Rate, RateLimiter

MICRO: Final = 1_000_000
LONGEST: Final = 1800 * MICRO
"""A failed connector is tried again after half an hour at the latest."""

FAULTS: Final = 3
"""Failures of unknown kind in a row after which a connector rests; one may be a task's."""

REST: Final = 60 * MICRO


def pause_of(error: TryLater) -> int:
    """Microseconds that a connector asks for: a day at the most."""
    return round(min(error.after, 86_400.0) * MICRO)


class Circuit:
    """Rests and rate of calls of one connector, which one thread at a time uses.

    Parameters
    ----------
    per_minute : int or None
        Most calls in a minute; None: as many as there are.
    clock : callable
        () -> microseconds.
    """

    def __init__(self, per_minute: int | None, clock: Callable[[], int]) -> None:
        self._limit = None
        if per_minute is not None:
            self._limit = RateLimiter(Rate(per_minute, per_minute))
        self._clock = clock
        self._until = 0
        self._failures = 0

    def rests(self) -> bool:
        """Whether it is not to be called now."""
        return self._until > self._clock()

    def worked(self) -> None:
        """Note that it answered as it should: the next failure is a first one."""
        self._failures = 0

    def rest(self, pause: int) -> None:
        """Let it rest for so many microseconds, whatever it did before."""
        self._until = self._clock() + pause

    def failed(self, pause: int = REST, *, after: int = 1) -> bool:
        """Note a failure; from number `after` in a row on it rests, twice as long each.

        Returns
        -------
        bool
            Whether it rests now.
        """
        self._failures += 1
        if self._failures < after:
            return False
        doubled = pause << min(self._failures - after, 20)
        self.rest(min(doubled, max(pause, LONGEST)))
        return True

    def room(self, most: int) -> int:
        """How many calls its rate allows now, at most so many."""
        if self._limit is None:
            return most
        return min(most, self._limit.available(None, self._clock()))

    def spend(self, calls: int) -> None:
        """Count calls against the rate."""
        if self._limit is not None:
            self._limit.spend(None, calls, self._clock())
