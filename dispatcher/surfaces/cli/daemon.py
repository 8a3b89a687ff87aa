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
    from dispatcher.app.daemon import Daemon
    from dispatcher.app.systemd import Notifier
    from dispatcher.store import Store


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

    A store that was edited past the program is refused (E135), at the start and while
    it runs: what the gate trusts must be as the ledger says.

    With --standby it opens no port while another daemon leads, takes over within 10 s
    when that one is gone, and stands by again if it loses the lease.
    """
    from dispatcher.app.systemd import Notifier
    from dispatcher.core import log
    from dispatcher.custody.reapplied_erasures import erase_again
    from dispatcher.operations.subjects import erasure_context
    from dispatcher.surfaces.cli.leading import lead_in_turn, refuse_root

    refuse_root(allowed=allow_root)
    context: CliContext = ctx.obj
    log.configure(log_format.value)
    log.guard_uncaught()
    notifier = Notifier(os.environ, time.monotonic)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    with context.open_store() as store:
        connectors = context.open_connectors(store)
        with store.read() as tx:
            for obstacle in context.preflight(store, connectors).look(tx).obstacles:
                context.say(str(obstacle))
        while True:
            daemon = _daemon(store, connectors, context)
            context.check_anchor(store)  # who has forgotten anything leads nothing
            if not standby:
                daemon.lead()  # first: who leads is told before who has the ports
            elif not lead_in_turn(daemon, store, notifier):
                return  # told to end while it waited
            erase_again(
                erasure_context(context, store, connectors)
            )  # of a restored backup
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
    from dispatcher.app.ticks import make_ticks
    from dispatcher.surfaces.cli.front import Front

    try:
        context.check_anchor(store)  # a standby may have waited for long
        front = Front(store, connectors, context, daemon, notifier)
        front.bind()
        daemon.start(lambda: make_ticks(store, connectors, context))
        front.serve(drain, lambda: make_ticks(store, connectors, context))
    finally:
        daemon.stop()


def _daemon(
    store: Store, connectors: Mapping[str, Market | Feed], context: CliContext
) -> Daemon:
    from dispatcher.app.daemon import Daemon
    from dispatcher.app.ticks import make_ticks

    def lost() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    return Daemon(
        store,
        make_ticks(store, connectors, context),
        wall_clock,
        lost=lost,
        renew_seconds=context.config.ticks.leading,
    )
