"""The daemon's ticks: the stages in flow order, each at its own interval.

Stages that call the outside have one job per connector: a market that is slow or hangs
delays only its own jobs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from connectors.base import Feed, Listing, Market, Paying
from dispatcher.app.daemon import Tick
from dispatcher.app.server_lease import ServerWatch
from dispatcher.core.processes import give_back_memory
from dispatcher.custody.erasure import Retention
from dispatcher.ledger.chains import seal
from dispatcher.ledger.comparison import refuse_edited
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.notices.delivering import Delivering
from dispatcher.operations.notices import Watching, terms_of
from dispatcher.operations.sampling import Sampler
from dispatcher.operations.subjects import erasure_context
from dispatcher.operations.workspace import Workspace
from dispatcher.preflight import Preflight
from dispatcher.stages.assembly import Assembly
from dispatcher.stages.booking import Booking
from dispatcher.stages.collecting import Collecting
from dispatcher.stages.intake.inbox import Inbox
from dispatcher.stages.paying import MarketPayments, PaymentBooks
from dispatcher.stages.planning import Planning
from dispatcher.stages.reconciling import Reconciling
from dispatcher.stages.sending import Sending, SendingTerms
from dispatcher.stages.serving import ServingTerms, expire, stop_by_agreement
from dispatcher.stages.serving.arrivals import forget_over
from dispatcher.stages.serving.values import held_back
from dispatcher.store import Store, lease
from policies.model.objective import Preference

Connectors = Mapping[str, Market | Feed]
"""By the operator's names."""


def make_ticks(
    store: Store,
    connectors: Connectors,
    workspace: Workspace,
    usages: LimitUsages | None = None,
) -> list[Tick]:
    """Create all stages from the current settings.

    Parameters
    ----------
    store : Store
    connectors : Connectors
    workspace : Workspace
    usages : LimitUsages, optional
        What the daemon's pages know of how near limits are.

    Raises
    ------
    Invalid
        The configured inbox is unusable.
    """
    preflight = workspace.preflight(store, connectors)
    return [
        *_before(store, preflight, workspace),
        *_exchange(store, connectors, preflight, workspace),
        *_after(store, connectors, workspace),
        *_telling(store, workspace, usages or LimitUsages()),
    ]


def _before(store: Store, preflight: Preflight, workspace: Workspace) -> list[Tick]:
    """Return the ticks before anything leaves: intake and planning, if enabled."""
    config, every = workspace.config, workspace.config.ticks
    ticks = []
    if config.inbox is not None:
        inbox = Inbox(store, workspace.directory / config.inbox, workspace.clock)
        inbox.open()  # an unusable inbox is reported at the start
        ticks.append(Tick("intake", every.intake, inbox.tick, shows=True))
    if config.plans == "auto":
        planning = Planning(
            store,
            workspace.clock,
            preflight=preflight,
            seconds=config.planning.seconds,
            partial=config.planning.partial,
            min_gain=config.planning.min_gain,
            prefer=Preference(config.planning.prefer),
            choosing=config.tasks.choose > 0,
        )
        ticks.append(Tick("planning", every.planning, planning.tick, shows=True))
    return ticks


def _exchange(
    store: Store, connectors: Connectors, preflight: Preflight, workspace: Workspace
) -> list[Tick]:
    """Return the ticks of sending, serving and collecting."""
    config, every = workspace.config, workspace.config.ticks
    booking = Booking(store, preflight, workspace.clock, np.random.default_rng())
    terms = SendingTerms(attempts=config.tasks.attempts, link=config.surfaces.task_page)
    quality = ServingTerms(
        floor=config.quality.floor, floor_after=config.quality.floor_after
    )

    def serve(epoch: int) -> int:
        stopped = stop_by_agreement(store, workspace.clock, quality, epoch)
        return expire(store, workspace.clock, epoch) + stopped

    return [
        Tick("booking", every.booking, booking.tick, shows=True),
        *_each(
            "sending",
            every.sending,
            [
                (n, Sending(store, n, c, workspace.clock, terms))
                for n, c in connectors.items()
            ],
            shows=True,
        ),
        Tick("serving", every.serving, serve),
        *_each(
            "collecting",
            every.collecting,
            [
                (name, Collecting(store, name, market, workspace.clock))
                for name, market in _markets(connectors)
            ],
        ),
    ]


def _after(store: Store, connectors: Connectors, workspace: Workspace) -> list[Tick]:
    """Return the ticks of assembly and payment, and of maintenance."""
    every = workspace.config.ticks

    def seal_now(epoch: int) -> int:
        with store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            sealed = int(seal(tx, at=workspace.clock()) is not None)
        workspace.anchor_roots(store)
        return sealed

    def trim(_: int) -> int:
        give_back_memory()
        return 0

    def compare_now(_: int) -> int:
        refuse_edited(store)
        return 0

    feeds = [name for name, one in connectors.items() if isinstance(one, Feed)]
    undo = held_back(workspace.config.tasks.undo)
    assembly = Assembly(store, workspace.clock, undo)
    books = PaymentBooks(store, workspace.clock)
    retention = Retention(erasure_context(workspace, store, connectors))
    watch = ServerWatch(store, workspace.clock, steady=time.monotonic)
    servers = [Tick("servers", every.leading, watch.tick)]
    return [
        *(servers if store.is_served_by_many else ()),
        Tick("assembly", every.assembly, assembly.tick),
        Tick("paying", every.paying, books.tick),
        *_each(
            "paying",
            every.paying,
            [
                (name, MarketPayments(store, name, market, workspace.clock))
                for name, market in _markets(connectors)
                if isinstance(market, Paying)
            ],
        ),
        Tick("sealing", every.sealing, seal_now),
        Tick("memory", every.sealing, trim),
        Tick("retention", every.retention, retention.tick),
        Tick("sessions", every.retention, partial(forget_over, store, workspace.clock)),
        *_each(
            "reconciling",
            every.reconciling,
            [
                (name, Reconciling(store, name, market, workspace.clock))
                for name, market in _markets(connectors)
                if isinstance(market, Listing)
            ],
        ),
        Tick("sampling", every.sampling, Sampler(store, workspace.clock, feeds).tick),
        # A new leader has just compared.
        Tick("comparing", every.comparing, compare_now, at_once=False),
    ]


def _telling(store: Store, workspace: Workspace, usages: LimitUsages) -> list[Tick]:
    """Return the ticks of notices: what is to be told is looked for, then delivered."""
    config = workspace.config
    watching = Watching(store, workspace.clock, config.notices.near, usages)
    delivering = Delivering(store, workspace.clock, terms_of(workspace))
    return [
        Tick("watching", config.ticks.watching, watching.tick),
        Tick("notices", config.ticks.notices, delivering.tick),
    ]


class _Stage(Protocol):
    def tick(self, epoch: int) -> int: ...


def _each(
    what: str,
    seconds: float,
    stages: Sequence[tuple[str, _Stage]],
    *,
    shows: bool = False,
) -> list[Tick]:
    """Return one tick per connector, named by stage and connector."""
    return [
        Tick(f"{what}:{name}", seconds, stage.tick, shows=shows)
        for name, stage in stages
    ]


def _markets(connectors: Connectors) -> list[tuple[str, Market]]:
    """Return the markets; feeds have nothing to collect, list or pay."""
    return [(name, c) for name, c in connectors.items() if isinstance(c, Market)]
