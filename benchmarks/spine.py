"""Loading + planning + booking against a plain executemany of as many rows.

``python -m benchmarks.spine [--records 100000]`` makes records of eight fields under six
rules (answers 2), 300 workers of connector ``folder``, on SQLite, runs the three stages
and then, in the same run, inserts as many rows as entries + exposures + tasks (the
outbox's items: one a showing) into plain tables by ``executemany``, twice. It prints
the ratio (the target is at most 4) and the peak memory (at most 1 GiB); ``--scale``
does the same for a tenth of the records first (time at most linear).

Verdicts go by CPU time of the process: beside other programs, the wall clock measures
these too. It is printed next to it.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.machine import fdatasyncs_per_second, load_average, verdict
from connectors.testing.hostile import Memory
from dispatcher.ledger.identity_changes import add_accounts
from dispatcher.ledger.versions import apply_policy
from dispatcher.preflight import Preflight
from dispatcher.stages.booking import Booking
from dispatcher.stages.intake.loading import load
from dispatcher.stages.planning import Planning
from dispatcher.store import Store, lease, open_store
from tests import sql

FIELDS = ("name", "birth", "zip", "sex", "doctor", "disease", "drug", "date")
POLICY = f"""
version = 1
name = "spine"
[budget]
t = 4
[entity.record]
key = "id"
[entity.record.fields]
{chr(10).join(f'{name} = {{ ask = "transcribe", answers = 2 }}' for name in FIELDS)}
[property.name-disease]
of = ["name", "disease"]
[property.name-drug]
of = ["name", "drug"]
[property.doctor-drug]
of = ["doctor", "drug"]
[property.quasi]
of = ["birth", "zip", "sex"]
[property.visit]
of = ["doctor", "date", "disease"]
[property.half]
of = ["name", "birth", "zip", "disease"]
disclosure = "linear"
tau = 0.75
"""
WORKERS = 300


RATIO, MEMORY = 4.0, 1024.0
LINEAR = 1.1  # growth of the time per record; the rest is what figures vary by


@dataclass
class Spent:
    """Time of one part, in seconds."""

    cpu: float = 0.0
    wall: float = 0.0


@dataclass
class Figures:
    """What one size took."""

    records: int
    cpu: float
    plain: float
    wall: float
    plain_wall: float
    peak: float  # MiB


@contextmanager
def clocked() -> Iterator[Spent]:
    spent = Spent()
    wall, cpu = time.perf_counter(), time.process_time()
    yield spent
    spent.wall, spent.cpu = time.perf_counter() - wall, time.process_time() - cpu


def now() -> int:
    return time.time_ns() // 1000


def write_records(path: Path, count: int) -> None:
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 10**9, size=(count, len(FIELDS)))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("id", *FIELDS))
        for i, row in enumerate(cells.tolist()):
            writer.writerow((f"r{i}", *(f"value {cell}" for cell in row)))


def run_stages(store: Store, source: Path) -> dict[str, Spent]:
    with store.write() as tx:
        apply_policy(tx, POLICY.encode(), at=now())
        add_accounts(tx, [("folder", f"w{i}") for i in range(WORKERS)], at=now())
        epoch = lease.take(tx, lease.SHARD, "benchmark", now(), now() + 10**12)
    assert epoch is not None
    spent: dict[str, Spent] = {}
    with clocked() as spent["load"]:
        load(store, source, clock=now)
    with clocked() as spent["plan"]:
        planning = Planning(store, now)
        drafted = planning.draft(seed=1)
        assert drafted.plan_id is not None
        planning.apply(drafted.plan_id, epoch=epoch)
    with clocked() as spent["book"]:
        booking = Booking(
            store, Preflight({"folder": Memory()}), now, np.random.default_rng(5)
        )
        while booking.tick(epoch):
            pass
    return spent


def plain_inserts(path: Path, counts: tuple[int, int, int]) -> None:
    """Insert rows of the same widths into tables without any index."""
    import pysqlite3.dbapi2 as sqlite

    db = sqlite.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, a, b, c, d, e, f)")
    db.execute("CREATE TABLE line (id INTEGER PRIMARY KEY, a, b, c, d, e, f, g, h)")
    db.execute("CREATE TABLE task (id INTEGER PRIMARY KEY, a, b, c, d, e, f, g)")
    entries, lines, tasks = counts
    digest = bytes(32)
    moment = now()
    for statement, rows in (
        (
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (i, i // 8, i % 8, None, None, b"value 123456789", "text/plain")
                for i in range(entries)
            ),
        ),
        (
            "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (i, i % 300, "exposure", moment, 1, i % 300, i, "planned", digest)
                for i in range(lines)
            ),
        ),
        (
            "INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (i, i, i % 300, i % 300, "folder", i // 500, "booked", moment)
                for i in range(tasks)
            ),
        ),
    ):
        db.execute("BEGIN IMMEDIATE")
        db.executemany(statement, rows)
        db.execute("COMMIT")
    db.close()


def counts(store: Store) -> tuple[int, int, int]:
    with store.read() as tx:
        return (
            sql.value(tx, "SELECT count(*) FROM entry"),
            sql.value(tx, "SELECT count(*) FROM ledger_line WHERE kind = 'exposure'"),
            sql.value(tx, "SELECT count(*) FROM task"),
        )


def measure(records: int) -> Figures:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        write_records(folder / "records.csv", records)
        with open_store(folder / "store.db", create=True) as store:
            spent = run_stages(store, folder / "records.csv")
            rows = counts(store)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for name in ("plain", "plain again"):
            with clocked() as spent[name]:
                plain_inserts(folder / f"{name}.db", rows)
    print(
        f"{records:,} records: {rows[0]:,} entries, {rows[1]:,} exposures, "
        f"{rows[2]:,} tasks"
    )
    for name, part in spent.items():
        print(f"  {name:12} {part.cpu:8.2f} s CPU {part.wall:8.2f} s wall")
    stages = [spent[name] for name in ("load", "plan", "book")]
    plain = [spent["plain"], spent["plain again"]]
    return Figures(
        records,
        cpu=sum(part.cpu for part in stages),
        plain=sum(part.cpu for part in plain) / 2,
        wall=sum(part.wall for part in stages),
        plain_wall=sum(part.wall for part in plain) / 2,
        peak=peak,
    )


def judge(figures: Figures) -> bool:
    ratio = figures.cpu / figures.plain
    name = f"{figures.records:,} records: "
    print(verdict(name + "CPU time in plain executemany", ratio, RATIO))
    print(f"       (wall time: {figures.wall / figures.plain_wall:.2f})")
    print(verdict(name + "peak memory in MiB", figures.peak, MEMORY))
    return ratio <= RATIO and figures.peak <= MEMORY


def apart(records: int, result: Path) -> Figures:
    """Measure in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-m", "benchmarks.spine", "--records", str(records)]
    subprocess.run([*command, "--figures", str(result)], check=True)
    return Figures(**json.loads(result.read_text()))


def scale(records: int) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        few = apart(records // 10, Path(directory) / "few.json")
        many = apart(records, Path(directory) / "many.json")
    good = judge(many)
    # In units of the plain inserts of the same run: the machine's pace varies.
    growth = (many.cpu / many.plain) / (few.cpu / few.plain)
    name = f"CPU time per record, {many.records:,} to {few.records:,} records,"
    print(verdict(name, growth, LINEAR))
    return good and growth <= LINEAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--scale", action="store_true", help="also a tenth")
    parser.add_argument("--figures", type=Path, help="write them, and judge nothing")
    chosen = parser.parse_args()
    if chosen.scale:
        return 0 if scale(chosen.records) else 1
    print(
        f"load average {load_average():.1f}, {fdatasyncs_per_second():.0f} fdatasync/s"
    )
    figures = measure(chosen.records)
    if chosen.figures is not None:
        chosen.figures.write_text(json.dumps(asdict(figures)))
        return 0
    return 0 if judge(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
