"""The demo as the torturer sees it: its directory, its commands, its processes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dispatcher.app.servers import free_ports
from dispatcher.surfaces.demo.forms import WrittenBox, invent, write_forms
from dispatcher.surfaces.demo.show import SETTINGS
from tests.conftest import Cluster
from tests.cradle import Born, completed, kill_group
from tests.e2e.programs import PATIENCE
from tests.e2e.torture.flags import PEOPLE, PROGRAM, Flags
from tests.e2e.torture.victim import VARIABLE

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Sizes:
    """What is run."""

    records: int = 100
    workers: int = 20
    waves: int = 8
    seed: int = 7


class Scene:
    """A demo's directory and everything that runs in it.

    Parameters
    ----------
    directory : Path
        Its own; made here.
    sizes : Sizes
    store : str, optional
        URL of an empty database; None: the directory's own SQLite file.
    cluster : Cluster, optional
        The database's server, if it may be killed too.
    servers : int
        How many ``dispatcher serve`` show the task page in place of ``up``.
    """

    def __init__(
        self,
        directory: Path,
        sizes: Sizes,
        store: str | None = None,
        cluster: Cluster | None = None,
        *,
        servers: int = 0,
    ) -> None:
        self.cluster = cluster
        ports = free_ports(2 * servers)
        self.servers = [
            (f"127.0.0.1:{page}", f"127.0.0.1:{admin}")
            for page, admin in zip(ports[::2], ports[1::2], strict=True)
        ]
        self.directory = directory.absolute()
        self.sizes = sizes
        self.store = store
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DISPATCHER_ALLOW_ROOT": "1",
        }
        if store is not None:
            self.environment["DISPATCHER_STORE"] = store
        self.known: dict[str, WrittenBox] = {}
        self.truth: dict[str, Mapping[str, str]] = {}
        self.waves: list[Path] = []
        self.setting = self.directory / "people.json"
        self.logs = self.directory  # where processes write what they say and saw

    @property
    def diaries(self) -> Path:
        return self.logs / "diaries"

    def words(self, *words: str) -> list[str]:
        """A command line of the program."""
        return [
            sys.executable,
            "-m",
            "dispatcher",
            "--dir",
            str(self.directory),
            *words,
        ]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        line = ["--dir", str(self.directory), *words]
        return completed(line, environment=self.environment, timeout=PATIENCE)

    def command(self, *words: str) -> str:
        """Run a command that must succeed; return its output."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def begin(self, *words: str) -> Born:
        """Begin a command whose output nobody waits for."""
        line = ["--dir", str(self.directory), *words]
        log = self.logs / "commands.log"
        return Born("dispatcher", line, environment=self.environment, log=log)

    def do(self, *words: str) -> None:
        """Run a command that must succeed, without its output."""
        status = self.begin(*words).wait()
        assert status == 0, f"{words}: {status}, see {self.logs / 'commands.log'}"

    def prepare(self) -> None:
        """Draw the forms, make store, policy and workers; nothing is loaded yet."""
        self.directory.mkdir(parents=True)
        self.diaries.mkdir()
        rng = np.random.default_rng(self.sizes.seed)
        prescriptions = invent(self.sizes.records, rng)
        self.known = write_forms(prescriptions, self.directory, rng)
        self.truth = {one.rx_id: one.truth for one in prescriptions}
        self._cut_waves()
        self.do("init", "--example", "prescriptions")
        self.write_settings("dispatcher.toml")
        self.do("policy", "apply", "--sample")
        by_folder = max(1, self.sizes.workers // 5)
        folder = [f"folder/agency-{i + 1}" for i in range(by_folder)]
        page = [f"inhouse/w{i + 1:02d}" for i in range(self.sizes.workers - by_folder)]
        self.do("workers", "add", *folder)
        listed = self.command("--json", "workers", "add", *page, "--invite")
        self.setting.write_text(
            json.dumps(
                {
                    "known": {k: list(vars(w).values()) for k, w in self.known.items()},
                    "flags": str(self.directory / "people.flags"),
                    "diaries": str(self.diaries),
                    "invites": json.loads(listed)["invites"],
                    "folder": folder,
                    "spool": str(self.directory / "spool"),
                    "servers": [f"http://{page}" for page, _ in self.servers],
                }
            ),
            encoding="utf-8",
        )

    def write_settings(self, name: str) -> Path:
        """Settings with three free ports."""
        operators, workers, admin = free_ports(3)
        text = SETTINGS.format(operators=operators, workers=workers, admin=admin)
        if self.servers:
            # servers see sooner that it leads
            text = text.replace("[ticks]\n", "[ticks]\nleading = 0.5\n")
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path

    def _cut_waves(self) -> None:
        with (self.directory / "prescriptions.csv").open(newline="") as file:
            header, *rows = list(csv.reader(file))
        for i, part in enumerate(
            np.array_split(np.arange(len(rows)), self.sizes.waves)
        ):
            path = self.directory / f"wave-{i + 1}.csv"
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([header, *(rows[j] for j in part)])
            self.waves.append(path)

    def begin_load(self, wave: Path) -> Born:
        return self.begin("records", "load", str(wave))

    def load(self, wave: Path) -> None:
        self.do("records", "load", str(wave))


class Process:
    """A process in a group of its own, with its flags.

    ``anew``: by an interpreter of its own, which reads the program first, and not of
    the cradle.
    """

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        scene: Scene,
        *,
        name: str,
        names: tuple[str, ...],
        anew: bool = False,
    ) -> None:
        flags, log = scene.directory / f"{name}.flags", scene.logs / f"{name}.log"
        environment = {**scene.environment, VARIABLE: str(flags)}
        self.flags = Flags(flags, names)
        self.flags.clear()
        self.began = time.monotonic()
        self.process = (
            _interpreter(module, words, environment, log)
            if anew
            else Born(module, words, environment=environment, log=log)
        )

    def kill(self) -> list[str]:
        """SIGKILL the whole group; return what it was in the midst of."""
        kill_group(self.process.pid)
        self.process.wait()
        return self.flags.all_up()

    def end(self, seconds: float = PATIENCE) -> int:
        """SIGTERM, and wait for its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, flag: str, until: float) -> bool:
        """Wait for a flag, looking several times a millisecond; False if it is late."""
        while time.monotonic() < until and self.alive():
            if self.flags.is_up(flag):
                return True
            time.sleep(0.0003)
        return False

    def wait_to_lead(self, seconds: float = PATIENCE) -> float:
        """Wait until it leads; return the seconds since its start."""
        found = self.wait_for("leads", time.monotonic() + seconds)
        assert found, f"it does not lead: exit {self.process.poll()}"
        return time.monotonic() - self.began


def _interpreter(
    module: str, words: Sequence[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words], env=environment, cwd=ROOT,
            stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def start_up(
    scene: Scene, *words: str, name: str = "up", plain: bool = False, anew: bool = False
) -> Process:
    """Start ``dispatcher up``, with flags or plainly as it is."""
    return Process(
        "dispatcher" if plain else "tests.e2e.torture.victim",
        ["--dir", str(scene.directory), *words, "up", "--drain", "5"],
        scene,
        name=name,
        names=PROGRAM,
        anew=anew,
    )


def start_server(scene: Scene, number: int) -> Process:
    """Start one of the scene's ``dispatcher serve``, with flags."""
    page, admin = scene.servers[number]
    words = ["serve", "--only", "tasks", "--workers-at", page, "--admin-at", admin]
    return Process(
        "tests.e2e.torture.victim",
        ["--dir", str(scene.directory), *words, "--drain", "1"],
        scene,
        name=f"server-{number}",
        names=PROGRAM,
    )


def start_people(scene: Scene) -> Process:
    """Start the simulated workers."""
    module, words = "tests.e2e.torture.people", [str(scene.setting)]
    return Process(module, words, scene, name="people", names=PEOPLE)
