"""The example policy's prescriptions through a real Turkle server, and what was seen.

The long form, some minutes for each hundred prescriptions::

    nice -n 10 python -m tests.markets.turkle_run DIRECTORY --records 1000 --workers 20

What every account was served, at Turkle and by us, is held against the ledger, which is
read by plain SQL that shares no code with the engine.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dispatcher.surfaces.demo.forms import FIELDS, Written, invent, write_forms
from dispatcher.surfaces.demo.people import Diary, Habits, Reader
from dispatcher.surfaces.demo.report import report
from dispatcher.surfaces.demo.show import Stage, end, free_ports
from tests.e2e.torture import raw
from tests.e2e.torture.checks import read_ledger
from tests.markets.turkle_people import TurkleWorker
from tests.markets.turkle_server import Turkle, turkle_server

LEASE = 30.0
SETTINGS = """
plans = "auto"

[surfaces]
operators = "127.0.0.1:{operators}"
workers   = "127.0.0.1:{workers}"
admin     = "127.0.0.1:{admin}"

[tasks]
lease    = {lease}
apart    = 2.0
patience = 10.0

[ticks]
planning = 1.0
booking  = 0.5
sending  = 0.3
serving  = 1.0

[connectors.turkle]
url = "{url}"
allow_private = "127.0.0.1"
secret_file = "turkle.secret"
"""
STALLED = 300.0
"""Seconds without an answer after which nothing more will come."""

REACHED = 25
"""Tasks of others that each account tries once more at the end: few, for the pace."""


@dataclass(frozen=True)
class Sizes:
    """What is run."""

    records: int = 6
    workers: int = 14
    seed: int = 7
    seconds: float = 300.0
    answers: int | None = None  # of each field; None: as the policy says


def run(directory: Path, sizes: Sizes, say: Any = print) -> dict[str, Any]:
    """Run it; what came of it, with a list ``wrong`` that must be empty."""
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    names = [f"w{number + 1:02d}" for number in range(sizes.workers)]
    place = directory / "turkle"
    place.mkdir()
    with turkle_server(place, names) as server:
        stage = Stage(directory / "dispatcher", say)
        known, invites = set_up(stage, server, sizes, names)
        stop, people = threading.Event(), make_people(server, sizes, known, invites)
        for person in people:
            person.start_under(stop)
        daemon = stage.start()
        try:
            finished = wait(stage, daemon, people, sizes.seconds)
            stop.set()
            for person in people:
                person.join(timeout=LEASE + 60)
            expire(server)
            if not any(person.fault for person in people):
                sweep(server, people)
        finally:
            stop.set()
            end(daemon)
        held = dump(server)
    return judge(stage, sizes, people, known, held) | {
        "finished": finished,
        "seconds": round(time.monotonic() - began),
    }


def set_up(
    stage: Stage, server: Turkle, sizes: Sizes, names: Sequence[str]
) -> tuple[dict[str, Written], dict[str, str]]:
    """Draw the forms; set up the store, the policy, the connector and the workers."""
    directory = stage.directory
    directory.mkdir()
    rng = np.random.default_rng(sizes.seed)
    prescriptions = invent(sizes.records, rng)
    known = write_forms(prescriptions, directory, rng)
    with (directory / "truth.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("rx_id", *FIELDS))
        for one in prescriptions:
            writer.writerow((one.rx_id, *(one.truth[name] for name in FIELDS)))
    stage.command("init", "--template", "prescriptions")
    policy = directory / "policy.toml"
    text = policy.read_text().replace("per_day = 200", "per_day = 100000")
    if sizes.answers is not None:
        text = re.sub(r"answers = \d", f"answers = {sizes.answers}", text)
    policy.write_text(text)  # else a day's work takes days
    ports = dict(zip(("operators", "workers", "admin"), free_ports(3), strict=True))
    settings = SETTINGS.format(**ports, url=server.url, lease=LEASE)
    (directory / "dispatcher.toml").write_text(settings)
    secret = directory / "turkle.secret"
    secret.touch(mode=0o600)
    secret.write_text(f"{server.token}\n{'5a' * 32}\n")
    stage.command("policy", "apply")
    accounts = [f"turkle/{name}" for name in names]
    listed = stage.command("--json", "workers", "add", *accounts, "--invite")
    stage.command("records", "load", str(directory / "prescriptions.csv"))
    return known, json.loads(listed)["invites"]


def make_people(
    server: Turkle, sizes: Sizes, known: Mapping[str, Written], invites: dict[str, str]
) -> list[TurkleWorker]:
    """One worker for each account, who reads what it is shown."""
    seeds = np.random.SeedSequence(sizes.seed).spawn(len(invites))
    board: dict[str, str] = {}
    names = [account.partition("/")[2] for account in invites]
    people = []
    for place, (account, link) in enumerate(invites.items()):
        rng = np.random.default_rng(seeds[place])
        reader = Reader(known, Habits(wrong=0.01), Diary(account), rng)
        rival = names[(place + 1) % len(names)]
        people.append(
            TurkleWorker(server, names[place], rival, link, reader, board, LEASE)
        )
    return people


def wait(
    stage: Stage,
    daemon: subprocess.Popen[bytes],
    people: Sequence[TurkleWorker],
    seconds: float,
) -> bool:
    """Wait until every field is settled, a worker fails, or nothing moves any more."""
    began = moved = told = time.monotonic()
    last: tuple[int, ...] = ()
    while (now := time.monotonic()) < min(began + seconds, moved + STALLED):
        assert daemon.poll() is None, (stage.directory / "up.log").read_text()
        with raw.opened(stage.directory, None) as store:
            found = raw.settled(store)
        if found != last:
            last, moved = found, now
        if found[0] == found[1]:
            return True
        if any(person.fault for person in people):
            return False
        if now > told + 30:
            told = now
            stage.say(f"{now - began:.0f} s: {found[0]} of {found[1]} fields settled, "
                      f"{found[2]} answers")  # fmt: skip
        time.sleep(1)
    return False


def expire(server: Turkle) -> None:
    """Let Turkle forget who had what, as its timed command does."""
    with closing(sqlite3.connect(server.database, timeout=60)) as store, store:
        store.execute(
            "UPDATE turkle_taskassignment SET expires_at = '2020-01-01' WHERE NOT completed"
        )
    server.manage("expire_assignments")


def sweep(server: Turkle, people: Sequence[TurkleWorker]) -> None:
    """Each account, and a visitor without one, fetches all that can be named."""
    with closing(sqlite3.connect(server.database, timeout=60)) as store:
        tasks = [row[0] for row in store.execute("SELECT id FROM turkle_task")]
        pairs = list(
            store.execute("SELECT task_id, id FROM turkle_taskassignment ORDER BY id")
        )
    threads = [
        threading.Thread(target=person.sweep, args=(pairs, tasks, REACHED))
        for person in people
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def dump(server: Turkle) -> str:
    """All that Turkle keeps."""
    with closing(sqlite3.connect(server.database, timeout=60)) as store:
        return "\n".join(store.iterdump())


def judge(
    stage: Stage,
    sizes: Sizes,
    people: Sequence[TurkleWorker],
    known: Mapping[str, Written],
    held: str,
) -> dict[str, Any]:
    """Hold what was served against the ledger, and against the policy's sets."""
    found = report(stage, sizes.records, known, [person.diary for person in people])
    with raw.opened(stage.directory, None) as store:
        booked = set(read_ledger(store, stage.directory).exposed())
    seen = {
        (person.account, written.rx_id, written.field)
        for person in people
        for written in person.diary.seen
    }
    deeds = [person.deeds for person in people]
    values = told_values(known)
    at_turkle = {text for one in deeds for text in one.market_said} | {held}
    by_us = {text for one in deeds for text in one.said}
    wrong = [
        f"{name}: {count}"
        for name, count in {
            "seen and not booked": len(seen - booked),
            "complete sets": found.complete,
            "pictures of nothing, or of another's": found.strangers,
            "another's task shown": sum(one.foreign for one in deeds),
            "two tasks in two windows": sum(one.split for one in deeds),
            "notices that a rival got": sum(one.races_lost for one in deeds),
            "values at Turkle": sum(bool(values.search(text)) for text in at_turkle),
            "values on pages without a task": sum(
                bool(values.search(text)) for text in by_us
            ),
            "workers that failed": sum(person.fault is not None for person in people),
            "not verified": int(not found.verdict.startswith("VERIFIED")),
        }.items()
        if count
    ]
    sums = {
        name: sum(getattr(one, name) for one in deeds)
        for name in ("races", "market_returns", "market_submits", "doubles", "windows",
                     "late", "reaches")
    }  # fmt: skip
    return {
        "wrong": wrong,
        "faults": [repr(person.fault) for person in people if person.fault],
        "records": found.records,
        "fields_as_written": f"{found.matching} of {found.fields}",
        "in_conflict": found.conflicts,
        "answers": found.answers,
        "returned": sum(person.diary.returned for person in people),
        **sums,
        "pages_of_turkle": len(at_turkle) - 1,
        "pages_of_ours": len(by_us),
        "seen": len(seen),
        "booked": len(booked),
        "worst": str(found.worst),
        "verdict": found.verdict,
    }


def told_values(known: Mapping[str, Written]) -> re.Pattern[str]:
    """What would give a form away wherever it stood."""
    told = {w.text for w in known.values() if len(w.text) > 4}
    told |= {w.rx_id for w in known.values()}
    return re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(told))) + r")\b")


def main() -> int:
    """Run the long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--answers", type=int, help="of each field; as in the policy")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6 * 3600.0)
    given = parser.parse_args()
    sizes = Sizes(
        given.records, given.workers, given.seed, given.seconds, given.answers
    )
    found = run(given.directory, sizes)
    print(json.dumps(found, indent=2))
    return 1 if found["wrong"] or not found["finished"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
