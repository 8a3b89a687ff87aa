"""The example policy's prescriptions through a real Turkle server, and what was seen.

The long form, some minutes for each hundred prescriptions::

    nice -n 10 python -m tests.markets.turkle_run DIRECTORY --records 1000 --workers 20

What every account was served, at Turkle and by us, is held against the ledger, which is
read by plain SQL that shares no code with the engine.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from dispatcher.surfaces.demo.forms import WrittenBox
from dispatcher.surfaces.demo.people import Diary, Habits, Reader
from dispatcher.surfaces.demo.show import Stage, end
from tests.markets.running import LEASE, Sizes, judge, long_form, set_up, wait
from tests.markets.turkle_people import TurkleWorker
from tests.markets.turkle_server import Turkle, turkle_server

REACHED = 25
"""Tasks of others that each account tries once more at the end: few, for the pace."""


def run(directory: Path, sizes: Sizes, say: Any = print) -> dict[str, Any]:
    """Run it; what came of it, with a list ``wrong`` that must be empty."""
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    names = [f"w{number + 1:02d}" for number in range(sizes.workers)]
    place = directory / "turkle"
    place.mkdir()
    with turkle_server(place, names) as server:
        stage = Stage(directory / "dispatcher", say)
        section = f'url = "{server.url}"\nallow_private = "127.0.0.1"'
        known, _ = set_up(
            stage, sizes, "turkle", section, f"{server.token}\n{'5a' * 32}\n"
        )
        accounts = [f"turkle/{name}" for name in names]
        listed = stage.command("--json", "workers", "add", *accounts, "--invite")
        invites = json.loads(listed)["invites"]
        stage.command("records", "load", str(stage.directory / "prescriptions.csv"))
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


def make_people(
    server: Turkle,
    sizes: Sizes,
    known: Mapping[str, WrittenBox],
    invites: dict[str, str],
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


if __name__ == "__main__":
    raise SystemExit(long_form(__doc__, run))
