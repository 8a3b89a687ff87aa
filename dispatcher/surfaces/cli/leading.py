"""Who runs the daemon: not root, one at a time, stopped by ``dispatcher down``."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dispatcher.core.errors import (
    EXIT_UNFINISHED,
    EXIT_UNREACHABLE,
    Conflict,
    DispatcherError,
    Usage,
)
from dispatcher.surfaces.cli.context import CliContext, leave, wall_clock

if TYPE_CHECKING:
    from dispatcher.app.daemon import Daemon
    from dispatcher.app.systemd import Notifier
    from dispatcher.store import Store
    from dispatcher.store.lease import Holder

LOOK: Final = 0.1
"""Seconds between two looks whether a daemon has ended."""


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


def lead_in_turn(daemon: Daemon, store: Store, notifier: Notifier) -> bool:
    """Wait until the lease is free and take it; SIGTERM and SIGINT end the waiting.

    Returns
    -------
    bool
        Whether it leads; signals have the effect again that they had before.
    """
    from dispatcher.app.leadership import Standby

    told: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: told.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }

    def pause(seconds: float) -> bool:
        until = time.monotonic() + seconds
        notifier.ready("standing by")
        while not told and (left := until - time.monotonic()) > 0:
            notifier.beat()
            time.sleep(min(LOOK, left))
        return bool(told)

    waits = Standby(store, wall_clock, steady=time.monotonic, pause=pause)
    try:
        leads = daemon.lead_after(waits)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if leads and told:  # as the lease was being taken: nobody would hear of it again
        daemon.stop()
        return False
    return leads


def down(
    ctx: typer.Context,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for its end.")
    ] = 60.0,
) -> None:
    """Stop the daemon that leads this store, if it runs on this machine.

    It is sent SIGTERM and drains; exit 14 when none runs, 8 when it has not ended in
    time (it goes on draining).
    """
    from dispatcher.app.leadership import spoken

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = _leader(store)
        if found is None:
            context.say("no daemon runs")
            leave(EXIT_UNREACHABLE)
        pid = _pid_here(found)
        try:
            os.kill(pid, signal.SIGTERM)
        except PermissionError:
            raise Conflict(
                f"{spoken(found.holder)} may not be stopped by this user",
                why="the daemon belongs to somebody else",
                fix="run the command as its user",
            ) from None
        if not _ended(store, found, wait):
            context.say(f"{spoken(found.holder)} drains; it has not ended yet")
            leave(EXIT_UNFINISHED)
    context.show(
        {"schema": "dispatcher.down/1", "stopped": spoken(found.holder)},
        f"stopped {spoken(found.holder)}",
    )


def _leader(store: Store) -> Holder | None:
    from dispatcher.app.leadership import is_dead
    from dispatcher.store import lease

    with store.read() as tx:
        found = lease.holder(tx, lease.SHARD)
    gone = found is None or found.leased_until == 0 or is_dead(found.holder)
    return None if gone else found


def _pid_here(found: Holder) -> int:
    """Process of a leader on this machine.

    Raises
    ------
    Conflict
        It runs elsewhere, or nobody can tell.
    """
    from dispatcher.app.leadership import is_here, spoken

    pid = is_here(found.holder)
    if pid is None:
        raise Conflict(
            f"{spoken(found.holder)} leads this store, which is no process of here",
            why="a process can only be told to end on its own machine",
            fix="run dispatcher down there; if that machine is gone, its lease ends by "
            "itself",
        )
    return pid


def _ended(store: Store, found: Holder, seconds: float) -> bool:
    """Whether a leader gives its lease back, or is gone, within so many seconds."""
    until = time.monotonic() + seconds
    while True:
        try:
            now = _leader(store)
        except DispatcherError:
            now = found  # busy: looked at again in a moment
        if now is None or now.epoch != found.epoch:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(LOOK)
