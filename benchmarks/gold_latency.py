"""Whether a made-up question is known by the time that its Start takes.

    python -m benchmarks.gold_latency [--starts 400] [--fsync 15]

A worker starts and answers tasks of which half are made up, by HTTP requests to the task
page in this process, on SQLite with the ledger shipped. The disk is slow: each commit that
wrote, and each sync of a shipped line, counts for so many milliseconds. A Start's time is
that plus the CPU time of the process, which other programs do not blur, and then what the page
makes of it, whose answers leave in steps. The times are split in two halves; the
threshold that tells the kinds apart best in the one is tried on the other. It is right for
50 % where the time tells nothing. The limit is 60 % of the times in steps; of the bare
ones 80 %, since there the work itself shows, but not one wait for the disk.
"""

import argparse
import math
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from starlette.testclient import TestClient

from benchmarks.machine import load_average, verdict
from dispatcher.core.rate_limit import Rate
from dispatcher.ledger.shipping import attach
from dispatcher.stages.serving import ServingTerms
from dispatcher.store import open_store
from dispatcher.store.sqlite import SQLiteStoreDialect
from dispatcher.surfaces.taskpage import PageSettings, task_app
from dispatcher.surfaces.taskpage.task_routes import SHOWN
from tests.integration.serving_house import House

RIGHT, BARE = 60.0, 80.0  # percent
_TASK = re.compile(r'data-token="([^"]+)"')
_FORM = re.compile(r'name="form_token" value="([^"]+)"')
FAST = Rate(per_minute=1_000_000, burst=1_000_000)


def count_waits() -> list[int]:
    """Count, in a list of one number, commits that wrote and syncs."""
    sync, commit = os.fdatasync, SQLiteStoreDialect.do_commit
    changes: dict[int, int] = {}
    waits = [0]

    def counted_sync(file: int) -> None:
        sync(file)
        waits[0] += 1

    def counted_commit(self: SQLiteStoreDialect, connection: object) -> None:
        commit(self, connection)
        driver = connection.driver_connection
        before = changes.get(id(driver), 0)
        changes[id(driver)] = driver.total_changes
        waits[0] += driver.total_changes != before

    os.fdatasync = counted_sync
    SQLiteStoreDialect.do_commit = counted_commit
    return waits


def times_of_starts(place: Path, starts: int, fsync: float) -> tuple[list, list]:
    """Milliseconds of Starts of real fields, and of made-up questions."""
    waits = count_waits()
    with open_store(place / "store.db", create=True) as store:
        house = House(store, lambda: time.time_ns() // 1000)
        attach(store, place / "ledger")
        store.settle(afresh=True)
        entries = [house.record(n + 1, name=f"Real {n}")["name"] for n in range(starts)]
        house.plan((house.account("ann"), entries))
        house.made_up("gold", *((f"Gold {n}", f"Gold {n}") for n in range(starts)))
        app = task_app(
            store,
            {"inhouse": house.market()},
            clock=house.clock,
            rng=np.random.default_rng(1),
            terms=ServingTerms(apart=0, gold=0.5),
            settings=PageSettings(neutral=0, start=FAST, answer=FAST),
        )
        found: tuple[list, list] = [], []
        with TestClient(app, base_url="http://127.0.0.1:8421") as client:
            client.headers["sec-fetch-site"] = "same-origin"
            client.post("/arrive", data={"invite": house.invite("ann")})
            form = {"form_token": _FORM.search(client.get("/").text)[1]}
            for _ in range(starts):
                began, before = time.process_time(), waits[0]
                page = client.post("/start", data=form).text
                took = (time.process_time() - began) * 1000
                took += (waits[0] - before) * fsync
                found["Gold " in page].append(took)
                token = _TASK.search(page)[1]
                given = {**form, "answer": "x", "outcome": "answered"}
                client.post(f"/task/{token}/answer", data=given)
    return found


def told(real: list[float], gold: list[float]) -> float:
    """Percent of the second halves that the first halves' best threshold gets right."""
    size = min(len(real), len(gold)) // 2
    first = np.array([real[:size], gold[:size]])
    second = np.array([real[-size:], gold[-size:]])

    def right(times: np.ndarray, threshold: float) -> float:
        return ((times[0] > threshold).mean() + (times[1] <= threshold).mean()) / 2

    best = max(first.ravel(), key=lambda t: abs(right(first, t) - 0.5))
    share = right(second, best)
    return 100 * float(share if right(first, best) >= 0.5 else 1 - share)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=400)
    parser.add_argument("--fsync", type=float, default=15)
    options = parser.parse_args()
    print(f"load {load_average():.1f}, {options.fsync:g} ms a sync")
    with tempfile.TemporaryDirectory() as place:
        kinds = times_of_starts(Path(place), options.starts, options.fsync)
    step = PageSettings().neutral / SHOWN * 1000
    in_steps = [[math.ceil(each / step) * step for each in times] for times in kinds]
    good = True
    for name, (real, gold), limit in (
        ("bare", kinds, BARE),
        (f"in steps of {step:g} ms", in_steps, RIGHT),
    ):
        print(
            f"{name}: real {statistics.median(real):.1f} ms (n {len(real)}),"
            f" made up {statistics.median(gold):.1f} ms (n {len(gold)})"
        )
        share = told(real, gold)
        print(verdict("percent told by the time", share, limit))
        good = good and share <= limit
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
