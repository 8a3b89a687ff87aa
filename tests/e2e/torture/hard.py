"""Other hard things than SIGKILL: frozen past the lease, a full disk, a store that turns
read-only. Each lets a demo run, does it to the daemon, and lets it come to its end."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tests.e2e.programs import PATIENCE, until
from tests.e2e.torture import raw
from tests.e2e.torture.checks import Findings, check, check_whole
from tests.e2e.torture.course import finish
from tests.e2e.torture.scene import Process, Scene, start_people, start_up

GATE = (
    "ledger_line",
    "chain",
    "exposure_count",
    "outbox",
    "plan",
    "assignment",
    "lease",
)
"""Tables that a daemon whose lease was taken may write no row of."""

UNPRIVILEGED = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
"""Words before a command that make root meet file permissions as others do."""


@contextmanager
def living(scene: Scene) -> Iterator[tuple[Process, Process]]:
    """The first wave, the workers and a daemon that leads, until the end of the block."""
    scene.load(scene.waves[0])
    people, up = start_people(scene), start_up(scene)
    try:
        up.wait_to_lead()
        yield people, up
    finally:
        for process in (people, up):
            if process.alive():
                process.kill()


def come_to_end(scene: Scene, people: Process, up: Process) -> Findings:
    """Let the rest be done, stop everything, and check everything."""
    finish(scene, up)
    assert not (scene.directory / "people.failed").exists()
    people.kill()
    assert up.end() == 0, "up did not end in peace"
    found = check(scene)
    check_whole(found, scene)
    return found


def end_with_another(scene: Scene, people: Process) -> Findings:
    """Start a daemon where the last one has ended, and come to the end with it."""
    again = start_up(scene)
    try:
        again.wait_to_lead()
        return come_to_end(scene, people, again)
    finally:
        if again.alive():
            again.kill()


def logged(scene: Scene, word: str, name: str = "up") -> list[str]:
    """Lines of a log that hold a word."""
    text = (scene.logs / f"{name}.log").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if word in line]


def some_answers(scene: Scene, more: int) -> None:
    """Wait until so many more answers have come."""
    with raw.opened(scene.directory, scene.store) as store:
        wanted = raw.settled(store)[2] + more

    def there() -> bool:
        with raw.opened(scene.directory, scene.store) as store:
            return bool(raw.settled(store)[2] >= wanted)

    until(there, "answers")


def freeze(scene: Scene, up: Process) -> None:
    """SIGSTOP, between two write transactions: else nobody can lead after it."""
    while True:
        os.killpg(up.process.pid, signal.SIGSTOP)
        until(partial(stands, up.process.pid), "all of its threads stand")
        writes = any("/write" in name for name in up.flags.all_up())
        if not writes and raw.is_free(scene.directory, scene.store):
            return
        thaw(up)
        time.sleep(0.003)


def stands(pid: int) -> bool:
    """Whether every thread of a process is stopped: the signal takes its time."""
    try:
        told = [one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # a thread has just ended
        return False
    return all(text.rpartition(")")[2].split()[0] == "T" for text in told)


def thaw(process: Process) -> None:
    os.killpg(process.process.pid, signal.SIGCONT)


def take_over(scene: Scene, settings: Path) -> tuple[Process, list[int]]:
    """Start a second daemon until one leads; also return how the others ended."""
    ended: list[int] = []
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        second = start_up(scene, "--config", str(settings), name="second")
        until(partial(decided, second), "the second daemon leads or ends", pause=0.01)
        if second.alive():
            return second, ended
        ended.append(second.process.wait())
    message = f"no second daemon leads: {ended}"
    raise AssertionError(message)


def decided(process: Process) -> bool:
    """Whether a daemon leads, or has ended."""
    return process.flags.is_up("leads") or not process.alive()


def picture(scene: Scene) -> dict[str, list[raw.Row]]:
    """All rows that are behind the gate, and which tasks there are."""
    with raw.opened(scene.directory, scene.store) as store:
        rows = {name: sorted(store.rows(f"SELECT * FROM {name}")) for name in GATE}
        rows["task"] = sorted(store.rows("SELECT id, entry_id, account_id FROM task"))
        return rows


def frozen_past_the_lease(scene: Scene) -> Findings:
    """A daemon sleeps past its lease, a second takes over, the first wakes up."""
    scene.prepare()
    with living(scene) as (people, first):
        some_answers(scene, 10)
        freeze(scene, first)
        second, ended = take_over(scene, scene.write_settings("second.toml"))
        try:
            assert set(ended) <= {11}, (
                f"while the lease held, others ended with {ended}"
            )
            for wave in scene.waves[1:]:
                scene.load(wave)  # the second plans, books and sends it
            time.sleep(2)
            os.killpg(people.process.pid, signal.SIGSTOP)
            freeze(scene, second)  # so that every change from now on is the first one's
            before = picture(scene)
            thaw(first)
            assert first.process.wait(PATIENCE) == 11, "the first did not see its end"
            assert picture(scene) == before, "the first wrote behind the gate"
            assert logged(scene, "lease-lost")
        finally:
            thaw(second)
            second.end()
        thaw(people)
        return end_with_another(scene, people)


def writes_refused(scene: Scene) -> Findings:
    """The system refuses every file that grows past 64 KiB, until it was met and longer."""
    scene.prepare()
    with living(scene) as (people, up):
        some_answers(scene, 5)
        limit = resource.RLIMIT_FSIZE
        _, hard = resource.prlimit(up.process.pid, limit)
        resource.prlimit(up.process.pid, limit, (1 << 16, hard))
        for wave in scene.waves[1:]:
            scene.load(wave)
        until(
            lambda: any("E104" in line for line in logged(scene, "tick-refused")),
            "it says why",
        )
        time.sleep(2)
        assert up.alive(), f"a full disk ended it: {up.process.returncode}"
        assert not logged(scene, "tick-failed"), logged(scene, "tick-failed")[:3]
        resource.prlimit(up.process.pid, limit, (hard, hard))
        return come_to_end(scene, people, up)


def disk_full(scene: Scene) -> Findings:
    """The disk of store and spool is full until it was met (a tmpfs of its own)."""
    scene.logs = scene.directory.parent.parent  # else nobody could tell what happened
    scene.prepare()
    with living(scene) as (people, up):
        some_answers(scene, 5)
        for wave in scene.waves[1:]:
            scene.load(wave)
        balloon = scene.directory / "balloon"
        with balloon.open("wb", buffering=0) as file:
            until(partial(met_full, scene, file), "the disk is full for it")
        assert up.alive(), f"a full disk ended it: {up.process.returncode}"
        balloon.unlink()
        return come_to_end(scene, people, up)


def met_full(scene: Scene, balloon: BinaryIO) -> bool:
    """Keep a disk full for some seconds; whether the daemon has said that it is."""
    end = time.monotonic() + 5
    while time.monotonic() < end:  # what frees up meanwhile is filled too
        try:
            balloon.write(bytes(4096))
        except OSError:
            time.sleep(0.002)
    return bool(logged(scene, "E104") or logged(scene, "try-later"))


def read_only(scene: Scene) -> Findings:
    """The store's files lose their write permission under a running daemon."""
    scene.prepare()
    files = [scene.directory / f"dispatcher.db{end}" for end in ("", "-wal", "-shm")]
    with living(scene) as (people, up):
        some_answers(scene, 5)
        for path in files:
            path.chmod(stat.S_IRUSR)
        time.sleep(1)
        assert up.alive(), "it need not end: its open files can still be written"
        up.kill()
        refused = subprocess.run(
            [*UNPRIVILEGED, *scene.words("up")] if os.geteuid() == 0 else scene.words("up"),
            cwd=scene.directory, env=scene.environment,
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert refused.returncode == 1, refused.stderr
        assert "read-only" in refused.stderr, refused.stderr
        for path in files:
            if path.exists():
                path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        for wave in scene.waves[1:]:
            scene.load(wave)
        return end_with_another(scene, people)
