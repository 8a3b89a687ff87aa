"""Stages of several connectors: what the daemon runs side by side, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.base import Feed, Listing, Market, Paying
from dispatcher.stages.collecting import Collecting
from dispatcher.stages.paying import MarketPayments, PaymentBooks
from dispatcher.stages.reconciling import Reconciling
from dispatcher.stages.sending import Sending, SendingTerms
from dispatcher.store import Clock, Store

Connectors = Mapping[str, Market | Feed]


@dataclass(frozen=True)
class Stages:
    """One stage a connector, by its name."""

    by_name: Mapping[str, Sending | Collecting | MarketPayments | Reconciling]
    first: PaymentBooks | None = None

    def tick(self, epoch: int) -> int:
        """Let each have its turn; what they did together."""
        done = self.first.tick(epoch) if self.first is not None else 0
        return done + sum(stage.tick(epoch) for stage in self.by_name.values())

    @property
    def resting(self) -> list[str]:
        """Connectors to which nothing is sent for now."""
        return [
            name
            for name, stage in self.by_name.items()
            if isinstance(stage, Sending) and stage.is_suspended
        ]


def sending(
    store: Store,
    connectors: Connectors,
    clock: Clock,
    terms: SendingTerms | None = None,
) -> Stages:
    return Stages(
        {n: Sending(store, n, c, clock, terms) for n, c in connectors.items()}
    )


def collecting(store: Store, connectors: Connectors, clock: Clock) -> Stages:
    return Stages(
        {n: Collecting(store, n, m, clock) for n, m in _markets(connectors).items()}
    )


def paying(store: Store, connectors: Connectors, clock: Clock) -> Stages:
    markets = _markets(connectors).items()
    stages = {
        n: MarketPayments(store, n, m, clock)
        for n, m in markets
        if isinstance(m, Paying)
    }
    return Stages(stages, PaymentBooks(store, clock))


def reconciling(store: Store, connectors: Connectors, clock: Clock) -> Stages:
    markets = _markets(connectors).items()
    return Stages(
        {
            n: Reconciling(store, n, m, clock)
            for n, m in markets
            if isinstance(m, Listing)
        }
    )


def _markets(connectors: Connectors) -> dict[str, Market]:
    return {name: c for name, c in connectors.items() if isinstance(c, Market)}
