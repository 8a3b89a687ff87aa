"""Disks that are full, read-only, closed to us, or refuse long files: commands as
processes say so, lose nothing, leave no halves, and go on when the disk is well again.

The daemon on such disks: test_killed.py.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.programs import PATIENCE, environment
from tests.e2e.torture.hard import UNPRIVILEGED

FORMS = "id,body\n" + "".join(f"t{i},Some words of ticket {i}\n" for i in range(300))
MORE = FORMS.replace("t", "u").replace("id,body", "id,body")
PLAIN = """
version = 1
name = "disks"
[entity.ticket]
key = "id"
[entity.ticket.fields.body]
ask = "transcribe"
"""
EACH = """
import json, os, sys
import alembic.command, numpy
import dispatcher.custody.evidence, dispatcher.custody.backup, dispatcher.stages.intake
import dispatcher.ledger.shipping.checking, dispatcher.surfaces.cli.app
from dispatcher.surfaces.cli.start import main
for words in json.loads(sys.argv[1]):
    ends = [os.pipe(), os.pipe()]
    child = os.fork()
    if not child:
        for number, (_, write) in enumerate(ends, 1):
            os.dup2(write, number)
        sys.argv = ["dispatcher", *words]
        try:
            status = main()
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(status or 0))
    for _, write in ends:
        os.close(write)
    told = []
    for read, _ in ends:
        with os.fdopen(read) as file:
            told.append(file.read())
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), *told]), flush=True)
"""
"""Runs commands, each in a process of its own, without starting Python anew."""


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    told: str


def run(
    commands: Sequence[Sequence[object]], *before: str, **more: object
) -> list[Ended]:
    """Run commands one after another; ``before`` stands before the first word."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [*before, sys.executable, "-c", EACH, words],
        env=environment(), capture_output=True, text=True, check=True, timeout=PATIENCE,
        **more,  # type: ignore[call-overload]
    )  # fmt: skip
    return [Ended(*json.loads(line)) for line in done.stdout.splitlines()]


# -- what a disk may do ------------------------------------------------------------------


class Disk:
    """A disk that can be made to refuse."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.before: tuple[str, ...] = ()
        self.more: dict[str, object] = {}

    def run(self, commands: Sequence[Sequence[object]]) -> list[Ended]:
        return run(commands, *self.before, **self.more)

    @contextmanager
    def refusing(self, how: str) -> Iterator[None]:
        with getattr(self, how)():
            yield

    @contextmanager
    def full(self) -> Iterator[None]:
        """Not a byte is left."""
        balloon = self.place / "balloon"
        with balloon.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        yield
        balloon.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """As after an error of the disk."""
        remount = ["mount", "-o", "remount,{}", str(self.place)]
        subprocess.run([w.format("ro") for w in remount], check=True)
        yield
        subprocess.run([w.format("rw") for w in remount], check=True)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """No file may grow past 2 KiB."""
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (2048, -1))
        self.more = {"preexec_fn": limit}
        yield
        self.more = {}

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Somebody took our permission to write away."""
        paths = [self.place, *self.place.rglob("*")]
        modes = {path: path.stat().st_mode for path in paths}
        for path, mode in modes.items():
            path.chmod(mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
        self.before = UNPRIVILEGED if os.geteuid() == 0 else ()
        yield
        self.before = ()
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Disk]]:
    """Gives a disk for one way to refuse: of its own (4 MiB) where it takes one."""
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    mounted: list[Path] = []

    def made(how: str) -> Disk:
        if how == "closed" and os.geteuid() == 0 and not shutil.which("setpriv"):
            pytest.skip("setpriv (util-linux) is not here")
        if how in ("full", "read_only"):
            words = [
                "mount",
                "-t",
                "tmpfs",
                "-o",
                "size=4m,mode=700",
                "none",
                str(place),
            ]
            if not shutil.which("mount"):
                pytest.skip("there is no mount command")
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no disk can be mounted: {done.stderr.strip()}")
            mounted.append(place)
        return Disk(place)

    yield made
    for each in mounted:
        subprocess.run(["umount", "-l", str(each)], check=True)


# -- houses on it ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 300 tickets and two workers, its ledger shipped beside it."""
    house = tmp_path_factory.mktemp("disks") / "house"
    house.mkdir()
    (house / "a.csv").write_text(FORMS)
    (house / "b.csv").write_text(MORE)
    there = ("-C", house)
    (made,) = run([(*there, "init")])
    assert made.status == 0, made.told
    (house / "policy.toml").write_text(PLAIN)
    for done in run(
        [
            (*there, "policy", "apply"),
            (*there, "records", "load", house / "a.csv"),
            (*there, "workers", "add", "inhouse/ann", "inhouse/bob"),
        ]
    ):
        assert done.status == 0, done.told
    return house


@pytest.fixture
def settle(template: Path) -> Callable[[Path, str], None]:
    """Puts a copy of the store somewhere, to ship its ledger to a folder of its own."""

    def copied(house: Path, ship: str) -> None:
        shutil.copytree(template, house)
        shutil.move(house / "ledger", house / ship)
        with (house / "dispatcher.toml").open("a") as settings:
            settings.write(f'\n[ledger]\nship = "{ship}"\n')

    return copied


def contents(house: Path) -> list[list[tuple[object, ...]]]:
    """Every row of a store that is whole, table by table."""
    with closing(sqlite3.connect(house / "dispatcher.db")) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        named = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in store.execute(named)]
        return [sorted(store.execute(f"SELECT * FROM {n}"), key=repr) for n in names]


def listing(place: Path) -> set[Path]:
    """All files but those that SQLite keeps beside an open store."""
    beside = ("-wal", "-shm", "balloon")
    return {path for path in place.rglob("*") if not path.name.endswith(beside)}


def refused(done: Ended) -> None:
    """It says what is wrong by a code, in words, and nothing on stdout."""
    assert done.status in (1, 5, 11, 75), done
    assert re.search(r"\bE\d{3}\b", done.told), done
    assert "Traceback" not in done.told
    assert "unexpected" not in done.told.lower(), done
    assert done.out == ""


@pytest.mark.parametrize("how", ["full", "read_only", "limited", "closed"])
def test_a_store_on_a_disk_that_refuses_loses_nothing(
    disk: Callable[[str], Disk], settle: Callable[[Path, str], None], how: str
) -> None:
    bad = disk(how)
    house = bad.place / "house"
    settle(house, "shipped")
    commands = [
        ("-C", house, "records", "load", house / "b.csv"),
        ("-C", house, "workers", "add", "inhouse/eve"),
    ]
    before, files = contents(house), listing(house)
    with bad.refusing(how):
        for done in bad.run(commands):
            refused(done)
    assert contents(house) == before
    assert listing(house) <= files | {house / "b.csv.rejected.csv"}
    for done in bad.run([*commands, ("-C", house, "ledger", "verify")]):
        assert done.status == 0, done.told


@pytest.mark.parametrize("how", ["full", "limited"])
def test_what_is_written_to_a_disk_that_refuses_is_whole_or_not_there(
    disk: Callable[[str], Disk],
    settle: Callable[[Path, str], None],
    how: str,
    tmp_path: Path,
) -> None:
    house, bad = tmp_path / "house", disk(how)
    settle(house, "shipped")
    out = bad.place
    commands = [
        ("-C", house, "records", "reassemble", "-o", out / "records.csv"),
        ("-C", house, "records", "reassemble", "-o", out / "records.parquet"),
        ("-C", house, "ledger", "export", "-o", out / "ledger.jsonl"),
        ("-C", house, "backup", "create", "--folder", out),
        ("-C", house, "audit", "export", out / "evidence"),
    ]
    with bad.refusing(how):
        for command, done in zip(commands, bad.run(commands), strict=True):
            if how == "limited" and done.status == 0:
                assert "reassemble" in command, command  # it was short enough
                continue
            refused(done)
    left = {path.name for path in listing(out)}
    assert left <= ({"records.csv", "records.parquet"} if how == "limited" else set())
    for path in list(listing(out)):
        path.unlink()
    last = ("-C", house, "audit", "verify", out / "evidence")
    for done in bad.run(
        [*commands, last, ("-C", house, "backup", "verify", "--folder", out)]
    ):
        assert done.status == 0, done.told


@pytest.mark.parametrize("how", ["full", "closed"])
def test_nothing_is_shown_while_the_ledger_can_not_be_shipped(
    disk: Callable[[str], Disk],
    settle: Callable[[Path, str], None],
    how: str,
    tmp_path: Path,
) -> None:
    """The store is on another disk: what it has is appended when the other is well."""
    house, bad = tmp_path / "house", disk(how)
    settle(house, str(bad.place / "shipped"))
    more = [f"inhouse/w{number}" for number in range(40)]  # more than a page of lines
    adds = ("-C", house, "workers", "add", *more)
    with bad.refusing(how):
        (done,) = bad.run([adds])
        refused(done)
        assert "shipped" in done.told
    again, verified = bad.run([adds, ("-C", house, "ledger", "verify")])
    assert again.status == 0, again.told
    assert verified.status == 0, verified.told
    assert "the same as in the store" in verified.out
