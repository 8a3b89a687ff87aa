"""The meters of this process as ``/metrics`` shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.core import meters

PREFIX: Final = "dispatcher_"


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
        for meter in meters.METERS:
            yield from meter.collect()
        outcomes: Counter[str] = Counter()
        for family in meters.CALL_COUNT.collect():
            for sample in family.samples:
                mine = sample.labels["connector"] in self._webhooks
                if mine and sample.name.endswith("_total"):
                    outcomes[sample.labels["code"]] += int(sample.value)
        found = CounterMetricFamily(
            PREFIX + "webhook_deliveries", "Calls to webhooks.", labels=("outcome",)
        )
        for outcome, number in sorted(outcomes.items()):
            found.add_metric([outcome], number)
        yield found
