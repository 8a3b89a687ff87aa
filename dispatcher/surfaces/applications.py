"""The applications of a process, made from its settings: task page, console, API, health."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from connectors.base import Content, Feed, Fetching, Heeding, Market
from dispatcher.app.guard import InService
from dispatcher.app.metrics import StageMeters, Timed, Timing
from dispatcher.app.servers import Listener, Swap, bind
from dispatcher.core.config import Config, SurfaceSettings, split_address
from dispatcher.core.errors import DispatcherError
from dispatcher.core.log import get_logger
from dispatcher.core.private_files import ScratchFolder
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.operations.dry_run import withdrawing
from dispatcher.operations.people import open_provider
from dispatcher.operations.status import status
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.serving import ServingTerms, SessionTerms
from dispatcher.store import Store
from dispatcher.store.lease import Fence
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.api.events import Stream
from dispatcher.surfaces.api.requests import Requests
from dispatcher.surfaces.console import ConsoleSettings, console_app
from dispatcher.surfaces.taskpage import PageSettings, task_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TASKS: Final = "tasks"
API: Final = "api"
CONSOLE: Final = "console"
ALL: Final = (TASKS, API, CONSOLE)
"""What a process can serve."""

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
"""Keys of the settings that are read when a process starts, and not again."""


class ServingLease(Protocol):
    """Under which lease a process serves: as the leader, or beside it."""

    def fence(self) -> Fence:
        """Return the lease of what is shown now; raises StaleLease where there is none."""


class Applications:
    """Makes the applications of a process, binds their addresses, and makes them anew.

    Parameters
    ----------
    store : Store
    connectors : dict of str to Market or Feed
        A reload adds those that are new.
    workspace : Workspace
        Its settings are replaced by a reload.
    standing : ServingLease
    usages : LimitUsages
        How near limits are, for all pages.
    timing : Timing
    serves : collection of str
        Which of :data:`ALL`.
    in_service : callable, optional
        Whether a server beside the leader may show anything: it answers 503 while not.

    Attributes
    ----------
    listeners : list of Listener
        With the addresses of :meth:`bind`.
    """

    def __init__(
        self,
        store: Store,
        connectors: dict[str, Market | Feed],
        workspace: Workspace,
        standing: ServingLease,
        usages: LimitUsages,
        *,
        timing: Timing,
        serves: tuple[str, ...] = ALL,
        in_service: Callable[[], bool] | None = None,
    ) -> None:
        self.listeners: list[Listener] = []
        self._store = store
        self._connectors = connectors
        self._workspace = workspace
        self._standing = standing
        self._usages = usages
        self._timing = timing
        self._serves = serves
        self._in_service = in_service
        self._api: Shared | None = None
        self._log = get_logger("servers")
        self._provider = open_provider(workspace)

    def bind(self, admin: ASGIApp) -> None:
        """Take the addresses of the settings, before anything is served.

        Parameters
        ----------
        admin : ASGI application
            Health and metrics, which a reload leaves as they are.

        Raises
        ------
        AddressTaken
        """
        surfaces = self._workspace.config.surfaces
        for name, app in {**self.make(), "admin": admin}.items():
            host, port = split_address(getattr(surfaces, name), name)
            self.listeners.append(Listener(name, Swap(app), bind(name, host, port)))

    def close(self) -> None:
        """Give the addresses back, also those that nothing was served on."""
        if self._api is not None:
            self._api.requests.close()
            self._api.scratch.close()
        if self._provider is not None:
            self._provider.close()
        for listener in self.listeners:
            listener.socket.close()

    def expire(self) -> None:
        """Delete files that nobody fetched in time."""
        if self._api is not None:
            self._api.requests.expire()

    def make(self) -> dict[str, ASGIApp]:
        """Make the applications from the settings in force, by their servers' names."""
        config = self._workspace.config
        self._preflight = self._workspace.preflight(self._store, self._connectors)
        made: dict[str, ASGIApp] = {}
        if API in self._serves or CONSOLE in self._serves:
            made["operators"] = self._operators(config)
        if TASKS in self._serves:
            made["workers"] = self._task_page(config)
        for name, app in made.items():
            if self._in_service is not None:
                url = config.surfaces.worker_url if name == "workers" else ""
                https = (url or "").startswith("https://")
                app = InService(app, self._in_service, https=https)  # noqa: PLW2901
            made[name] = Timed(app, name, self._timing)
        return made

    def reload(self, also: Callable[[], None] = lambda: None) -> bool:
        """Read the settings again; those in force stay where the file is bad.

        Requests under way are finished by the application that they came to.

        Parameters
        ----------
        also : callable, optional
            Takes the new settings too, before anything is served by them.

        Returns
        -------
        bool
            Whether they are in force now, as far as a running process can change.
        """
        before, opened = self._workspace.config, dict(self._connectors)
        try:
            self._workspace.config, later = _reread(self._workspace)
            self._connectors |= self._workspace.open_connectors(
                self._store, self._opened_anew()
            )
            made = self.make()
            also()
        except DispatcherError as error:
            self._workspace.config = before
            for name in self._connectors.keys() - opened.keys():
                del self._connectors[name]
            self._connectors |= opened
            self._log.error("reload-refused", code=error.code, what=error.what)
            return False
        for listener in self.listeners:
            if listener.name in made:
                listener.app.app = made[listener.name]
        self._log.info("reloaded", needs_restart=",".join(later))
        return True

    def _opened_anew(self) -> list[str]:
        """Name the connectors that a reload opens: new ones, and those with a secret.

        What else is changed of a connector waits for a restart: the gate judged by it
        what is under way.
        """
        return [
            name
            for name, values in self._workspace.config.connectors.items()
            if name not in self._connectors or "secret_file" in values
        ]

    def announce(self) -> None:
        """Say on stderr where what is served."""
        for listener in self.listeners:
            print(f"{listener.name:9} {listener.url}/", file=sys.stderr, flush=True)

    def _operators(self, config: Config) -> ASGIApp:
        """Make the console and the REST API, whichever is served."""
        served = API in self._serves and config.surfaces.api
        if CONSOLE not in self._serves:
            return self._rest_api(config)
        console = console_app(
            self._workspace,
            self._store,
            shared=self._shared(),
            nearness=self._usages,
            settings=ConsoleSettings(
                url=config.surfaces.operator_url or "",
                behind_proxy=config.surfaces.behind_proxy,
            ),
            preflight=self._preflight,
            provider=self._provider,
        )
        return _by_path(self._rest_api(config), console) if served else console

    def _rest_api(self, config: Config) -> ASGIApp:
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
            self._api = Shared(
                Requests(store, clock),
                Stream(store),
                lambda: status(
                    store, clock(), self._preflight, self._usages, exact=False
                ),
                ScratchFolder(self._workspace.directory / "api-files"),
                self._usages,
                reload=lambda: os.kill(os.getpid(), signal.SIGHUP),
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
            fence=self._standing.fence,
            terms=ServingTerms(
                lease=config.tasks.lease,
                extensions=config.tasks.extensions,
                apart=config.tasks.apart,
                patience=config.tasks.patience,
                undo=config.tasks.undo,
                choose=config.tasks.choose,
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


def page_settings(surfaces: SurfaceSettings) -> PageSettings:
    """Return what the settings say of the task page."""
    https = (surfaces.worker_url or "").startswith("https://")
    return PageSettings(https=https, contact=surfaces.contact)


def events_of(workspace: Workspace) -> StageMeters:
    """Make the meters of a process: which connectors are webhooks, they know by name."""
    webhooks = frozenset(
        name
        for name, values in workspace.config.connectors.items()
        if values.get("kind", name) == "webhook"
    )
    return StageMeters(webhooks)


def _reread(workspace: Workspace) -> tuple[Config, list[str]]:
    """Read the settings again; return them as a running process may take them.

    Returns
    -------
    Config
        With what is read at the start only as it was, but for new connectors.
    list of str
        Keys of it that changed.

    Raises
    ------
    Invalid
    """
    before = workspace.config
    read = replace(workspace).config  # one that has read nothing yet
    kept = {name: getattr(before, name) for name in AT_START}
    kept["connectors"] = {**read.connectors, **before.connectors}
    later = [name for name in AT_START if getattr(read, name) != kept[name]]
    return read.model_copy(update=kept), later


def _by_path(api: ASGIApp, console: ASGIApp) -> ASGIApp:
    """Serve the API under its own path, and the console at all others."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        app = api if scope["path"].startswith("/api/") else console
        await app(scope, receive, send)

    return serve
