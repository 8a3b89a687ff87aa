"""The daemon of a store and its console: stop it, sign in, sign everybody out."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Final

from dispatcher import access
from dispatcher.core.errors import Conflict, DispatcherError
from dispatcher.core.processes import describe_process, is_dead, local_pid
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, lease
from dispatcher.store.lease import LeaseHolder

POLL: Final = 0.1
"""Seconds between two checks whether a daemon has ended."""


@dataclass(frozen=True)
class Stopped:
    """A daemon that was asked to stop: its process, and whether it has ended."""

    process: str
    ended: bool


def stop(store: Store, wait: float) -> Stopped | None:
    """Ask the daemon that leads a store to end, if it runs on this machine.

    Parameters
    ----------
    store : Store
    wait : float
        Seconds to wait for its end; after that it goes on draining.

    Returns
    -------
    Stopped or None
        None where no daemon runs.

    Raises
    ------
    Conflict
        It runs on another machine, or belongs to another user.
    """
    leader = _leader(store)
    if leader is None:
        return None
    process = describe_process(leader.holder)
    pid = local_pid(leader.holder)
    if pid is None:
        raise Conflict(
            f"{process} leads this store, and runs on another machine",
            why="a process can only be stopped on its own machine",
            fix="run dispatcher down there; if that machine is gone, its lease ends by "
            "itself",
        )
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise Conflict(
            f"{process} may not be stopped by this user",
            why="the daemon belongs to another user",
            fix="run the command as its user",
        ) from None
    return Stopped(process, _ended(store, leader, wait))


def leader_of(store: Store) -> str | None:
    """Return the process that leads a store; None where no daemon runs."""
    leader = _leader(store)
    return None if leader is None else describe_process(leader.holder)


def _leader(store: Store) -> LeaseHolder | None:
    with store.read() as tx:
        found = lease.holder(tx, lease.SHARD)
    gone = found is None or found.leased_until == 0 or is_dead(found.holder)
    return None if gone else found


def _ended(store: Store, leader: LeaseHolder, seconds: float) -> bool:
    """Whether a leader releases its lease, or ends, within so many seconds."""
    until = time.monotonic() + seconds
    while True:
        try:
            now = _leader(store)
        except DispatcherError:
            now = leader  # the store is busy: ask again in a moment
        if now is None or now.epoch != leader.epoch:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(POLL)


def make_sign_in_link(
    workspace: Workspace, store: Store, base: str | None = None
) -> str:
    """Make a link that opens the console once, within ten minutes.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    base : str, optional
        URL of the console unless the settings have an ``operator_url``; None: where it
        listens.
    """
    surfaces = workspace.config.surfaces
    where = surfaces.operator_url or base or f"http://{surfaces.operators}"
    return access.sign_in_link(where, access.make_link(store, workspace.clock()))


def sign_everybody_out(workspace: Workspace, store: Store) -> int:
    """End all sessions and all unused links; return how many sessions there were."""
    return access.sign_everybody_out(store, workspace.clock())
