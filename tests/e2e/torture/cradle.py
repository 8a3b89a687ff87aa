"""Processes born of one that has read the program already.

Most of the second or two of a start is Python reading modules. A server that has read
them, and has done nothing else, forks each process: what runs in it is what would run in
a new interpreter, only sooner.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

READ = (
    "httpx2", "tests.e2e.torture.diary", "dispatcher.surfaces.demo.forms",
    "dispatcher.app.daemon", "dispatcher.surfaces.console.app",
    "dispatcher.surfaces.taskpage.app", "dispatcher.app.metrics",
    "dispatcher.surfaces.cli.app", "dispatcher.surfaces.daemon",
    "dispatcher.surfaces.cli.daemon", "dispatcher.surfaces.server", "dispatcher.operations.subjects",
    "dispatcher.ledger.shipping", "dispatcher.ledger.versions",
    "dispatcher.custody.erasure", "dispatcher.stages.booking",
    "dispatcher.stages.planning", "dispatcher.stages.sending",
    "dispatcher.stages.serving", "dispatcher.stages.collecting",
    "dispatcher.stages.assembly", "dispatcher.stages.intake",
    "dispatcher.stages.intake.images", "connectors.folder.market",
    "connectors.inhouse.market", "policies.solvers", "scipy.sparse.csgraph",
    "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql",
    "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on", "anyio.to_thread", "anyio._backends._asyncio",
)  # fmt: skip
"""What ``up``, ``records load`` and the simulated workers read; nothing that acts."""


@cache
def _cradle() -> ForkServerContext:
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(list(READ))
    return made


class Born:
    """A process of the cradle, in a group of its own; used as a ``Popen`` is.

    Parameters
    ----------
    module : str
        Run as ``python -m MODULE`` would.
    words : sequence of str
        What follows it.
    environment : Mapping
    log : Path or None
        Where its output goes; None: nowhere.
    """

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path | None,
    ) -> None:
        self._process = _cradle().Process(
            target=_live, args=(module, list(words), dict(environment), log)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit status.

        Raises
        ------
        subprocess.TimeoutExpired
        """
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("a process of the cradle", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def kill_group(pid: int) -> None:
    """SIGKILL a process and its group, which it may not have made yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _live(
    module: str, words: list[str], environment: dict[str, str], log: Path | None
) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    with Path(log or os.devnull).open("ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
