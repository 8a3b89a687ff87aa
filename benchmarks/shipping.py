"""What a booking costs whose lines are shipped, against the bare writes under it.

    python -m benchmarks.shipping [--singles N] [--batch N] [--records N] [--store URL]
        [--place DIRECTORY]

Single: one decision with its booking, durable in the store and in the shipped ledger,
against a transaction of three plain inserts (line, task, exposure count) plus one append
with its fdatasync, by the same driver with the same settings. Batch: many pairs in one
booking with shipping, against the very rows that it wrote (under numbers of nobody, so
that indexes grow in the same places), from tuples that are ready, as the driver's users
write them: executemany, or binary COPY row by row. Both append as many bytes as were
shipped.

The bare side is a little ahead: its rows are made before the clock runs, it goes second,
over pages that are warm, and it leaves out what is one row for a message or a chain. It
does not use the gate's own way of packing columns for COPY. A booking touches no value,
so that a store with encryption costs the same; its limit would be 0.3.

In turns, by the wall clock: syncs are what it costs. Limits: half of the bare rate for
both. A server must wait for its disk (fsync on). The disk's own speed, and that of the
machine, cancel out only where nobody else uses them.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from benchmarks.gate import FIELDS, fill
from benchmarks.machine import fdatasyncs_per_second, load_average
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.ledger.identity_changes import add_accounts
from dispatcher.ledger.shipping import attach
from dispatcher.store import Store, Tx, open_store
from tests import sql

HALF = 0.5
TURNS = 5
CROWD = 50  # workers of a batch
LINE_COLUMNS = ("chain_id", "seq", "kind", "at", "policy_version", "account_id",
                "entry_id", "cause", "showing", "hash")  # fmt: skip
TASK_COLUMNS = ("id", "entry_id", "account_id", "adversary_id", "connector", "state",
                "created_at", "outbox_id")  # fmt: skip
COUNT_COLUMNS = ("adversary_id", "unit_id", "field_id", "time", "entries")

Rows = Sequence[Sequence[object]]


def wall(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


class Bare:
    """Plain inserts into a store that nothing judges, and an append beside it."""

    def __init__(self, store: Store, place: Path) -> None:
        self.store = store
        self.file = os.open(place / "bare", os.O_WRONLY | os.O_CREAT, 0o600)
        self.ledger = place / "ledger"
        self.seq = count(1)

    def rows(self, size: int) -> tuple[Rows, Rows, Rows]:
        """Rows of so many showings, as a booking writes them."""
        first = next(self.seq) * 1_000_000
        numbers = range(first, first + size)
        raw = bytearray(32)
        return (
            [(7_000_000, n, "exposure", 1, 1, 1, n, "plan", 1, raw) for n in numbers],
            [(n, n, 1, 1, "folder", "booked", 1, 1) for n in numbers],
            [(7_000_000, 2 * n, 1, 0, 1) for n in numbers],
        )

    def again(self, tasks: range) -> tuple[Rows, Rows, Rows]:
        """Rows that a booking wrote, under chains, tasks and adversaries of nobody."""
        shift = next(self.seq) * 1_000_000
        with self.store.read() as tx:
            chains = "SELECT adversary_id FROM task WHERE id BETWEEN ? AND ?"
            ends = tasks[0], tasks[-1]
            lines = sql.rows(
                tx,
                f"SELECT {', '.join(LINE_COLUMNS)} FROM ledger_line WHERE"
                f" kind = 'exposure' AND chain_id IN ({chains})",
                ends,
            )
            booked = sql.rows(
                tx,
                f"SELECT {', '.join(TASK_COLUMNS)} FROM task WHERE id BETWEEN ? AND ?",
                ends,
            )
            held = sql.rows(
                tx,
                f"SELECT {', '.join(COUNT_COLUMNS)} FROM exposure_count"
                f" WHERE adversary_id IN ({chains})",
                ends,
            )
        return (
            [(row[0] + shift, *row[1:-1], bytearray(row[-1])) for row in lines],
            [(row[0] + shift, *row[1:]) for row in booked],
            [(row[0] + shift, *row[1:]) for row in held],
        )

    def write(self, tx: Tx, rows: tuple[Rows, Rows, Rows]) -> None:
        """Insert them in bulk."""
        tx.insert_many("ledger_line", LINE_COLUMNS, rows[0])
        tx.insert_many("task", TASK_COLUMNS, rows[1])
        tx.insert_many("exposure_count", COUNT_COLUMNS, rows[2])

    def once(self, rows: tuple[Rows, Rows, Rows], text: bytes) -> None:
        """Commit them, append a text, and sync."""
        with self.store.write() as tx:
            self.write(tx, rows)
        os.write(self.file, text)
        os.fdatasync(self.file)

    def shipped(self) -> int:
        """Bytes of the shipped ledger."""
        return sum(file.stat().st_size for file in self.ledger.iterdir())


def pairs_of(workers: Sequence[int], field: int, size: int, records: int) -> list[Asks]:
    """Asks of one field for workers who saw nothing yet: all are safe, as planned."""
    each = max(1, size // len(workers))
    taken = [
        sorted((place * each + i) % records * FIELDS + field + 1 for i in range(each))
        for place in range(len(workers))
    ]
    return [Asks(w, ids) for w, ids in zip(workers, taken, strict=True)]


def committed(store: Store, asks: Sequence[Asks]) -> range:
    """Book asks of which none is refused; return their tasks."""
    with store.write() as tx:
        return book(tx, asks, delivery=Push(), at=5, cause="t").tasks


def singles(store: Store, bare: Bare, worker: int, pairs: int, records: int) -> float:
    """Rate of single bookings to that of bare transactions."""
    asked = iter(range(records))
    found = []
    for _ in range(TURNS):
        turn = [Asks(worker, [next(asked) * FIELDS + 8]) for _ in range(pairs)]
        rows = [bare.rows(1) for _ in range(pairs)]
        before = bare.shipped()
        booking = wall(lambda asks=turn: [committed(store, [ask]) for ask in asks])
        text = bytes((bare.shipped() - before) // pairs)
        plain = wall(lambda rows=rows, text=text: [bare.once(r, text) for r in rows])
        found.append((booking, plain))
    one, other = (statistics.median(each) / pairs for each in zip(*found, strict=True))
    print(f"single: booking {one * 1e3:.2f} ms  bare {other * 1e3:.2f} ms")
    return other / one


def batches(
    store: Store, bare: Bare, workers: Sequence[int], size: int, records: int
) -> float:
    """Rate of batch bookings to that of the same rows in bulk."""
    found = []
    for turn in range(TURNS):
        mine = workers[turn * CROWD : (turn + 1) * CROWD]
        asks = pairs_of(mine, turn, size, records)
        before = bare.shipped()
        start = time.perf_counter()
        tasks = committed(store, asks)
        booking = time.perf_counter() - start
        rows, text = bare.again(tasks), bytes(bare.shipped() - before)
        plain = wall(lambda rows=rows, text=text: bare.once(rows, text))
        found.append((booking, plain))
    one, other = (statistics.median(each) / size for each in zip(*found, strict=True))
    print(
        f"batch:  booking {one * 1e6:.1f} us a pair  bare {other * 1e6:.1f} us a pair"
    )
    return other / one


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--singles", type=int, default=200)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--store", help="URL of an empty PostgreSQL database")
    parser.add_argument("--place", help="Directory of the files; default: a new one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.place) as name:
        place = Path(name)
        location = options.store or str(place / "store.db")
        with open_store(location, create=True) as store:
            records = fill(store, options.records * FIELDS * 2) // FIELDS
            with store.write() as tx:
                fresh = [("folder", f"new{i}") for i in range(TURNS * CROWD + 1)]
                workers = [a.id for a in add_accounts(tx, fresh, at=5).accounts]
            bare = Bare(store, place)
            attach(store, bare.ledger)
            store.settle(afresh=True)
            print(
                f"{store.dialect}, {records:,} records, load {load_average():.1f},"
                f" {fdatasyncs_per_second():,.0f} fdatasyncs a second"
            )
            found = (
                (
                    "batch booking, share of the bare rate",
                    batches(store, bare, workers[1:], options.batch, records),
                ),
                (
                    "single booking, share of the bare rate",
                    singles(store, bare, workers[0], options.singles, records),
                ),
            )
    for name, value in found:
        print(
            f"{'ok' if value >= HALF else 'FAIL'}  {name}: {value:.2f} (at least {HALF})"
        )
    return 0 if all(value >= HALF for _, value in found) else 1


if __name__ == "__main__":
    sys.exit(main())
