"""The meters of this process as ``/metrics`` shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from dispatcher import meters
from dispatcher.meters import Count, Durations

PREFIX: Final = "dispatcher_"

_COUNTS: Final = (
    ("gate_decisions", "What the gate decided, and by which rule.", meters.GATE_DECISIONS),
    ("task_transitions", "Tasks that changed their state.", meters.TRANSITIONS),
    ("connector_requests", "Calls to connectors by outcome.", meters.CALL_COUNT),
)  # fmt: skip
_DURATIONS: Final = (
    ("gate_duration_seconds", "A booking with its commit.", meters.GATE_DURATION),
    ("task_turnaround_seconds", "From booking to answer.", meters.TURNAROUND),
    ("plan_duration_seconds", "The search for a plan.", meters.PLAN_DURATION),
    ("connector_request_duration_seconds", "A call to a connector.", meters.CALL_DURATION),
)  # fmt: skip


class Events(Collector):
    """Shows what the stages counted.

    Parameters
    ----------
    webhooks : frozenset of str
        Names of the connectors that are webhooks.
    """

    def __init__(self, webhooks: frozenset[str] = frozenset()) -> None:
        self._webhooks = webhooks

    def collect(self) -> Iterator[Metric]:
        """Give all counts and durations since the start of the process."""
        for name, told, count in _COUNTS:
            yield _counted(name, told, count)
        for name, told, durations in _DURATIONS:
            yield _measured(name, told, durations)
        outcomes: Counter[str] = Counter()
        for (connector, code), number in meters.CALL_COUNT.read().items():
            if connector in self._webhooks:
                outcomes[code] += number
        found = CounterMetricFamily(
            PREFIX + "webhook_deliveries", "Calls to webhooks.", labels=("outcome",)
        )
        for outcome, number in sorted(outcomes.items()):
            found.add_metric([outcome], number)
        yield found


def _counted(name: str, told: str, count: Count) -> Metric:
    family = CounterMetricFamily(PREFIX + name, told, labels=count.labels)
    for values, number in sorted(count.read().items()):
        family.add_metric(values, number)
    return family


def _measured(name: str, told: str, durations: Durations) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, told, labels=durations.labels)
    bounds = [*map(str, durations.bounds), "+Inf"]
    for values, one in sorted(durations.read().items()):
        reached = accumulate(one.buckets)
        family.add_metric(values, list(zip(bounds, reached, strict=True)), one.seconds)
    return family
