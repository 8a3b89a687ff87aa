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
import tempfile
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
    errors : Path, optional
        Where its errors go; None: to the output.
    place : Path, optional
        Directory in which it begins; None: the one of the tests.
    """

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path | None,
        errors: Path | None = None,
        place: Path | None = None,
    ) -> None:
        outputs = (log, errors or log)
        self._process = _cradle().Process(
            target=_live, args=(module, list(words), dict(environment), outputs, place)
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

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def completed(
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    place: Path | None = None,
    together: bool = False,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Run a command of the program to its end, as ``subprocess.run`` would.

    ``together``: what it says of errors comes in its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        errors = out if together else Path(folder, "errors")
        born = Born(
            "dispatcher", words,
            environment=environment, log=out, errors=errors, place=place,
        )  # fmt: skip
        try:
            status = born.wait(timeout)
        finally:
            born.kill()
        said = "" if together else errors.read_text("utf-8")
        return subprocess.CompletedProcess(
            list(words), status, out.read_text("utf-8"), said
        )


def kill_group(pid: int) -> None:
    """SIGKILL a process and its group, which it may not have made yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _live(
    module: str,
    words: list[str],
    environment: dict[str, str],
    outputs: tuple[Path | None, Path | None],
    place: Path | None,
) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(outputs, start=1):
        with Path(path or os.devnull).open("ab") as file:
            os.dup2(file.fileno(), number)
    if place is not None:
        os.chdir(place)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
