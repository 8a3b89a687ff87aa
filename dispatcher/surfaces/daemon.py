"""The daemon: leads a store, ticks the stages, serves its pages, and reads settings anew."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.base import Content, Feed, Fetching, Heeding, Market
from dispatcher.app.daemon import Daemon, Tick
from dispatcher.app.leadership import Standby
from dispatcher.app.metrics import StageMeters, Tables, Timed, health_app, make_registry
from dispatcher.app.servers import Listener, Swap, bind, serve
from dispatcher.app.systemd import Notifier
from dispatcher.app.ticks import make_ticks
from dispatcher.core.config import Config, SurfaceSettings, split_address
from dispatcher.core.errors import (
    DispatcherError,
    LedgerAhead,
    LedgerBroken,
    LedgerForeign,
    NotShipped,
    StoreEdited,
    Usage,
)
from dispatcher.core.log import get_logger
from dispatcher.core.plurals import count
from dispatcher.core.private_files import ScratchFolder
from dispatcher.core.processes import collect_promptly
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.operations.daemon import make_sign_in_link
from dispatcher.operations.dry_run import withdrawing
from dispatcher.operations.notices import tell_stopped
from dispatcher.operations.people import invite_first_admin, open_provider
from dispatcher.operations.status import status
from dispatcher.operations.subjects import erase_restored
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.serving import ServingTerms, SessionTerms
from dispatcher.store import Clock, Store, lease, statistics
from dispatcher.store.audit_log import Act
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.api.events import Stream
from dispatcher.surfaces.api.requests import Requests
from dispatcher.surfaces.console import ConsoleSettings, console_app
from dispatcher.surfaces.taskpage import PageSettings, task_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

AT_START: Final = (
    "store",
    "policy",
    "key_file",
    "cache_mib",
    "seed",
    "surfaces",
    "ledger",
    "oidc",
    "connectors",
)
"""Keys of the settings that are read when the daemon starts, and not again."""
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


def page_settings(surfaces: SurfaceSettings) -> PageSettings:
    """Return what the settings say of the task page."""
    https = (surfaces.worker_url or "").startswith("https://")
    return PageSettings(https=https, contact=surfaces.contact)


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
    connectors: Mapping[str, Market | Feed],
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
    connectors: Mapping[str, Market | Feed],
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
    connectors : Mapping[str, Market | Feed]
    workspace : Workspace
        Its settings are replaced by a reload.
    daemon : Daemon
    notifier : Notifier
    nearness : LimitUsages
        How near limits are, for all pages and notices.
    """

    def __init__(
        self,
        store: Store,
        connectors: Mapping[str, Market | Feed],
        workspace: Workspace,
        daemon: Daemon,
        notifier: Notifier,
        nearness: LimitUsages,
    ) -> None:
        self._store = store
        self._connectors = connectors
        self._workspace = workspace
        self._daemon = daemon
        self._notifier = notifier
        self._reloaded = True
        self._log = get_logger("servers")
        self._nearness = nearness
        tables = Tables(
            store,
            self._workspace.clock,
            self._nearness,
            leads=daemon.is_leading,
            reloaded=lambda: self._reloaded,
            connectors=sorted(connectors),
        )
        webhooks = frozenset(
            name
            for name, values in workspace.config.connectors.items()
            if values.get("kind", name) == "webhook"
        )
        self._registry, self._timing = make_registry(tables, StageMeters(webhooks))
        self._listeners: list[Listener] = []
        self._api: Shared | None = None
        self._provider = open_provider(workspace)

    def bind(self) -> None:
        """Take the ports, before anything ticks.

        Raises
        ------
        AddressTaken
        """
        surfaces = self._workspace.config.surfaces
        for name, app in self._apps().items():
            host, port = split_address(getattr(surfaces, name), name)
            self._listeners.append(Listener(name, Swap(app), bind(name, host, port)))

    def close(self) -> None:
        """Give the ports back, also those that nothing was served on."""
        if self._api is not None:
            self._api.requests.close()
            self._api.scratch.close()
        if self._provider is not None:
            self._provider.close()
        for listener in self._listeners:
            listener.socket.close()

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
            self._listeners,
            draining=draining,
            drained=self._drained,
            drain_seconds=drain,
            started=self._started,
            reload=lambda: self.reload(ticks),
            beat=self._beat,
            proxied=self._workspace.config.surfaces.behind_proxy,
        )

    def reload(self, ticks: Callable[[], list[Tick]]) -> bool:
        """Read the settings again; those in force stay where the file is bad.

        Returns
        -------
        bool
            Whether they are in force now, as far as a running daemon can change.
        """
        self._notifier.reloading()
        before = self._workspace.config
        try:
            read = replace(self._workspace).config  # one that has read nothing yet
            kept = {name: getattr(before, name) for name in AT_START}
            self._workspace.config = read.model_copy(update=kept)
            apps = self._apps()
            self._daemon.retick(ticks(), self._workspace.config.ticks.leading)
        except DispatcherError as error:
            self._workspace.config = before
            self._reloaded = False
            self._log.error("reload-refused", code=error.code, what=error.what)
        else:
            for listener in self._listeners:
                listener.app.app = apps[listener.name]
            self._reloaded = True
            later = [name for name in AT_START if getattr(read, name) != kept[name]]
            self._log.info("reloaded", needs_restart=",".join(later))
        self._notifier.ready("leading")
        return self._reloaded

    def _apps(self) -> dict[str, ASGIApp]:

        config = self._workspace.config
        operators = console_app(
            self._workspace,
            self._store,
            shared=self._shared(),
            nearness=self._nearness,
            settings=ConsoleSettings(
                url=config.surfaces.operator_url or "",
                behind_proxy=config.surfaces.behind_proxy,
            ),
            preflight=self._workspace.preflight(self._store, self._connectors),
            provider=self._provider,
        )
        if config.surfaces.api:
            operators = _by_path(self._rest_api(config), operators)
        return {
            "operators": Timed(operators, "operators", self._timing),
            "workers": Timed(self._task_page(config), "workers", self._timing),
            "admin": health_app(
                self._store, self._daemon, self._workspace.clock, self._registry
            ),
        }

    def _rest_api(self, config: Config) -> ASGIApp:
        """Make the REST API."""
        from dispatcher.access import authenticate_token
        from dispatcher.surfaces.api.app import ApiSettings, api_app

        return api_app(
            self._workspace,
            self._store,
            authenticate_token,
            shared=self._shared(),
            settings=ApiSettings(
                url=config.surfaces.operator_url or "",
                behind_proxy=config.surfaces.behind_proxy,
            ),
        )

    def _shared(self) -> Shared:
        """Return what API and console remember; it outlives a reload."""
        if self._api is None:
            store, clock = self._store, self._workspace.clock
            preflight = self._workspace.preflight(store, self._connectors)
            self._api = Shared(
                Requests(store, clock),
                Stream(store),
                lambda: status(store, clock(), preflight, self._nearness, exact=False),
                ScratchFolder(self._workspace.directory / "api-files"),
                self._nearness,
            )
            self._api.requests.open()
            self._api.scratch.sweep()
        return self._api

    def _task_page(self, config: Config) -> Any:  # noqa: ANN401 - an ASGI application

        markets = {
            name: connector
            for name, connector in self._connectors.items()
            if isinstance(connector, Market)
            and (
                connector.manifest.content is Content.OURS
                or isinstance(connector, Heeding)
            )
        }
        return task_app(
            self._store,
            markets,
            clock=self._workspace.clock,
            rng=np.random.default_rng(),
            epoch=self._daemon.epoch_to_show,
            terms=ServingTerms(
                lease=config.tasks.lease,
                extensions=config.tasks.extensions,
                apart=config.tasks.apart,
                patience=config.tasks.patience,
                undo=config.tasks.undo,
                gold=config.quality.gold,
                floor=config.quality.floor,
                floor_after=config.quality.floor_after,
            ),
            sessions=SessionTerms(
                idle=config.sessions.idle,
                absolute=config.sessions.absolute,
                shared_browser=config.sessions.shared_browser,
                withdrawing=withdrawing(self._workspace),
            ),
            settings=page_settings(config.surfaces),
            feeds={
                name: connector
                for name, connector in self._connectors.items()
                if isinstance(connector, Fetching)
            },
        )

    def _started(self) -> None:
        collect_promptly()
        for listener in self._listeners:
            print(f"{listener.name:9} {listener.url}/", file=sys.stderr, flush=True)
        self._notifier.ready("leading")
        if sys.stderr.isatty():  # a journal would keep the link
            with suppress(DispatcherError):  # busy: a command makes one as well
                url = self._listeners[0].url
                link = make_sign_in_link(self._workspace, self._store, url)
                print(f"sign in   {link}   (once, within 10 min)", file=sys.stderr)
                first = invite_first_admin(self._workspace, self._store, url)
                print(f"be admin  {first}   (as above)", file=sys.stderr)

    def _beat(self) -> None:
        if self._api is not None:
            self._api.requests.expire()
        self._notifier.beat(self._alive)

    def _drained(self) -> bool:
        return self._in_hand() == 0

    def _in_hand(self) -> int | None:
        """Count tasks in workers' hands that this daemon waits for; None: unknown."""
        if not self._daemon.is_leading():
            return 0  # another one leads: nothing is ours to wait for
        try:
            with self._store.read() as tx:
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


def _by_path(api: ASGIApp, console: ASGIApp) -> ASGIApp:
    """Serve the API under its own path, and the console at all others."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        app = api if scope["path"].startswith("/api/") else console
        await app(scope, receive, send)

    return serve
