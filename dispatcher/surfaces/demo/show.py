"""The demo's course: set up by commands, run `up` beside simulated workers, prove."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from dispatcher.app.servers import free_ports
from dispatcher.core.errors import Conflict, DispatcherError
from dispatcher.surfaces.demo.forms import (
    WrittenBox,
    invent,
    write_forms,
    write_records,
)
from dispatcher.surfaces.demo.people import (
    Character,
    Diary,
    FolderWorker,
    Habits,
    PageWorker,
    Reader,
)
from dispatcher.surfaces.demo.report import Report, report

if TYPE_CHECKING:
    from dispatcher.operations.status import Status
    from dispatcher.store.vault import KeyFile

SETTINGS: Final = """\
store  = "dispatcher.db"
policy = "policy.toml"

[surfaces]
operators = "127.0.0.1:{operators}"
workers   = "127.0.0.1:{workers}"
admin     = "127.0.0.1:{admin}"

[tasks]
apart    = 2.0
undo     = 0.0
patience = 10.0

[ticks]
planning   = 0.5
booking    = 0.5
sending    = 0.3
serving    = 1.0
collecting = 0.5
assembly   = 0.5
sealing    = 10.0

[connectors.folder]
spool  = "spool"
settle_seconds = "0"

[connectors.inhouse]
"""
"""As `init` writes it, but with free ports and a quicker rhythm than a real day's."""

MARK: Final = ".dispatcher-demo"  # marks a directory that a demo may empty
LEFT: Final = 10  # prescriptions that --keep leaves for whoever signs in


@dataclass(frozen=True)
class Scenario:
    """What is run: sizes, seed, where, and for how long at most.

    After ``patience`` seconds without an answer nothing more is waited for.
    """

    directory: Path
    records: int = 100
    workers: int = 20
    seed: int = 7
    seconds: float = 600.0
    patience: float = 30.0
    keep: bool = False

    @property
    def by_folder(self) -> int:
        """How many of the workers work by folder."""
        return max(1, self.workers // 5)


@dataclass(frozen=True)
class ShowResult:
    """What came of it; ``good`` if all records came back whole and it was verified."""

    found: Report
    seconds: float
    good: bool


class Stage:
    """The demo's directory and the program run in it, as an operator would."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        self.directory = directory
        self.say = say

    def command(self, *words: str, echo: bool = True) -> str:
        """Run one command of ours as a process; return its output.

        Raises
        ------
        Conflict
            If it fails; what it said is passed on.
        """
        if echo:
            self.say(f"$ dispatcher {' '.join(words)}")
        done = subprocess.run(  # noqa: S603 - our own program
            [*self._program(), *words],
            capture_output=True,
            text=True,
            check=False,
            env=own_environment(),
        )
        if done.returncode:
            raise Conflict(
                f"the demo's step `dispatcher {' '.join(words)}` failed "
                f"(exit {done.returncode})",
                why=done.stderr.strip()[-2000:],
                fix="run it by hand in the demo's directory",
            )
        return done.stdout

    def start(self) -> subprocess.Popen[bytes]:
        """Start ``dispatcher up``; its log goes to ``up.log``."""
        self.say("$ dispatcher up &")
        with (self.directory / "up.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own program
                [*self._program(), "up", "--drain", "5"],
                stdout=log,
                stderr=log,
                env=own_environment(),
            )

    def _program(self) -> list[str]:
        return [sys.executable, "-m", "dispatcher", "--dir", str(self.directory)]


def own_environment() -> dict[str, str]:
    """The environment without settings of another store of the operator's.

    The demo may run as root: its data are invented, and a container has nobody else.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DISPATCHER_")}
    return kept | {"DISPATCHER_ALLOW_ROOT": "1"}


def run(scenario: Scenario, say: Callable[[str], None]) -> ShowResult:
    """Run the demo; it ends by itself.

    Raises
    ------
    Conflict
        If the directory is in use, or a step of the demo fails.
    """
    began = time.monotonic()
    stage = Stage(scenario.directory, say)
    known, invites, folder_names = set_up(stage, scenario)
    stop = threading.Event()
    people = make_people(stage, scenario, known, invites, folder_names, stop)
    daemon = stage.start()
    kept = False
    try:
        for person in people:
            person.start()
        say(
            f"{len(people)} simulated workers are answering: "
            f"{scenario.workers - scenario.by_folder} at the task page, "
            f"{scenario.by_folder} by folder"
        )
        finished = watch(stage, daemon, scenario, began)
        kept = scenario.keep
    finally:
        stop.set()
        if not kept:
            end(daemon)
        for person in people:
            person.join(timeout=10)
    found = report(stage, scenario.records, known, [p.diary for p in people])
    faults = [type(p.fault).__name__ for p in people if p.fault is not None]
    for fault in faults:
        say(f"a simulated worker failed: {fault}")
    if kept:
        leave_work(stage, scenario)
        made = json.loads(stage.command("--json", "console", "link", echo=False))
        say("the daemon is still running; sign in as the operator (once, in 10 min):")
        say(f"  {made['link']}\nor as a worker with one of these:")
        for account, link in list(invites.items())[:3]:
            say(f"  {account}  {link}")
        say(f"  stop it with: kill {daemon.pid}\n")
    good = finished and found.good and not faults
    return ShowResult(found, time.monotonic() - began, good)


def set_up(
    stage: Stage, scenario: Scenario
) -> tuple[dict[str, WrittenBox], dict[str, str], list[str]]:
    """Make the directory, the forms, the store, the workers; load the records.

    Returns
    -------
    tuple
        What is written on each crop, invite links by account, folder accounts.
    """
    directory = scenario.directory
    clear(directory)
    stage.say(f"drawing {scenario.records} prescriptions in {directory}")
    known = write_records(directory, scenario.records, scenario.seed)
    stage.command("init", "--example", "prescriptions")
    ports = free_ports(3)
    settings = SETTINGS.format(operators=ports[0], workers=ports[1], admin=ports[2])
    (directory / "dispatcher.toml").write_text(settings, encoding="utf-8")
    stage.command("policy", "apply", "--sample")
    page = [f"inhouse/w{i + 1:02d}" for i in range(scenario.workers)]
    folder = [f"folder/agency-{i + 1}" for i in range(scenario.by_folder)]
    del page[scenario.workers - scenario.by_folder :]
    stage.command("workers", "add", *folder, echo=False)
    listed = stage.command("--json", "workers", "add", *page, "--invite", echo=False)
    stage.say(
        f"$ dispatcher workers add {page[0]} ... {folder[-1]} --invite"
        f"   ({len(page) + len(folder)})"
    )
    invites = json.loads(listed)["invites"]
    stage.command("records", "load", str(directory / "prescriptions.csv"))
    return known, invites, folder


def leave_work(stage: Stage, scenario: Scenario) -> None:
    """Load some more prescriptions that nobody answers: work for whoever signs in."""
    rng = np.random.default_rng(scenario.seed + 1)
    more = invent(LEFT, rng, after=scenario.records)
    write_forms(more, stage.directory / "more", rng)
    stage.command("records", "load", str(stage.directory / "more/prescriptions.csv"))


def clear(directory: Path) -> None:
    """Make a new directory; one of an earlier demo that has ended is emptied.

    Raises
    ------
    Conflict
        If something else is in it, or an earlier demo still runs there.
    """
    if directory.exists() and any(directory.iterdir()):
        if not (directory / MARK).exists():
            raise Conflict(
                f"{directory} is in use, and not by a demo",
                why="the demo runs in a directory of its own",
                fix="name a new one with --dir",
            )
        if leader_of(directory) is not None:
            raise Conflict(
                f"a daemon runs in {directory}",
                why="an earlier demo was started with --keep",
                fix="stop that daemon, or name a new directory with --dir",
            )
        shutil.rmtree(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / MARK).touch()


def leader_of(directory: Path) -> str | None:
    """Who leads the store of an earlier demo now; None if nobody or no store."""
    from dispatcher.operations.status import status
    from dispatcher.operations.workspace import wall_clock
    from dispatcher.store import open_store

    try:
        with open_store(
            str(directory / "dispatcher.db"), key_file=_key_file(directory)
        ) as store:
            return status(store, wall_clock()).leader
    except DispatcherError:
        return None


def _key_file(directory: Path) -> KeyFile:
    from dispatcher.core.config import KEY_NAME
    from dispatcher.store.vault import KeyFile

    return KeyFile(directory / KEY_NAME)


def make_people(
    stage: Stage,
    scenario: Scenario,
    known: Mapping[str, WrittenBox],
    invites: Mapping[str, str],
    folder_accounts: Sequence[str],
    stop: threading.Event,
) -> list[PageWorker | FolderWorker]:
    """Make the simulated workers, two of whom try what they should not."""
    seeds = np.random.SeedSequence(scenario.seed).spawn(scenario.workers)
    board: list[str] = []
    people: list[PageWorker | FolderWorker] = []
    tricks = {0: Character.CURIOUS, 1: Character.FORGER}
    for i, (account, link) in enumerate(invites.items()):
        habits = Habits(character=tricks.get(i, Character.HONEST))
        reader = Reader(known, habits, Diary(account), np.random.default_rng(seeds[i]))
        url = link.partition("/#")[0]
        people.append(PageWorker(url, link, reader, stop, board))
    for i, account in enumerate(folder_accounts, start=len(people)):
        rng = np.random.default_rng(seeds[i])
        reader = Reader(known, Habits(), Diary(account), rng)
        home = stage.directory / "spool" / account.partition("/")[2]
        people.append(FolderWorker(home, reader, stop))
    return people


def watch(
    stage: Stage, daemon: subprocess.Popen[bytes], scenario: Scenario, began: float
) -> bool:
    """Wait until every field is settled; say how far it is now and then."""
    from dispatcher.operations.status import status
    from dispatcher.operations.workspace import wall_clock
    from dispatcher.store import open_store

    last, moved, told = -1, time.monotonic(), 0.0
    with open_store(
        str(stage.directory / "dispatcher.db"), key_file=_key_file(stage.directory)
    ) as store:
        while time.monotonic() - began < scenario.seconds:
            if daemon.poll() is not None:
                raise Conflict(
                    "the demo's daemon ended by itself",
                    why=f"exit {daemon.returncode}",
                    fix=f"look into {stage.directory / 'up.log'}",
                )
            found = status(store, wall_clock())
            answers = found.counts["answers"]
            if answers != last:
                last, moved = answers, time.monotonic()
            if settled(found):
                return True
            if time.monotonic() - moved > scenario.patience:
                stage.say("no answer has come for a while: the rest cannot be done")
                for sentence in found.needs_you:
                    stage.say(f"  {sentence}")
                return False
            if time.monotonic() - told > 5:
                told = time.monotonic()
                stage.say(progress(found))
            time.sleep(0.5)
    return False


def settled(found: Status) -> bool:
    """Whether every field that is asked has its answer."""
    results = found.results
    done = results.get("answered", 0) + results.get("conflict", 0)
    return bool(found.asked) and done == found.asked


def progress(found: Status) -> str:
    """One line about how far it is."""
    done = found.results.get("answered", 0) + found.results.get("conflict", 0)
    return (
        f"  {done:,} of {found.asked:,} fields settled · {found.counts['answers']:,} "
        f"answers · {found.counts['exposures']:,} exposures booked"
    )


def end(daemon: subprocess.Popen[bytes]) -> None:
    """Stop the daemon as an operator would; kill it only if that does not help."""
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(timeout=30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
