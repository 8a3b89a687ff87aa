"""Per-connector circuit breaker and rate limit.

A failing connector is retried with exponential backoff; a working one is called no more
often than its manifest allows.
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
"""Consecutive failures of unknown kind that open a circuit; one may be a task's."""

PAUSE: Final = 60 * MICRO


def pause_of(error: TryLater) -> int:
    """Return the pause that a connector asks for, in microseconds: a day at most."""
    return round(min(error.after, 86_400.0) * MICRO)


class Circuit:
    """Circuit breaker and call rate of one connector; used by one thread at a time.

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
        self._since: int | None = None

    def is_open(self) -> bool:
        """Whether the circuit is open: the connector must not be called now."""
        return self._until > self._clock()

    @property
    def fault(self) -> tuple[int, int, int] | None:
        """Since when it was opened, until when, and failures in a row; None: it is closed.

        It is half open once that moment has passed: the next call decides.
        """
        if self._since is None:
            return None
        return self._since, self._until, self._failures

    def worked(self) -> None:
        """Close the circuit after a success and forget earlier failures."""
        self._failures = 0
        self._since = None

    def open_for(self, pause: int) -> None:
        """Open the circuit for `pause` microseconds, whatever happened before."""
        now = self._clock()
        self._until = now + pause
        if self._since is None:
            self._since = now

    def failed(self, pause: int = PAUSE, *, after: int = 1) -> bool:
        """Count a failure; from the `after`-th in a row, open, twice as long each time.

        Returns
        -------
        bool
            Whether the circuit is open now.
        """
        self._failures += 1
        if self._failures < after:
            return False
        doubled = pause << min(self._failures - after, 20)
        self.open_for(min(doubled, max(pause, LONGEST)))
        return True

    def room(self, most: int) -> int:
        """Return how many calls the rate allows now, up to `most`."""
        if self._limit is None:
            return most
        return min(most, self._limit.available(None, self._clock()))

    def spend(self, calls: int) -> None:
        """Count calls against the rate."""
        if self._limit is not None:
            self._limit.spend(None, calls, self._clock())
