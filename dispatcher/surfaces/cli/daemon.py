"""``dispatcher up``: the daemon, the task page and health in one process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.surfaces.cli.context import CliContext, wall_clock

if TYPE_CHECKING:
    from connectors.base import Feed, Market
    from dispatcher.daemon import Daemon, Tick
    from dispatcher.store import Store
    from dispatcher.surfaces.systemd import Notifier


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


def up(
    ctx: typer.Context,
    drain: Annotated[
        float,
        typer.Option(min=0, max=3600, help="Seconds to wait for answers at the end."),
    ] = 30.0,
    log_format: Annotated[LogFormat, typer.Option(help="Lines on stderr.")] = (
        LogFormat.TEXT
    ),
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Wait while another daemon leads; then lead."),
    ] = False,
    allow_root: Annotated[
        bool,
        typer.Option(
            "--allow-root",
            help="Run as root all the same.",
            envvar="DISPATCHER_ALLOW_ROOT",
        ),
    ] = False,
) -> None:
    """Run: plan, serve the task page, send, collect, put together, seal.

    SIGTERM (or Ctrl-C) begins to drain: nothing new is shown, answers to what was shown
    are taken for a while. A second one stops at once, which is safe too. SIGHUP reads
    dispatcher.toml again; a bad one is told in the log, and the old one stays.

    With --standby it opens no port while another daemon leads, takes over within 10 s
    when that one is gone, and stands by again if it loses the lease.
    """
    from dispatcher import log
    from dispatcher.custody.erased_again import erase_again
    from dispatcher.surfaces.cli.leading import refuse_root, stand_by
    from dispatcher.surfaces.cli.subject import means
    from dispatcher.surfaces.systemd import Notifier

    refuse_root(allowed=allow_root)
    context: CliContext = ctx.obj
    log.configure(log_format.value)
    log.guard_uncaught()
    notifier = Notifier(os.environ, time.monotonic)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    with context.open_store() as store:
        connectors = context.open_connectors(store)
        while True:
            daemon = _daemon(store, connectors, context)
            if not standby:
                daemon.lead()  # first: who leads is told before who has the ports
            elif not daemon.lead_after(stand_by(store, notifier)):
                return  # told to end while it waited
            erase_again(means(context, store, connectors))  # of a restored backup
            _lead(store, connectors, context, daemon, drain, notifier)
            if not (standby and daemon.was_lost()):
                break
        store.checkpoint()
    daemon.raise_if_lost()


def _lead(
    store: Store,
    connectors: Mapping[str, Market | Feed],
    context: CliContext,
    daemon: Daemon,
    drain: float,
    notifier: Notifier,
) -> None:
    """Serve and tick until a signal comes or the lease is lost."""
    from dispatcher.surfaces.cli.front import Front

    try:
        front = Front(store, connectors, context, daemon, notifier)
        front.bind()
        daemon.start(lambda: _ticks(store, connectors, context))
        front.serve(drain, lambda: _ticks(store, connectors, context))
    finally:
        daemon.stop()


def _daemon(
    store: Store, connectors: Mapping[str, Market | Feed], context: CliContext
) -> Daemon:
    from dispatcher.daemon import Daemon

    def lost() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    return Daemon(
        store,
        _ticks(store, connectors, context),
        wall_clock,
        lost=lost,
        renew_seconds=context.config.ticks.leading,
    )


def _ticks(
    store: Store, connectors: Mapping[str, Market | Feed], context: CliContext
) -> list[Tick]:
    """All stages in flow order, each with its own rhythm."""
    from connectors.base import Content
    from dispatcher.custody.retention import Retention
    from dispatcher.daemon import Tick
    from dispatcher.ledger.seals import seal
    from dispatcher.plugins import feeds_of, paying_of
    from dispatcher.stages.assembly import Assembly
    from dispatcher.stages.booking import Booking
    from dispatcher.stages.collecting import Collecting
    from dispatcher.stages.intake import Inbox
    from dispatcher.stages.paying import PayingStage
    from dispatcher.stages.planning import Planning
    from dispatcher.stages.reconciling import Reconciling
    from dispatcher.stages.sending import Sending
    from dispatcher.stages.sending import Terms as SendingTerms
    from dispatcher.stages.serving import Terms as ServingTerms
    from dispatcher.stages.serving import expire, stop_by_agreement
    from dispatcher.store import lease
    from dispatcher.surfaces.cli.subject import means

    config, every = context.config, context.config.ticks
    pushed = [n for n, c in connectors.items() if c.manifest.content is Content.MARKET]
    pulled = [n for n in connectors if n not in pushed]
    feeds = feeds_of(config.connectors)
    most = {name: each.manifest.limits.items for name, each in connectors.items()}
    link = config.surfaces.task_page

    def seal_now(epoch: int) -> int:
        with store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            sealed = int(seal(tx, at=wall_clock()) is not None)
        context.anchor_roots(store)
        return sealed

    quality = ServingTerms(
        floor=config.quality.floor, floor_after=config.quality.floor_after
    )

    def serve(epoch: int) -> int:
        stopped = stop_by_agreement(store, wall_clock, quality, epoch)
        return expire(store, wall_clock, epoch) + stopped

    ticks = [
        Tick(
            "booking",
            every.booking,
            Booking(store, pushed, pulled, wall_clock, most, feeds=feeds).tick,
            shows=True,
        ),
        Tick(
            "sending",
            every.sending,
            Sending(
                store,
                connectors,
                wall_clock,
                SendingTerms(attempts=config.tasks.attempts, link=link),
            ).tick,
            shows=True,
        ),
        Tick("serving", every.serving, serve),
        Tick(
            "collecting",
            every.collecting,
            Collecting(store, connectors, wall_clock).tick,
        ),
        Tick("assembly", every.assembly, Assembly(store, wall_clock).tick),
        Tick("paying", every.paying, PayingStage(store, connectors, wall_clock).tick),
        Tick("sealing", every.sealing, seal_now),
    ]
    keeping = Retention(means(context, store, connectors))
    ticks.append(Tick("retention", every.retention, keeping.tick))
    held = Reconciling(store, connectors, wall_clock)
    ticks.append(Tick("reconciling", every.reconciling, held.tick))
    if config.plans == "auto":
        pays = paying_of(config.connectors)
        planning = Planning(store, wall_clock, feeds=feeds, pays=pays)
        ticks.insert(0, Tick("planning", every.planning, planning.tick, shows=True))
    if config.inbox is not None:
        inbox = Inbox(store, context.directory / config.inbox, wall_clock)
        inbox.open()  # what can not be an inbox is told at the start
        ticks.insert(0, Tick("intake", every.intake, inbox.tick, shows=True))
    return ticks
