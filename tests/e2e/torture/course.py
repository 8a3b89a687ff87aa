"""The course: the demo runs, and its daemon is killed over and over, at bad moments."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from tests.cradle import kill_group
from tests.e2e.torture import raw
from tests.e2e.torture.checks import Findings, check, check_whole
from tests.e2e.torture.flags import PEOPLE
from tests.e2e.torture.scene import (
    Process,
    Scene,
    start_people,
    start_server,
    start_up,
)

ANY, STARTING = "any", "starting"
PLANNED = (
    "planning/write", "planning/commit", "booking/write", "booking/commit",
    "publish", "sending/write", "sending/commit",
)  # fmt: skip
"""Moments that come after new records only: a wave is loaded before them."""

MOMENTS = (
    ANY, ANY, ANY, STARTING, "post-answer", "post-start", "get-crop", "drop-file",
    *PLANNED,
    "start/write", "start/commit", "answer/write", "answer/commit", "crop",
    "collect-files", "collecting/write", "collecting/commit",
    "assembly/write", "assembly/commit", "serving/write", "leading/commit", "sealing/write",
)  # fmt: skip
ON_PAGES = (
    "start/write", "start/commit", "answer/write", "answer/commit", "crop", "start",
)  # fmt: skip
"""Moments of whoever serves the task page."""

PATIENCE = 3.0  # seconds for which a moment is waited for
STALLED = 240.0  # seconds without an answer after which the end will not come


@dataclass
class Told:
    """What happened."""

    aimed: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    midst: Counter[str] = field(default_factory=Counter)
    to_lead: list[float] = field(default_factory=list)
    people_killed: int = 0
    loads_killed: int = 0
    databases_killed: int = 0
    servers_killed: int = 0
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)

    @property
    def kills(self) -> int:
        return self.aimed.total()

    def text(self) -> str:
        """For people."""
        lines = [
            f"kills of up             {self.kills}, in {self.seconds:.0f} s;"
            f" {self.missed} of the moments did not come and were killed anyway",
            f"kills of the workers    {self.people_killed}",
            f"kills of records load   {self.loads_killed}",
            f"kills of the database   {self.databases_killed}",
            f"kills of servers        {self.servers_killed}",
            f"seconds to lead again   median {median(self.to_lead):.1f},"
            f" longest {max(self.to_lead):.1f}, {len(self.to_lead)} starts",
            "aimed at                "
            + ", ".join(f"{name} {n}" for name, n in sorted(self.aimed.items())),
            "in the midst of         "
            + ", ".join(f"{name} {n}" for name, n in self.midst.most_common()),
        ]
        looked = self.findings.looked.items()
        lines += [f"{name:23} {number}" for name, number in looked]
        lines += [f"WRONG: {what}" for what in self.findings.wrong[:40]]
        lines.append("holds" if not self.findings.wrong else "DOES NOT HOLD")
        return "\n".join(lines)


class Course:
    """One torture of one scene."""

    def __init__(
        self, scene: Scene, kills: int, seed: int, say: Callable[[str], None]
    ) -> None:
        self._scene, self._kills, self._say = scene, kills, say
        self._rng = np.random.default_rng(seed)
        self._waves = list(scene.waves)
        self._servers: list[Process] = []
        self._told = Told()

    def run(self) -> Told:
        """Kill so many times, then let it come to its end, and check everything."""
        began = time.monotonic()
        self._load()
        people = start_people(self._scene)
        up: Process | None = None
        try:
            for number in range(len(self._scene.servers)):
                self._servers.append(start_server(self._scene, number))
            for number, moment in enumerate(self._moments(), start=1):
                up = start_up(self._scene, anew=moment == STARTING)
                self._live(up, people, moment, number)
                self._say(self._progress(number, moment))
                if self._waves and number >= self._due_for_wave():
                    self._load()
                if number % 7 == 3:
                    people.kill()
                    self._told.people_killed += 1
                    people = start_people(self._scene)
            up = start_up(self._scene)
            self._told.to_lead.append(up.wait_to_lead())
            while self._waves:
                self._load()
            finish(self._scene, up)
            assert not (self._scene.directory / "people.failed").exists()
            people.kill()
            assert [one.end() for one in self._servers] == [0] * len(self._servers)
            assert up.end() == 0, "up did not end in peace"
        finally:
            for process in (people, up, *self._servers):
                if process is not None and process.alive():
                    process.kill()
        self._told.findings = check(self._scene)
        check_whole(self._told.findings, self._scene)
        self._told.seconds = time.monotonic() - began
        return self._told

    def _moments(self) -> list[str]:
        """Every moment once while there are enough kills, then at random."""
        every = [
            one for one in MOMENTS if not self._scene.servers or one not in ON_PAGES
        ]
        order = list(self._rng.permutation(every))
        order += list(self._rng.choice(every, max(0, self._kills - len(order))))
        return [str(name) for name in order[: self._kills]]

    def _due_for_wave(self) -> float:
        done = len(self._scene.waves) - len(self._waves)
        return self._kills * done / len(self._scene.waves)

    def _live(self, up: Process, people: Process, moment: str, number: int) -> None:
        """Let it run until its moment comes, and kill it there."""
        rng, load = self._rng, None
        if moment == STARTING:
            time.sleep(rng.uniform(0.05, 3.0))
        else:
            self._told.to_lead.append(up.wait_to_lead())
            time.sleep(rng.uniform(0, 0.5))
            if number % 4 == 1:
                self._kill_database(up)
            wave = self._waves.pop(0) if moment in PLANNED and self._waves else None
            load = None if wave is None else self._scene.begin_load(wave)
            self._kill_server(number)
            self._await(moment, up, people, patience=PATIENCE + 3 * bool(load))
        assert up.alive(), f"up ended by itself: {up.process.returncode}"
        self._told.midst.update(up.kill() or ["nothing"])
        self._told.aimed[moment] += 1
        if load is not None:
            assert wave is not None
            load.wait()
            self._scene.load(wave)  # again: what is there already is left as it is

    def _kill_server(self, number: int) -> None:
        """Kill a server at a moment of its own, beside a leader at work; start it anew."""
        if not self._servers:
            return
        place = number % len(self._servers)
        server, moment = self._servers[place], str(self._rng.choice(ON_PAGES))
        assert server.alive(), f"a server ended by itself: {server.process.returncode}"
        server.wait_to_lead()  # or rather: until it may show something
        come = server.wait_for(moment, time.monotonic() + PATIENCE)
        self._told.missed += not come
        time.sleep(self._rng.uniform(0, 0.02))
        self._told.midst.update(
            f"server: {one}" for one in server.kill() or ["nothing"]
        )
        self._told.servers_killed += 1
        self._servers[place] = start_server(self._scene, place)

    def _kill_database(self, up: Process) -> None:
        """Kill the whole server under a daemon at work, which must outlive it."""
        cluster = self._scene.cluster
        if cluster is None:
            return
        cluster.kill()
        self._told.databases_killed += 1
        time.sleep(self._rng.uniform(0, 1))
        assert up.alive(), "it did not outlive its database"
        cluster.start()
        time.sleep(self._rng.uniform(0, 1))
        assert up.alive(), "it did not outlive its database's start"

    def _await(
        self, moment: str, up: Process, people: Process, *, patience: float
    ) -> None:
        if moment == ANY:
            time.sleep(self._rng.uniform(0, 3))
            return
        watched = people if moment in PEOPLE else up
        come = watched.wait_for(moment, time.monotonic() + patience)
        self._told.missed += not come
        if self._rng.random() < 0.6:  # at once, or some milliseconds later
            time.sleep(self._rng.uniform(0, 0.02))

    def _load(self) -> None:
        """Load the next wave; now and then the loading itself is killed, and repeated."""
        wave = self._waves.pop(0)
        if self._rng.random() < 0.5:
            load = self._scene.begin_load(wave)
            time.sleep(self._rng.uniform(0.02, 0.7))
            if load.poll() is None:
                kill_group(load.pid)
                self._told.loads_killed += 1
            load.wait()
        self._scene.load(wave)

    def _progress(self, number: int, moment: str) -> str:
        with raw.opened(self._scene.directory, self._scene.store) as store:
            done, fields, answers = raw.settled(store)
        return (
            f"kill {number:2} of {self._kills} at {moment:18} "
            f"{done} of {fields} fields settled, {answers} answers"
        )


def finish(scene: Scene, up: Process) -> None:
    """Wait until every field is settled."""
    last, moved = -1, time.monotonic()
    while True:
        assert up.alive(), f"up ended by itself: {up.process.returncode}"
        with raw.opened(scene.directory, scene.store) as store:
            done, fields, answers = raw.settled(store)
        if done == fields:
            break
        if answers != last:
            last, moved = answers, time.monotonic()
        assert time.monotonic() - moved < STALLED, (
            f"it stands still: {done} of {fields} fields, {answers} answers"
        )
        time.sleep(0.5)
    time.sleep(1.5)  # the last answers' confirmations reach the diaries
