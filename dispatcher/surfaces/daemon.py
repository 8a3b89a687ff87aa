"""The daemon: leads a store, ticks the stages, serves its pages, and reads settings anew."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from connectors.base import Feed, Market
from dispatcher.app.daemon import Daemon, Tick
from dispatcher.app.leadership import Standby
from dispatcher.app.metrics import Tables, health_app, make_registry
from dispatcher.app.servers import serve
from dispatcher.app.systemd import Notifier
from dispatcher.app.ticks import make_ticks
from dispatcher.core.errors import (
    DispatcherError,
    LedgerAhead,
    LedgerBroken,
    LedgerForeign,
    NotShipped,
    StoreEdited,
    Usage,
)
from dispatcher.core.plurals import count
from dispatcher.core.processes import collect_promptly
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.operations.daemon import make_sign_in_link
from dispatcher.operations.notices import tell_stopped
from dispatcher.operations.people import invite_first_admin
from dispatcher.operations.subjects import erase_restored
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Clock, Store, lease, statistics
from dispatcher.store.audit_log import Act
from dispatcher.surfaces.applications import Applications, events_of

STOPPING: Final = (StoreEdited, LedgerBroken, LedgerAhead, LedgerForeign, NotShipped)
"""Errors that nothing but a person ends."""
MARGIN: Final = 30.0
"""Seconds for stopping beyond the drain, reported to the service manager."""


POLL: Final = 0.1
"""Seconds between two looks at signals while standing by."""


def refuse_root(*, allowed: bool) -> None:
    """Refuse to run as root, or warn where it was asked for.

    Raises
    ------
    Usage
        This is root, and nobody said that it may be.
    """
    if os.geteuid() != 0:
        return
    if allowed:
        print(
            "WARN running as root: a fault of this program is then a fault of the "
            "whole machine",
            file=sys.stderr,
        )
        return
    raise Usage(
        "the daemon does not run as root",
        why="it reads what strangers send; as root, a fault of it could change anything "
        "on this machine",
        fix="run it as a user of its own; where there is none (a container), add "
        "--allow-root or set DISPATCHER_ALLOW_ROOT=1",
    )


def run(
    workspace: Workspace,
    *,
    drain: float,
    standby: bool,
    say: Callable[[str], None],
    begun: Act,
) -> None:
    """Lead the store of a workspace until a signal ends it.

    Parameters
    ----------
    workspace : Workspace
    drain : float
        Seconds to wait for answers at the end.
    standby : bool
        Wait while another daemon leads, then lead.
    say : callable
        Takes what the operator should know before it begins.
    begun : Act
        For the audit log, once it leads.

    Raises
    ------
    AnotherLeads
        Another daemon leads, and this one does not stand by.
    StaleLease, StoreEdited
        Why it stopped leading.
    """
    workspace = replace(workspace, actor="daemon")
    notifier = Notifier(os.environ, time.monotonic)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    with workspace.open_store() as store, _telling(workspace, store):
        connectors = workspace.open_connectors(store)
        with store.read() as tx:
            for obstacle in workspace.preflight(store, connectors).look(tx).obstacles:
                say(str(obstacle))
        usages = LimitUsages()
        while True:
            daemon = _daemon(store, connectors, workspace, usages)
            workspace.check_anchor(store)  # a store that forgot anything leads nothing
            if not standby:
                daemon.lead()  # first: a conflict over who leads matters more than ports
            elif not stand_by(daemon, store, notifier, workspace.clock):
                return  # ended by a signal while it waited
            begun.end(store)
            erase_restored(workspace, store, connectors)
            _lead(store, connectors, workspace, daemon, drain, notifier, usages)
            if not (standby and daemon.was_lost()):
                break
        store.checkpoint()
        daemon.raise_if_lost()


@contextmanager
def _telling(workspace: Workspace, store: Store) -> Iterator[None]:
    """Have people told why a daemon does not lead any more, before it ends."""
    try:
        yield
    except STOPPING as error:
        tell_stopped(workspace, store, error.code)
        raise


def stopping(in_hand: int | None, drain: float) -> str:
    """Say what a daemon waits for that was told to stop.

    Parameters
    ----------
    in_hand : int or None
        Tasks in workers' hands; None: unknown.
    drain : float
        Seconds to wait for their answers, at most.
    """
    known = "some tasks" if in_hand is None else count(in_hand, "task")
    answers = (
        ""
        if in_hand == 0
        else f"for {known} in workers' hands, at most {drain:g} s, then "
    )
    return (
        f"stopping: nothing new is shown; waiting {answers}for what is under way "
        "(a second signal ends it at once, which is safe too)"
    )


def stand_by(daemon: Daemon, store: Store, notifier: Notifier, clock: Clock) -> bool:
    """Wait until the lease is free and take it; SIGTERM and SIGINT end the waiting.

    Returns
    -------
    bool
        Whether it leads; signals have the effect again that they had before.
    """
    signals: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: signals.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }

    def pause(seconds: float) -> bool:
        until = time.monotonic() + seconds
        notifier.ready("standing by")
        while not signals and (left := until - time.monotonic()) > 0:
            notifier.beat()
            time.sleep(min(POLL, left))
        return bool(signals)

    waits = Standby(store, clock, steady=time.monotonic, pause=pause)
    try:
        leads = daemon.lead_after(waits)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if leads and signals:  # one came as the lease was taken: nothing else handles it
        daemon.stop()
        return False
    return leads


def _lead(
    store: Store,
    connectors: dict[str, Market | Feed],
    workspace: Workspace,
    daemon: Daemon,
    drain: float,
    notifier: Notifier,
    usages: LimitUsages,
) -> None:
    """Serve and tick until a signal comes or the lease is lost."""
    try:
        workspace.check_anchor(store)  # a standby may have waited for long
        servers = DaemonServers(store, connectors, workspace, daemon, notifier, usages)
        afresh = partial(make_ticks, store, connectors, workspace, usages)
        with closing(servers):
            servers.bind()
            daemon.start(afresh)
            servers.serve(drain, afresh)
    finally:
        daemon.stop()


def _daemon(
    store: Store,
    connectors: dict[str, Market | Feed],
    workspace: Workspace,
    usages: LimitUsages,
) -> Daemon:
    def lost() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    return Daemon(
        store,
        make_ticks(store, connectors, workspace, usages),
        workspace.clock,
        lost=lost,
        renew_seconds=workspace.config.ticks.leading,
    )


class DaemonServers:
    """Builds the applications, serves them, and builds them anew on SIGHUP.

    Parameters
    ----------
    store : Store
    connectors : dict of str to Market or Feed
    workspace : Workspace
        Its settings are replaced by a reload.
    daemon : Daemon
    notifier : Notifier
    usages : LimitUsages
        How near limits are, for all pages and notices.
    """

    def __init__(
        self,
        store: Store,
        connectors: dict[str, Market | Feed],
        workspace: Workspace,
        daemon: Daemon,
        notifier: Notifier,
        usages: LimitUsages,
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._daemon = daemon
        self._notifier = notifier
        self._reloaded = True
        tables = Tables(
            store,
            self._workspace.clock,
            usages,
            leads=daemon.is_leading,
            reloaded=lambda: self._reloaded,
            connectors=connectors,
        )
        registry, timing = make_registry(tables, events_of(workspace))
        self._made = Applications(
            store, connectors, workspace, daemon, usages, timing=timing
        )
        self._health = health_app(store, daemon, workspace.clock, registry)

    def bind(self) -> None:
        """Take the ports, before anything ticks.

        Raises
        ------
        AddressTaken
        """
        self._made.bind(self._health)

    def close(self) -> None:
        """Give the ports back, also those that nothing was served on."""
        self._made.close()

    def serve(self, drain: float, ticks: Callable[[], list[Tick]]) -> None:
        """Serve until a signal ends it.

        Parameters
        ----------
        drain : float
            Seconds to wait for answers at the end.
        ticks : callable
            Makes the stages' turns from the settings in force.
        """

        def draining() -> None:
            if not self._daemon.was_lost():  # else it may stand by and lead again
                self._notifier.stopping(drain + MARGIN)
            self._daemon.begin_drain()
            with suppress(OSError, ValueError):  # nobody reads any more
                print(stopping(self._in_hand(), drain), file=sys.stderr, flush=True)

        serve(
            self._made.listeners,
            draining=draining,
            drained=self._drained,
            drain_seconds=drain,
            started=self._started,
            reload=lambda: self.reload(ticks),
            beat=self._beat,
            proxies=self._workspace.config.surfaces.believed,
        )

    def reload(self, ticks: Callable[[], list[Tick]]) -> bool:
        """Read the settings again; those in force stay where the file is bad.

        Returns
        -------
        bool
            Whether they are in force now, as far as a running daemon can change.
        """

        def retick() -> None:
            self._daemon.retick(ticks(), self._workspace.config.ticks.leading)

        self._notifier.reloading()
        self._reloaded = self._made.reload(retick)
        self._notifier.ready("leading")
        return self._reloaded

    def _started(self) -> None:
        collect_promptly()
        self._made.announce()
        self._notifier.ready("leading")
        if sys.stderr.isatty():  # a journal would keep the link
            with suppress(DispatcherError):  # busy: a command makes one as well
                url = self._made.listeners[0].url
                link = make_sign_in_link(self._workspace, self._store, url)
                print(f"sign in   {link}   (once, within 10 min)", file=sys.stderr)
                first = invite_first_admin(self._workspace, self._store, url)
                print(f"be admin  {first}   (as above)", file=sys.stderr)

    def _beat(self) -> None:
        self._made.expire()
        self._notifier.beat(self._alive)

    def _drained(self) -> bool:
        return self._in_hand() == 0

    def _in_hand(self) -> int | None:
        """Count tasks in workers' hands that this daemon waits for; None: unknown."""
        if not self._daemon.is_leading():
            return 0  # another one leads: nothing is ours to wait for
        try:
            with self._store.read() as tx:
                if lease.servers(tx):
                    return 0  # they take the answers
                return statistics.live_shown(tx, self._workspace.clock())
        except DispatcherError:
            return None  # busy: asked again in a moment

    def _alive(self) -> bool:
        """Whether the loop that books still turns: it keeps the lease."""
        try:
            with self._store.read() as tx:
                found = lease.holder(tx, lease.SHARD)
        except DispatcherError:
            return True  # the store is away: to be started anew would not help
        return found is None or found.leased_until > self._workspace.clock()
