"""``dispatcher`` as it is, but raising flags that tell what it is in the midst of.

Nothing else is changed: each function that is wrapped does what it did before.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from tests.e2e.torture.flags import PROGRAM, STAGES, Flags

VARIABLE = "TORTURE_FLAGS"


class Here(threading.local):
    """What this thread does."""

    stage = "other"
    writing = False
    committing = False


def mark(flags: Flags) -> None:
    """Wrap what is worth being killed in."""
    from connectors.folder.market import Folder
    from dispatcher.app.daemon import Daemon
    from dispatcher.app.server_lease import ServerLease
    from dispatcher.stages.serving import Serving
    from dispatcher.store import Store
    from dispatcher.store.transaction import Tx

    here = Here()

    def staged(owner: type, method: str, name: str) -> None:
        original = getattr(owner, method)

        @wraps(original)
        def wrapped(self: Any, *args: Any, **more: Any) -> Any:
            before = here.stage
            here.stage = name
            try:
                with flags.up(name):
                    return original(self, *args, **more)
            finally:
                here.stage = before

        setattr(owner, method, wrapped)

    def flagged(owner: type, method: str, name: str) -> None:
        original = getattr(owner, method)

        @wraps(original)
        def wrapped(self: Any, *args: Any, **more: Any) -> Any:
            with flags.up(name):
                return original(self, *args, **more)

        setattr(owner, method, wrapped)

    turn: Callable[..., None] = Daemon._turn

    def _turn(self: Daemon, tick: Any) -> None:
        stage = tick.name.partition(":")[0]  # of one connector or of all
        here.stage = stage if stage in STAGES else "other"
        try:
            with flags.up(here.stage):
                turn(self, tick)
        finally:
            here.stage = "other"

    write = Store.write

    @contextmanager
    def _write(self: Store) -> Iterator[Tx]:
        stage = here.stage
        try:
            with write(self) as tx:
                flags.add(f"{stage}/write", 1)
                here.writing = True
                yield tx
        finally:
            if here.committing:
                flags.add(f"{stage}/commit", -1)
            if here.writing:
                flags.add(f"{stage}/write", -1)
            here.writing = here.committing = False

    finish = Tx.finish

    def _finish(self: Tx) -> None:
        finish(self)
        if here.writing and not here.committing:
            here.committing = True
            flags.add(f"{here.stage}/commit", 1)

    start = Daemon.start

    def _start(self: Daemon, *args: Any) -> None:
        start(self, *args)
        flags.add("leads", 1)

    beat = ServerLease.beat

    def _beat(self: ServerLease) -> None:
        beat(self)
        if self.is_serving() and not flags.is_up("leads"):
            flags.add("leads", 1)

    ServerLease.beat = _beat  # type: ignore[method-assign]
    Daemon._turn = _turn  # type: ignore[method-assign]
    Daemon.start = _start  # type: ignore[method-assign]
    Store.write = _write  # type: ignore[method-assign]
    Tx.finish = _finish  # type: ignore[method-assign]
    staged(Daemon, "_renew", "leading")
    staged(Serving, "start", "start")
    staged(Serving, "answer", "answer")
    staged(Serving, "in_hand", "crop")
    flagged(Folder, "publish", "publish")
    flagged(Folder, "collect", "collect-files")


if __name__ == "__main__":
    from dispatcher.__main__ import main

    mark(Flags(Path(os.environ[VARIABLE]), PROGRAM))
    sys.exit(main())
