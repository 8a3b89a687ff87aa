"""A process that serves the three applications over a store: ``three_servers STORE LIMIT``.

It prints the port of each as soon as all answer, and logs to standard error.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from prometheus_client import CollectorRegistry

from dispatcher.app.metrics import health_app
from dispatcher.app.servers import Listener, Swap, bind, serve
from dispatcher.core import log
from dispatcher.store import open_store
from dispatcher.surfaces.taskpage import task_app
from tests.integration.console_house import make_console


class Open:
    """A daemon that leads."""

    def is_open(self) -> bool:
        return True


def clock() -> int:
    return time.time_ns() // 1000


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)
    log.configure()
    with open_store(sys.argv[1]) as store:
        apps = {
            "operators": make_console(store, clock),
            "workers": task_app(store, {}, clock=clock, rng=np.random.default_rng(1)),
            "admin": health_app(store, Open(), clock, CollectorRegistry()),
        }
        listeners = [
            Listener(name, Swap(app), bind(name, "127.0.0.1", 0))
            for name, app in apps.items()
        ]
        ports = [str(one.socket.getsockname()[1]) for one in listeners]
        serve(
            listeners,
            draining=lambda: None,
            drained=lambda: True,
            drain_seconds=1,
            started=lambda: print(*ports, flush=True),
        )


if __name__ == "__main__":
    main()
