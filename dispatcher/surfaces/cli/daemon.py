"""``dispatcher up``: the daemon, the task page and health in one process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.surfaces.cli import console
from dispatcher.surfaces.cli.context import CliContext, wall_clock

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from connectors.base import Feed, Market
    from dispatcher.config import Config
    from dispatcher.daemon import Daemon, Tick
    from dispatcher.store import Store
    from dispatcher.surfaces.servers import Listener


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
    are taken for a while. A second one stops at once, which is safe too.

    With --standby it opens no port while another daemon leads, takes over within 10 s
    when that one is gone, and stands by again if it loses the lease.
    """
    from dispatcher import log
    from dispatcher.custody.erasure import erase_again
    from dispatcher.plugins import open_connectors
    from dispatcher.surfaces.cli.leading import refuse_root, stand_by
    from dispatcher.surfaces.cli.subject import means

    refuse_root(allowed=allow_root)
    context: CliContext = ctx.obj
    log.configure(log_format.value)
    log.guard_uncaught()
    config = context.config
    with context.open_store() as store:
        connectors = open_connectors(
            config.connectors,
            directory=context.directory,
            secrets={"inhouse": store.key("token-key")},
        )
        while True:
            daemon = _daemon(store, connectors, context)
            if not standby:
                daemon.lead()  # first: who leads is told before who has the ports
            elif not daemon.lead_after(stand_by(store)):
                return  # told to end while it waited
            erase_again(means(context, store, connectors))  # of a restored backup
            _lead(store, connectors, config, daemon, drain)
            if not (standby and daemon.was_lost()):
                break
        store.checkpoint()
    daemon.raise_if_lost()


def _lead(
    store: Store,
    connectors: Mapping[str, Market | Feed],
    config: Config,
    daemon: Daemon,
    drain: float,
) -> None:
    """Serve and tick until a signal comes or the lease is lost."""
    try:
        listeners = _listeners(store, connectors, config, daemon)
        daemon.start()
        _serve(store, daemon, listeners, drain, config)
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
    from dispatcher.stages.assembly import Assembly
    from dispatcher.stages.booking import Booking
    from dispatcher.stages.collecting import Collecting
    from dispatcher.stages.intake import Inbox
    from dispatcher.stages.planning import Planning
    from dispatcher.stages.sending import Sending
    from dispatcher.stages.sending import Terms as SendingTerms
    from dispatcher.stages.serving import expire
    from dispatcher.store import lease
    from dispatcher.surfaces.cli.subject import means

    config, every = context.config, context.config.ticks
    pushed = [n for n, c in connectors.items() if c.manifest.content is Content.MARKET]
    pulled = [n for n in connectors if n not in pushed]
    link = config.surfaces.worker_url or f"http://{config.surfaces.workers}"

    def seal_now(epoch: int) -> int:
        with store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            sealed = int(seal(tx, at=wall_clock()) is not None)
        context.anchor_roots(store)
        return sealed

    ticks = [
        Tick(
            "booking",
            every.booking,
            Booking(store, pushed, pulled, wall_clock).tick,
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
        Tick("serving", every.serving, lambda epoch: expire(store, wall_clock, epoch)),
        Tick(
            "collecting",
            every.collecting,
            Collecting(store, connectors, wall_clock).tick,
        ),
        Tick("assembly", every.assembly, Assembly(store, wall_clock).tick),
        Tick("sealing", every.sealing, seal_now),
    ]
    keeping = Retention(means(context, store, connectors))
    ticks.append(Tick("retention", every.retention, keeping.tick))
    if config.plans == "auto":
        planning = Planning(store, wall_clock)
        ticks.insert(0, Tick("planning", every.planning, planning.tick, shows=True))
    if config.inbox is not None:
        inbox = Inbox(store, context.directory / config.inbox, wall_clock)
        inbox.open()  # what can not be an inbox is told at the start
        ticks.insert(0, Tick("intake", every.intake, inbox.tick, shows=True))
    return ticks


def _listeners(
    store: Store,
    connectors: Mapping[str, Market | Feed],
    config: Config,
    daemon: Daemon,
) -> list[Listener]:
    import numpy as np

    from connectors.base import Content, Market
    from dispatcher.config import split_address
    from dispatcher.stages.serving import Terms
    from dispatcher.surfaces.console import ConsoleSettings, console_app
    from dispatcher.surfaces.health import health_app
    from dispatcher.surfaces.servers import Listener, bind
    from dispatcher.surfaces.taskpage.app import task_app
    from dispatcher.surfaces.taskpage.settings import PageSettings

    markets = {
        name: connector
        for name, connector in connectors.items()
        if isinstance(connector, Market) and connector.manifest.content is Content.OURS
    }
    page = task_app(
        store,
        markets,
        clock=wall_clock,
        rng=np.random.default_rng(),
        epoch=daemon.epoch_to_show,
        terms=Terms(
            lease=config.tasks.lease,
            extensions=config.tasks.extensions,
            apart=config.tasks.apart,
            patience=config.tasks.patience,
        ),
        settings=PageSettings(
            https=(config.surfaces.worker_url or "").startswith("https://")
        ),
    )
    operators = console_app(
        store,
        clock=wall_clock,
        settings=ConsoleSettings(
            url=config.surfaces.operator_url or "",
            behind_proxy=config.surfaces.behind_proxy,
        ),
    )
    apps: dict[str, ASGIApp] = {
        "operators": operators,
        "workers": page,
        "admin": health_app(store, daemon),
    }
    listeners = []
    for name, app in apps.items():
        host, port = split_address(getattr(config.surfaces, name), name)
        listeners.append(Listener(name, app, bind(name, host, port)))
    return listeners


def _serve(
    store: Store,
    daemon: Daemon,
    listeners: list[Listener],
    drain: float,
    config: Config,
) -> None:
    from dispatcher.errors import DispatcherError
    from dispatcher.store import status as rows
    from dispatcher.surfaces.servers import serve

    def started() -> None:
        for listener in listeners:
            print(f"{listener.name:9} {listener.url}/", file=sys.stderr, flush=True)
        if sys.stderr.isatty():  # a journal would keep the link
            with suppress(DispatcherError):  # busy: a command makes one as well
                link = console.make(store, config, listeners[0].url)
                print(f"sign in   {link}   (once, within 10 min)", file=sys.stderr)

    def drained() -> bool:
        if not daemon.is_leading():
            return True  # another one leads: nothing is ours to wait for
        try:
            with store.read() as tx:
                return rows.live_shown(tx, wall_clock()) == 0
        except DispatcherError:
            return False  # busy: asked again in a moment

    serve(
        listeners,
        draining=daemon.begin_drain,
        drained=drained,
        drain_seconds=drain,
        started=started,
        proxied=config.surfaces.behind_proxy,
    )
