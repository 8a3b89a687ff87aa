"""Money in ``/metrics``: sums by currency, payments by state; no run and no worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from dispatcher.store import Tx, statistics
from dispatcher.store import money as rows
from dispatcher.store.money import UNIT
from dispatcher.surfaces.event_metrics import PREFIX


def money_metrics(tx: Tx) -> Iterator[Metric]:
    """Count budgets and payments."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows.budgets(tx):
        sums[row.currency, "cap"] += row.cap
        sums[row.currency, "promised"] += row.taken - row.paid
        sums[row.currency, "paid"] += row.paid
    amounts = GaugeMetricFamily(
        PREFIX + "budget_amount",
        "Units of a currency: caps of all runs, what is promised or owed, and paid.",
        labels=("currency", "kind"),
    )
    for labels, parts in sorted(sums.items()):
        amounts.add_metric(labels, parts / UNIT)
    yield amounts
    payments = GaugeMetricFamily(
        PREFIX + "payments",
        "Payments; held and unknown ones wait for a person.",
        labels=("connector", "state"),
    )
    for connector, state, count in statistics.payments(tx):
        payments.add_metric([connector, state], count)
    yield payments
