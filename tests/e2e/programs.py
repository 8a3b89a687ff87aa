"""The program as a process, and waiting for what it does without guessing how long."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from dispatcher.app.servers import free_ports
from dispatcher.ledger.versions import apply_policy
from dispatcher.store import open_store
from dispatcher.surfaces.cli.context import wall_clock
from policies.document.samples import sample_text
from tests.cradle import Born, completed
from tests.patience import PATIENCE, until

SETTINGS = """
[surfaces]
workers = "127.0.0.1:{workers}"
admin = "127.0.0.1:{admin}"
operators = "127.0.0.1:{operators}"

[ticks]
leading = 0.5
booking = 0.3
planning = 0.3
"""


INTERPRETED = (sys.executable, "-m", "dispatcher")


def environment() -> dict[str, str]:
    """The environment without settings of a store; root may run the daemon."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DISPATCHER_")}
    return kept | {"DISPATCHER_ALLOW_ROOT": "1"}


class Program:
    """The program in one directory.

    Attributes
    ----------
    directory : Path
    ports : list of int
        Of the task page, of health and of the console.
    anew : bool
        Whether each command is an interpreter of its own, and is not forked: for a test
        of what is there before Python begins.
    """

    def __init__(self, directory: Path, *, anew: bool = False) -> None:
        self.directory, self.anew = directory, anew
        self.ports = free_ports(3)

    def settle(self, store: Path) -> None:
        """Put a copy of an empty store here, with a policy in force."""
        shutil.copy(store, self.directory / "dispatcher.db")
        workers, admin, operators = self.ports
        text = SETTINGS.format(workers=workers, admin=admin, operators=operators)
        (self.directory / "dispatcher.toml").write_text(text)
        policy = sample_text("tickets").encode()
        path = self.directory / "dispatcher.db"
        with open_store(path) as opened, opened.write() as tx:
            apply_policy(tx, policy, at=wall_clock())

    def words(self, *words: str) -> list[str]:
        return ["-C", str(self.directory), *words]

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        if self.anew:
            done = subprocess.run(
                [*INTERPRETED, *self.words(*words)],
                capture_output=True,
                text=True,
                check=False,
                env=environment(),
                timeout=PATIENCE,
            )
        else:
            done = completed(
                self.words(*words), environment=environment(), timeout=PATIENCE
            )
        assert done.returncode == code, done.stderr
        return done

    @contextmanager
    def up(self, *words: str):
        """Run the daemon beside the test; killed at the end if it still runs."""
        process = self._begun("up", *words)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _begun(self, *words: str) -> subprocess.Popen | Born:
        log = self.directory / "up.log"
        with log.open("ab") as out:
            if self.anew:
                return subprocess.Popen(
                    [*INTERPRETED, *self.words(*words)],
                    stdout=out,
                    stderr=out,
                    env=environment(),
                )
        return Born(
            "dispatcher", self.words(*words), environment=environment(), log=log
        )

    def log(self) -> str:
        return (self.directory / "up.log").read_text()

    def page(self) -> httpx2.Response:
        """The task page, as whoever is not signed in sees it."""
        url = f"http://127.0.0.1:{self.ports[0]}/"
        return httpx2.get(url, timeout=PATIENCE, trust_env=False)

    def answers(self, path: str) -> int:
        """Status of health; 0 while nobody listens."""
        try:
            url = f"http://127.0.0.1:{self.ports[1]}{path}"
            return httpx2.get(url, timeout=PATIENCE, trust_env=False).status_code
        except httpx2.HTTPError:
            return 0

    def metrics(self) -> str:
        """All that the daemon measures."""
        url = f"http://127.0.0.1:{self.ports[1]}/metrics"
        return httpx2.get(url, timeout=PATIENCE, trust_env=False).text

    def metric(self, name: str) -> float:
        """Value of a metric without labels."""
        [line] = [x for x in self.metrics().splitlines() if x.startswith(f"{name} ")]
        return float(line.split()[1])

    def ready(self) -> None:
        until(lambda: self.answers("/readyz") == 200, f"ready\n{self.log()}")


def is_free(ports: Sequence[int]) -> bool:
    """Whether nobody listens on any of the ports."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True


def terminate(process: subprocess.Popen | Born) -> int:
    """Ask a process to end; its exit status."""
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE)
