"""What booking costs on both databases, against the same rows written barely.

    python -m benchmarks.store [--exposures N] [--single N] [--compare]

*Bulk*: the gate books N exposures for 300 workers (judged, chained, with tasks, messages
and summaries), 50 workers a transaction; then the very rows that it wrote are written into a
new store by binary COPY or executemany, in as many transactions (each waits for the disk
once), which is the limit: at least half as fast.

*Compared*, if asked for: the store of these exposures is compared with its ledger, once.
It is shown and has no limit.

*Single*: one decision with its booking, committed, on the disk and shipped into the
ledger's file, against a transaction of three inserts and one fdatasynced append to a
file, in turns: at least half as fast.

The PostgreSQL server is one of its own that waits for the disk. Wall clock, because the
server's work is in other processes: run it on a machine that does nothing else.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text

from benchmarks.gate import FIELDS, TRANSACTIONS, book_all, load, some_pairs
from benchmarks.machine import fdatasyncs_per_second, load_average, verdict
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.ledger.comparison import refuse_edited
from dispatcher.ledger.shipping import attach
from dispatcher.store import Store, Tx, open_store
from dispatcher.store.statements import DriverStatement
from tests import sql
from tests.conftest import private_cluster

TABLES = ("ledger_line", "exposure_count", "outbox", "task")
"""What a booking adds rows to."""

RATIO = 2.0
"""Times that the bare writing may take, at most."""


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one action."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def columns(tx: Tx, table: str) -> list[str]:
    """Names of a table's columns, in order."""
    if tx.dialect == "sqlite":
        return [row[1] for row in sql.rows(tx, f"PRAGMA table_info({table})")]
    return [
        row[0]
        for row in sql.rows(
            tx,
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_name = ? ORDER BY ordinal_position",
            [table],
        )
    ]


def bulk(
    store: Store, fresh: Store, exposures: int, *, compare: bool = False
) -> tuple[float, float, int]:
    """Seconds of booking, seconds of the bare writing of its rows, and their number."""
    records = load(store, exposures)
    before = {}
    with store.read() as tx:
        for table in TABLES:
            before[table] = sql.value(tx, f"SELECT count(*) FROM {table}")
    booked = seconds(lambda: book_all(store, records))
    if compare:
        took = seconds(lambda: refuse_edited(store))
        print(f"{store.dialect}: compared with its ledger in {took:.2f} s")
    kept = {}
    with store.read() as tx:
        for table in TABLES:
            names = columns(tx, table)
            where = " WHERE showing IS NOT NULL" if table == "ledger_line" else ""
            rows = sql.rows(tx, f"SELECT {', '.join(names)} FROM {table}{where}")
            used = [
                i for i in range(len(names)) if any(row[i] is not None for row in rows)
            ]
            kept[table] = (
                [names[i] for i in used],
                [tuple(_plain(row[i]) for i in used) for row in rows],
            )

    def bare() -> None:
        # One commit would wait for the disk once, where the booking waits for each.
        for part in range(TRANSACTIONS):
            with fresh.write() as tx:
                for table, (names, rows) in kept.items():
                    first, end = (
                        len(rows) * edge // TRANSACTIONS for edge in (part, part + 1)
                    )
                    tx.insert_many(table, names, rows[first:end])

    written = seconds(bare)
    return booked, written, sum(len(rows) for _, rows in kept.values())


def _plain(value: object) -> object:
    return bytearray(value) if isinstance(value, bytes | memoryview) else value


def single(store: Store, count: int, place: Path) -> tuple[float, float]:
    """Median seconds of a booking with its commit, and of three inserts and an append."""
    records = load(store, 16 * count)
    attach(store, place / "ledger")
    pairs = iter(some_pairs(records * FIELDS, 4 * count, 5))
    with store.write() as tx:
        for name in "abc":
            sql.execute(
                tx,
                f"CREATE TABLE bare_{name} (id bigint PRIMARY KEY, a bigint, b text)",
            )
    file = os.open(place / "append", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    numbers = iter(range(1, 10 * count))
    inserts = {
        name: DriverStatement(text(f"INSERT INTO bare_{name} VALUES (:id, 1, :words)"))
        for name in "abc"
    }

    def bare() -> None:
        number = next(numbers)
        with store.write() as tx:
            for name in "abc":
                tx.driver_execute(inserts[name], {"id": number, "words": "x" * 60})
        os.write(file, b"x" * 120)
        os.fdatasync(file)

    def booking() -> None:
        entry, account = next(pairs)
        with store.write() as tx:
            asks = [Asks(account, [entry])]
            lease = Pull(leased_until=9)
            book(tx, asks, delivery=lease, at=5, cause="t", skip_refused=True)

    for _ in range(20):  # warm
        bare()
        booking()
    turns = [(seconds(booking), seconds(bare)) for _ in range(count)]
    os.close(file)
    one, other = zip(*turns, strict=True)
    return statistics.median(one), statistics.median(other)


@contextmanager
def stores(kind: str, place: Path) -> Iterator[Callable[[str], Store]]:
    """Makes empty stores of one database."""
    if kind == "sqlite":
        yield lambda name: open_store(place / f"{name}.db", create=True)
        return
    with private_cluster(durable=True) as cluster:

        def make(name: str) -> Store:
            cluster.administer("CREATE DATABASE {name}", name=name)
            return open_store(cluster.url(name), create=True)

        yield make


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exposures", type=int, default=100_000)
    parser.add_argument("--single", type=int, default=300)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), action="append")
    options = parser.parse_args()
    kept = True
    print(
        f"load {load_average():.1f}, {fdatasyncs_per_second():,.0f} fdatasyncs a second"
    )
    for kind in options.store or ("sqlite", "postgresql"):
        with tempfile.TemporaryDirectory() as name, stores(kind, Path(name)) as make:
            with make("bulk") as store, make("bare") as fresh:
                booked, written, rows = bulk(
                    store, fresh, options.exposures, compare=options.compare
                )
            print(
                f"{kind}: {rows:,} rows booked in {booked:.2f} s,"
                f" written barely in {written:.2f} s"
            )
            print(verdict(f"{kind} bulk, in bare writings", booked / written, RATIO))
            with make("single") as store:
                one, other = single(store, options.single, Path(name))
            print(f"{kind}: a booking {one * 1e6:,.0f} us, bare {other * 1e6:,.0f} us")
            print(verdict(f"{kind} single, in bare ones", one / other, RATIO))
            kept = kept and booked / written <= RATIO and one / other <= RATIO
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
