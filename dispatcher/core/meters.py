"""Meters of this process: counts and durations, read by ``/metrics``.

What the tables record is counted from the tables. Here is what they do not: how long
something took, what was refused, how often a market was called. Stages count after the
commit, so that nothing rolled back is counted. Like the log, the meters belong to the
process and begin at 0 with it. A label is a connector, a state, a property or a word of
the program: never a worker, a record or a value.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from prometheus_client import Counter, Histogram

SHORT: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
CALLS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PLANS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
WORK: Final = (5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0, 604_800.0)

# In no registry: the surface that answers ``/metrics`` shows them.
_counter: Final = partial(Counter, namespace="dispatcher", registry=None)
_histogram: Final = partial(Histogram, namespace="dispatcher", registry=None)

GATE_DECISIONS: Final = _counter(
    "gate_decisions",
    "What the gate decided, and by which rule.",
    ("decision", "property"),
)
"""``allow`` (no property) and ``deny`` (by which property, or which budget)."""

GATE_DURATION: Final = _histogram(
    "gate_duration_seconds", "A booking with its commit.", buckets=SHORT
)
"""A booking with its commit: one decision at our page, a piece of a plan for others."""

TRANSITIONS: Final = _counter(
    "task_transitions",
    "Tasks that changed their state.",
    ("from", "to", "connector"),
)
"""Tasks that went from one state to another; they come from ``new``."""

TURNAROUND: Final = _histogram(
    "task_turnaround_seconds", "From booking to answer.", buckets=WORK
)
"""From a task's booking to its answer; see :func:`note_turnaround`."""

PLAN_DURATION: Final = _histogram(
    "plan_duration_seconds", "The search for a plan.", ("algorithm",), buckets=PLANS
)
"""The search for a plan, also one that found none."""

CALL_COUNT: Final = _counter(
    "connector_requests", "Calls to connectors by outcome.", ("connector", "code")
)
CALL_DURATION: Final = _histogram(
    "connector_request_duration_seconds",
    "A call to a connector.",
    ("connector",),
    buckets=CALLS,
)

NOTICES: Final = _counter(
    "notice_deliveries",
    "Attempts to deliver a notice.",
    ("receiver", "outcome"),
)
"""To a ``webhook`` or by ``mail``: ``sent``, or ``failed`` and tried again or given up."""

METERS: Final = (
    GATE_DECISIONS,
    TRANSITIONS,
    CALL_COUNT,
    GATE_DURATION,
    TURNAROUND,
    PLAN_DURATION,
    CALL_DURATION,
    NOTICES,
)
"""All of them, in the order in which they are shown."""

ALLOWED: Final = ("allow", "")
NEW: Final = "new"
"""Where tasks come from."""

Move = tuple[str, str, str]
"""State before, state after, connector."""


def count_moves(moves: Iterable[Move]) -> None:
    """Count new states of tasks; call it after their commit."""
    for move, count in Tally(moves).items():
        if move[0] != move[1]:
            TRANSITIONS.labels(*move).inc(count)


def note_turnaround(micros: int) -> None:
    """Record how long a task was out; a negative time (clock set back) counts as 0."""
    TURNAROUND.observe(max(0, micros) / 1_000_000)


_CODES: Final = {
    "TryLater": "try-later",
    "Rejected": "rejected",
    "Misconfigured": "misconfigured",
}


@contextmanager
def calling(connector: str) -> Iterator[None]:
    """Count and time an outside call; errors propagate."""
    code = "ok"
    try:
        with CALL_DURATION.labels(connector).time():
            yield
    except (Exception, SystemExit) as error:
        names = (kind.__name__ for kind in type(error).__mro__)
        code = next((_CODES[name] for name in names if name in _CODES), "failed")
        raise
    finally:
        CALL_COUNT.labels(connector, code).inc()
