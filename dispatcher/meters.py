"""Meters of what this process does: counts and durations, read by ``/metrics``.

What the tables know is counted from the tables. Here is what they forget: how long
something took, what was refused, how often a market was called. Stages count after the
commit, so that what was rolled back is not counted. As the log does, the meters belong
to the process and begin at 0 with it. A label is a connector, a state, a property or a
word of the program: never a worker, a record or a value.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

Labels = tuple[str, ...]


class Count:
    """How often something happened, by labels; safe to use from several threads.

    Parameters
    ----------
    *labels : str
        Their names.
    """

    def __init__(self, *labels: str) -> None:
        self.labels = labels
        self._lock = threading.Lock()
        self._counts: Counter[Labels] = Counter()

    def add(self, *values: str, count: int = 1) -> None:
        """Count something so many times; 0 leaves no trace."""
        assert len(values) == len(self.labels)
        if count:
            with self._lock:
                self._counts[values] += count

    def read(self) -> Mapping[Labels, int]:
        """Return the counts since the start of the process."""
        with self._lock:
            return dict(self._counts)


@dataclass
class Measured:
    """Durations with the same labels.

    Attributes
    ----------
    buckets : list of int
        How many were in each bucket, each for itself; the last is beyond all bounds.
    seconds : float
        All together.
    """

    buckets: list[int] = field(default_factory=list)
    seconds: float = 0.0


class Durations:
    """How long something took, by labels; safe to use from several threads.

    Parameters
    ----------
    bounds : tuple of float
        Upper bounds of the buckets in seconds, ascending.
    *labels : str
        Names of the labels.
    """

    def __init__(self, bounds: tuple[float, ...], *labels: str) -> None:
        self.bounds = bounds
        self.labels = labels
        self._lock = threading.Lock()
        self._measured: dict[Labels, Measured] = {}

    def note(self, seconds: float, *values: str) -> None:
        """Take in one duration; one below 0, of a clock put back, is taken as 0."""
        assert len(values) == len(self.labels)
        seconds = max(0.0, seconds)
        with self._lock:
            mine = self._measured.get(values)
            if mine is None:
                empty = [0] * (len(self.bounds) + 1)
                mine = self._measured[values] = Measured(empty)
            mine.buckets[bisect_left(self.bounds, seconds)] += 1
            mine.seconds += seconds

    @contextmanager
    def timed(self, *values: str) -> Iterator[None]:
        """Time a block, also one that ends by an error."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.note(time.monotonic() - began, *values)

    def read(self) -> Mapping[Labels, Measured]:
        """Return what was measured since the start of the process."""
        with self._lock:
            return {
                values: Measured(list(one.buckets), one.seconds)
                for values, one in self._measured.items()
            }


SHORT: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
CALLS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PLANS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
WORK: Final = (5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0, 604_800.0)

GATE_DECISIONS: Final = Count("decision", "property")
"""``allow`` (no property) and ``deny`` (by which property, or which budget)."""

GATE_DURATION: Final = Durations(SHORT)
"""A booking with its commit: one decision at our page, a piece of a plan for others."""

TRANSITIONS: Final = Count("from", "to", "connector")
"""Tasks that went from one state to another; they come from ``new``."""

TURNAROUND: Final = Durations(WORK)
"""From a task's booking to its answer."""

PLAN_DURATION: Final = Durations(PLANS, "algorithm")
"""The search for a plan, also one that found none."""

CALL_COUNT: Final = Count("connector", "code")
CALL_DURATION: Final = Durations(CALLS, "connector")

ALLOWED: Final = ("allow", "")
NEW: Final = "new"
"""Where tasks come from."""

Move = tuple[str, str, str]
"""State before, state after, connector."""


def count_moves(moves: Iterable[Move]) -> None:
    """Count what became of tasks, after the commit of it."""
    for move, count in Counter(moves).items():
        if move[0] != move[1]:
            TRANSITIONS.add(*move, count=count)


_CODES: Final = {
    "TryLater": "try-later",
    "Rejected": "rejected",
    "Misconfigured": "misconfigured",
}


@contextmanager
def calling(connector: str) -> Iterator[None]:
    """Count and time a call to the outside; its error goes on."""
    code = "ok"
    try:
        with CALL_DURATION.timed(connector):
            yield
    except Exception as error:
        names = (kind.__name__ for kind in type(error).__mro__)
        code = next((_CODES[name] for name in names if name in _CODES), "failed")
        raise
    finally:
        CALL_COUNT.add(connector, code)
