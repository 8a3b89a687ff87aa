"""A server beside the leader: pages, console and API, and no ticks."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

from dispatcher.app.metrics import health_app, make_registry
from dispatcher.app.server_lease import ServerLease
from dispatcher.app.servers import serve
from dispatcher.app.systemd import Notifier
from dispatcher.core.config import Config
from dispatcher.core.errors import Usage
from dispatcher.core.processes import collect_promptly
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.ledger.shipping import RemoteShipper
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store
from dispatcher.store.audit_log import Act
from dispatcher.surfaces.applications import ALL, API, Applications, events_of

MARGIN: Final = 10.0
"""Seconds for stopping beyond the drain, reported to the service manager."""


def choose(config: Config, only: Sequence[str]) -> tuple[str, ...]:
    """Return what a server serves.

    Raises
    ------
    Usage
        The API is asked for, and the settings do not serve it.
    """
    if API in only and not config.surfaces.api:
        raise Usage(
            "the settings do not serve the API",
            why="[surfaces] api is false: it is served nowhere before an operator says so",
            fix="set api = true in [surfaces], or leave --only api out",
        )
    if only:
        return tuple(name for name in ALL if name in only)
    return tuple(name for name in ALL if name != API or config.surfaces.api)


def run(
    workspace: Workspace,
    *,
    only: Sequence[str],
    addresses: Mapping[str, str],
    drain: float,
    begun: Act,
) -> None:
    """Serve beside the leader until a signal ends it.

    Parameters
    ----------
    workspace : Workspace
    only : sequence of str
        What is served; empty: all that the settings serve.
    addresses : Mapping[str, str]
        ``HOST:PORT`` by server, in place of the settings'.
    drain : float
        Seconds to go on serving at the end, while proxies notice.
    begun : Act
        For the audit log, once it serves.

    Raises
    ------
    Usage
        The store is one that a single process serves.
    AddressTaken
    """
    workspace = replace(workspace, actor="server")
    config = workspace.config
    serves = choose(config, only)
    surfaces = config.surfaces.model_validate(
        config.surfaces.model_dump() | dict(addresses)
    )
    workspace.config = config.model_copy(update={"surfaces": surfaces})
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    with workspace.open_store() as store:
        if not store.is_served_by_many:
            raise Usage(
                "servers beside the leader need PostgreSQL",
                why="SQLite has one writer for the whole file: further processes would "
                "only wait for it",
                fix="serve with dispatcher up alone, or move to PostgreSQL "
                "(docs/howto/operators/scale.md)",
            )
        server = PageServer(store, workspace, serves)
        with closing(server):
            server.bind()
            begun.end(store)
            server.serve(drain)


class PageServer:
    """Serves applications under a lease of its own.

    Parameters
    ----------
    store : Store
    workspace : Workspace
        Its settings are replaced by a reload.
    serves : tuple of str
    """

    def __init__(
        self, store: Store, workspace: Workspace, serves: tuple[str, ...]
    ) -> None:
        self._workspace = workspace
        self._notifier = Notifier(os.environ, time.monotonic)
        self.lease = ServerLease(
            store,
            workspace.clock,
            ",".join(serves),
            steady=time.monotonic,
            number=lambda: secrets.randbits(62),
        )
        shipper = RemoteShipper(
            store,
            leads=self.lease.is_led,
            needed=lambda: self.lease.leader_ships,
            steady=time.monotonic,
        )
        store.attach(shipper)
        connectors = workspace.open_connectors(store)
        registry, timing = make_registry(None, events_of(workspace))
        self._made = Applications(
            store,
            connectors,
            workspace,
            self.lease,
            LimitUsages(),
            timing=timing,
            serves=serves,
            in_service=self.lease.is_serving,
        )
        self._health = health_app(
            store,
            self.lease,
            None,
            registry,
            standing="has a lease beside a leader and does not drain",
        )

    def bind(self) -> None:
        """Take the addresses.

        Raises
        ------
        AddressTaken
        """
        self._made.bind(self._health)

    def close(self) -> None:
        """Give addresses and lease back."""
        self._made.close()
        self.lease.leave()

    def serve(self, drain: float) -> None:
        """Serve until a signal ends it; it goes on while proxies notice that it leaves."""
        until: list[float] = []

        def draining() -> None:
            until.append(time.monotonic() + drain)
            self._notifier.stopping(drain + MARGIN)
            self.lease.begin_drain()
            with suppress(OSError, ValueError):  # nobody reads any more
                print(f"stopping in {drain:g} s", file=sys.stderr, flush=True)

        serve(
            self._made.listeners,
            draining=draining,
            drained=lambda: time.monotonic() >= until[0],
            drain_seconds=drain,
            started=self._started,
            reload=self.reload,
            beat=self._beat,
            proxies=self._workspace.config.surfaces.believed,
        )

    def reload(self) -> bool:
        """Read the settings again; those in force stay where the file is bad."""
        self._notifier.reloading()
        reloaded = self._made.reload()
        self._notifier.ready("serving")
        return reloaded

    def _started(self) -> None:
        collect_promptly()
        self._made.announce()
        self._notifier.ready("serving")

    def _beat(self) -> None:
        self.lease.beat()
        self._made.expire()
        self._notifier.beat(lambda: True)
