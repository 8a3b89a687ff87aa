"""What runs of many records through a market share: set up, wait, hold against the ledger.

What every account was served, at the market and by us, is held against the ledger, which
is read by plain SQL that shares no code with the engine.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.app.servers import free_ports
from dispatcher.surfaces.demo.forms import WrittenBox, write_records
from dispatcher.surfaces.demo.report import report
from dispatcher.surfaces.demo.show import Stage
from tests.e2e.torture import raw
from tests.e2e.torture.checks import read_ledger
from tests.markets.page_people import BusyWorker

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
collecting = 1.0
paying   = 1.0
"""
STALLED = 300.0
"""Seconds without an answer after which nothing more will come."""


@dataclass(frozen=True)
class Sizes:
    """What is run."""

    records: int = 6
    workers: int = 14
    seed: int = 7
    seconds: float = 300.0
    answers: int | None = None  # of each field; None: as the policy says


def set_up(
    stage: Stage, sizes: Sizes, connector: str, section: str, secret: str
) -> tuple[dict[str, WrittenBox], int]:
    """Draw the forms; set up the store, the policy and the connector.

    ``section`` is what stands under the connector in the settings, ``{workers}`` in it
    our page's port. Returns what is written on each crop, and that port.
    """
    directory = stage.directory
    directory.mkdir()
    known = write_records(directory, sizes.records, sizes.seed)
    stage.command("init", "--example", "prescriptions")
    policy = directory / "policy.toml"
    text = re.sub(r"per_day = \d+", "per_day = 100000", policy.read_text())
    if sizes.answers is not None:
        text = re.sub(r"answers = \d", f"answers = {sizes.answers}", text)
    policy.write_text(text)  # else a day's work takes days
    ports = dict(zip(("operators", "workers", "admin"), free_ports(3), strict=True))
    settings = SETTINGS.format(**ports, lease=LEASE)
    section = section.format(**ports)
    (directory / "dispatcher.toml").write_text(
        f"{settings}\n[connectors.{connector}]\n{section}\n"
        'secret_file = "market.secret"\n'
    )
    kept = directory / "market.secret"
    kept.touch(mode=0o600)
    kept.write_text(secret)
    stage.command("policy", "apply")
    return known, ports["workers"]


def wait(
    stage: Stage,
    daemon: subprocess.Popen[bytes],
    people: Sequence[BusyWorker],
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


def judge(
    stage: Stage,
    sizes: Sizes,
    people: Sequence[BusyWorker],
    known: Mapping[str, WrittenBox],
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
    at_market = {text for one in deeds for text in one.market_said} | {held}
    by_us = {text for one in deeds for text in one.said}
    wrong = [
        f"{name}: {count}"
        for name, count in {
            "seen and not booked": len(seen - booked),
            "complete sets": found.complete,
            "pictures of nothing, or of another's": found.strangers,
            "another's task shown": sum(one.foreign for one in deeds),
            "two tasks in two windows": sum(one.split for one in deeds),
            "work that a rival got": sum(one.races_lost for one in deeds),
            "values at the market": sum(
                bool(values.search(text)) for text in at_market
            ),
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
        "pages_of_the_market": len(at_market) - 1,
        "pages_of_ours": len(by_us),
        "seen": len(seen),
        "booked": len(booked),
        "worst": str(found.worst),
        "verdict": found.verdict,
    }


def told_values(known: Mapping[str, WrittenBox]) -> re.Pattern[str]:
    """What would give a form away wherever it stood."""
    told = {w.text for w in known.values() if len(w.text) > 4}
    told |= {w.rx_id for w in known.values()}
    return re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(told))) + r")\b")


def long_form(text: str | None, run: Callable[[Path, Sizes], Mapping[str, Any]]) -> int:
    """Run the long form by what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=text)
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
