"""The example policy's prescriptions through the emulated MTurk, with everything failing.

The long form, some minutes for each hundred prescriptions::

    nice -n 10 python -m tests.markets.mturk_run DIRECTORY --records 1000 --workers 20

A share of all calls is throttled, fails before or after it acted, or is carried out and
never answered; events come twice, late or never; ids of returned assignments are used
again; MTurk's clock is five minutes off. What every worker was served is held against the
ledger, and what MTurk paid against the books of money, by plain SQL.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from connectors.mturk.arrivals import read_note
from dispatcher.surfaces.demo.forms import WrittenBox
from dispatcher.surfaces.demo.people import Diary, Habits, Reader
from dispatcher.surfaces.demo.show import Stage, end
from tests.contract.mturk_queue import queue_server
from tests.contract.mturk_server import KEY, KEY_ID, Faults, Mturk, mturk_server
from tests.e2e.torture import raw
from tests.markets.mturk_people import MturkWorker
from tests.markets.running import LEASE, Sizes, judge, long_form, set_up, wait

OFF = timedelta(minutes=4, seconds=50)
SHARE = 0.05
SETTLING = 300.0
"""Seconds that paying may take once everything is answered."""

SECTION = """\
url = "{url}"
page = "http://127.0.0.1:{{workers}}/from/mturk"
queue = "{queue}"
per_second = "50"
allow_private = "127.0.0.1"
"""
MONEY = ("--cap", "USD:100000", "--reward", "USD:0.50", "--bonus", "USD:0.02",
         "--fee", "20")  # fmt: skip
OPEN = "SELECT count(*) FROM payment WHERE state IN ('reserved', 'due')"


def run(directory: Path, sizes: Sizes, say: Any = print) -> dict[str, Any]:
    """Run it; what came of it, with a list ``wrong`` that must be empty."""
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with queue_server() as queue, mturk_server(their_time, skew=OFF) as server:
        server.deliver = queue.send
        server.faults = Faults(np.random.default_rng(sizes.seed), SHARE)
        stage = Stage(directory / "dispatcher", say)
        section = SECTION.format(url=server.url, queue=queue.url)
        secret = f"{KEY_ID}\n{KEY}\n{'5a' * 32}\n"
        known, port = set_up(stage, sizes, "mturk", section, secret)
        names = [f"A{number + 1:03d}WORKER" for number in range(sizes.workers)]
        stage.command("workers", "add", *(f"mturk/{name}" for name in names))
        stage.command("records", "load", str(stage.directory / "prescriptions.csv"))
        stage.command("runs", "budget", "default", *MONEY)
        stop = threading.Event()
        people = make_people(server, sizes, known, names, f"http://127.0.0.1:{port}")
        for person in people:
            person.start_under(stop)
        daemon = stage.start()
        try:
            finished = wait(stage, daemon, people, sizes.seconds)
            stop.set()
            for person in people:
                person.join(timeout=LEASE + 60)
            finished = finished and settle(stage)
        finally:
            stop.set()
            end(daemon)
        found = judge(stage, sizes, people, known, server.held().decode())
    books = audit(stage, server)
    found["wrong"] += books.pop("wrong")
    return (
        found
        | books
        | {
            "faults_made": dict(server.faults.done),
            "calls": server.calls.total(),
            "finished": finished,
            "seconds": round(time.monotonic() - began),
        }
    )


def their_time() -> datetime:
    """MTurk's clock."""
    return datetime.fromtimestamp(time.time(), UTC) + OFF  # noqa: TID251


def make_people(
    server: Mturk,
    sizes: Sizes,
    known: Mapping[str, WrittenBox],
    names: list[str],
    page: str,
) -> list[MturkWorker]:
    """One worker for each account, who reads what it is shown."""
    seeds = np.random.SeedSequence(sizes.seed).spawn(len(names))
    board: dict[str, str] = {}
    people = []
    for place, name in enumerate(names):
        rng = np.random.default_rng(seeds[place])
        reader = Reader(known, Habits(wrong=0.01), Diary(f"mturk/{name}"), rng)
        rival = names[(place + 1) % len(names)]
        people.append(MturkWorker(server, name, rival, page, reader, board, LEASE))
    return people


def settle(stage: Stage) -> bool:
    """Wait until all that is owed is paid."""
    until = time.monotonic() + SETTLING
    while time.monotonic() < until:
        with raw.opened(stage.directory, None) as store:
            if not store.value(OPEN):
                return True
        time.sleep(0.5)
    return False


def audit(stage: Stage, server: Mturk) -> dict[str, Any]:
    """Hold what lies at MTurk and what it paid against our books."""
    with raw.opened(stage.directory, None) as store:
        booked = (
            store.value("SELECT sum(amount) FROM payment WHERE state = 'paid'") or 0
        )
        sent = store.value("SELECT count(*) FROM outbox WHERE state = 'sent'")
        states = {state: store.value(
            f"SELECT count(*) FROM payment WHERE state = '{state}'"
        ) for state in ("paid", "released", "held", "unknown", "refused", "due",
                        "reserved")}  # fmt: skip
    spent = sum((amount for _, _, amount in server.paid), Decimal(0))
    keys = Counter(read_note(hit.told()) for hit in server.hits.values())
    bonuses = Counter(one["AssignmentId"] for one in server.bonuses)
    told = {
        "HITs made twice": sum(count > 1 for count in keys.values()),
        "HITs that no message made": abs(len(keys) - sent),
        "bonuses paid twice": sum(count > 1 for count in bonuses.values()),
        "spent otherwise than booked": int(spent * 1_000_000 != booked),
        "payments that nobody can tell of": states["unknown"],
    }
    return {
        "wrong": [f"{name}: {count}" for name, count in told.items() if count],
        "hits": len(server.hits),
        "bonuses": len(server.bonuses),
        "spent": f"USD:{spent}",
        "booked_as_paid": f"USD:{Decimal(booked) / 1_000_000:.2f}",
        "payments": states,
    }


def main() -> int:
    """Run the long form."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # the queue's own server
    return long_form(__doc__, run)


if __name__ == "__main__":
    raise SystemExit(main())
