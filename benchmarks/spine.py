"""Loading + planning + booking against a plain executemany of as many rows.

``python -m benchmarks.spine [--records 100000]`` makes records of eight fields under six
rules (answers 2), 300 workers of connector ``folder``, on SQLite, runs the three stages
and then, in the same run, inserts as many rows as entries + exposures + tasks (the
outbox's items: one a showing) into plain tables by ``executemany``. It prints the
ratio (the target is at most 4), the peak memory (at most 1 GiB) and, with ``--scale``,
the same for a tenth of the records (time at most linear).
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.machine import fdatasyncs_per_second, load_average
from dispatcher.ledger.members import add_accounts
from dispatcher.ledger.versions import apply_policy
from dispatcher.stages.booking import Booking
from dispatcher.stages.intake import load
from dispatcher.stages.planning import Planning
from dispatcher.store import Store, lease, open_store

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


def run_stages(store: Store, source: Path) -> dict[str, float]:
    with store.write() as tx:
        apply_policy(tx, POLICY.encode(), at=now())
        add_accounts(tx, [("folder", f"w{i}") for i in range(WORKERS)], at=now())
        epoch = lease.take(tx, lease.SHARD, "benchmark", now(), now() + 10**12)
    assert epoch is not None
    spent: dict[str, float] = {}
    began = time.perf_counter()
    load(store, source, clock=now)
    spent["load"] = time.perf_counter() - began
    began = time.perf_counter()
    planning = Planning(store, now)
    drafted = planning.draft(seed=1)
    assert drafted.plan_id is not None
    planning.apply(drafted.plan_id, epoch=epoch)
    spent["plan"] = time.perf_counter() - began
    began = time.perf_counter()
    booking = Booking(store, ["folder"], [], now)
    while booking.tick(epoch):
        pass
    spent["book"] = time.perf_counter() - began
    return spent


def plain_inserts(path: Path, counts: tuple[int, int, int]) -> float:
    """Seconds to insert rows of the same widths into tables without any index."""
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
    began = time.perf_counter()
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
    return time.perf_counter() - began


def counts(store: Store) -> tuple[int, int, int]:
    with store.read() as tx:
        return (
            tx.value("SELECT count(*) FROM entry"),
            tx.value("SELECT count(*) FROM ledger_line WHERE kind = 'exposure'"),
            tx.value("SELECT count(*) FROM task"),
        )


def measure(records: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        write_records(folder / "records.csv", records)
        with open_store(folder / "store.db", create=True) as store:
            spent = run_stages(store, folder / "records.csv")
            rows = counts(store)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        plain = plain_inserts(folder / "plain.db", rows)
        total = sum(spent.values())
        print(
            f"{records:>9,} records  {rows[0]:,} entries {rows[1]:,} exposures "
            f"{rows[2]:,} tasks\n"
            + "".join(
                f"  {name:5} {seconds:7.2f} s\n" for name, seconds in spent.items()
            )
            + f"  total {total:7.2f} s   plain executemany {plain:.2f} s   "
            f"ratio {total / plain:.2f} (at most 4)   peak {peak:.0f} MiB (at most 1024)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--scale", action="store_true", help="also a tenth")
    chosen = parser.parse_args()
    print(
        f"load average {load_average():.1f}, {fdatasyncs_per_second():.0f} fdatasync/s"
    )
    sizes = [chosen.records // 10, chosen.records] if chosen.scale else [chosen.records]
    if len(sizes) == 1:
        measure(sizes[0])
        return
    for size in sizes:  # a process each, so that peak memory is its own
        subprocess.run(
            [sys.executable, "-m", "benchmarks.spine", "--records", str(size)],
            check=True,
        )


if __name__ == "__main__":
    main()
