"""What a gate decision costs: against a primary-key look-up, and as history grows.

    python -m benchmarks.gate [--large N] [--small N]

Prints, for a store with SMALL and one with LARGE exposures, in CPU time: one SELECT of a
whole row by its primary key, one of a single column, one decision (nothing is written)
of pairs asked over and over, and of pairs spread over the whole history that are asked
once (most pages are then read from the file); and the time of a booking with its commit.
All go through the same driver, in turns. Limits: a decision costs at most 10 look-ups,
and 1.5 times its own figure at the small size.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sqlalchemy import bindparam
from sqlmodel import select

from benchmarks.machine import verdict
from dispatcher.core import keys
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.book import Asks, Pull, Push, book
from dispatcher.ledger.decision import decide
from dispatcher.ledger.identity_changes import add_accounts
from dispatcher.ledger.loads import RecordKeys, register_keys
from dispatcher.ledger.versions import apply_policy
from dispatcher.model import Entry
from dispatcher.store import Store, open_store
from dispatcher.store.statements import DriverStatement
from tests import sql

FIELDS = 8
Pair = tuple[int, int]
Action = Callable[[int, int], object]

ROW = DriverStatement(select(Entry).where(Entry.id == bindparam("entry")))
COLUMN = DriverStatement(select(Entry.record_id).where(Entry.id == bindparam("entry")))
WORKERS = 300
TRANSACTIONS = 6  # in which a history is booked, each for as many workers
COPIES = 2
PAIRS = 500  # asked over and over: the pages that they touch stay in the cache
POLICY = (
    b"""
version = 1
name = "gate"
[budget]
t = 5
[entity.rx]
key = "id"
subject = "patient"
[entity.rx.fields]
"""
    + b"\n".join(
        b'f%d = { ask = "transcribe", answers = 2 }' % i for i in range(FIELDS)
    )
    + b"""
[property.name-disease]
scope = "subject"
of = ["f0", "f1"]
[property.pair]
of = ["f2", "f3"]
[property.three]
of = ["f4", "f5", "f6"]
[property.history]
scope = "subject"
of = ["f1", "f2"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
[property.other]
of = ["f5", "f7"]
[property.last]
of = ["f0", "f7"]
"""
)


def fill(store: Store, exposures: int) -> int:
    """Load records and book exposures, as a plan would; return the entries."""
    records = load(store, exposures)
    book_all(store, records)
    return records * FIELDS


def load(store: Store, exposures: int) -> int:
    """Load the records for so many exposures, under the policy; return their number."""
    records = max(exposures // (FIELDS * COPIES), 20)
    with store.write() as tx:
        apply_policy(tx, POLICY, at=1)
        add_accounts(tx, [("folder", f"w{i}") for i in range(WORKERS)], at=2)
        sql.execute(
            tx,
            "INSERT INTO run (id, name, state, created_at)"
            " VALUES (1, 'default', 'active', 0)",
        )
    secret = store.key("pseudonym-key")
    names = keys.pseudonyms(secret, "r", (str(i) for i in range(records)))
    people = keys.pseudonyms(secret, "s", (str(i) for i in range(records // 3 + 1)))
    with store.write() as tx:
        tx.insert_many(
            "subject",
            ("id", "pseudonym", "value"),
            ((i + 1, name, b"p") for i, name in enumerate(people)),
        )
        tx.insert_many(
            "record",
            ("id", "run_id", "load_id", "pseudonym", "key", "columns", "subject_id"),
            ((i + 1, 1, 1, n, b"k", b"[]", i // 3 + 1) for i, n in enumerate(names)),
        )
        tx.insert_many(
            "entry",
            ("id", "record_id", "field_id", "subject_id", "shown", "media"),
            (
                (i * FIELDS + f + 1, i + 1, f + 1, i // 3 + 1, b"value", "text/plain")
                for i in range(records)
                for f in range(FIELDS)
            ),
        )
        register_keys(
            tx,
            (
                RecordKeys(name, range(1, FIELDS + 1), people[i // 3])
                for i, name in enumerate(names)
            ),
            at=3,
        )
    return records


def book_all(store: Store, records: int) -> None:
    """Book every field of every record for two workers, some at a time."""
    record = np.repeat(np.arange(records), FIELDS)
    field = np.tile(np.arange(FIELDS), records)
    entry = record * FIELDS + field + 1
    given = [
        (record // 3 * 97 + field * 17 + record % 3 * 141 + copy * 8 + 3) % WORKERS
        for copy in range(COPIES)
    ]
    asks = [
        Asks(
            worker + 1,
            np.sort(np.concatenate([entry[g == worker] for g in given])).tolist(),
        )
        for worker in range(WORKERS)
    ]
    size = WORKERS // TRANSACTIONS
    for first in range(0, WORKERS, size):
        with store.write() as tx:
            part = asks[first : first + size]
            book(tx, part, delivery=Push(), at=4, cause="plan", skip_refused=True)


def once(action: Action, pairs: Sequence[Pair]) -> float:
    """Mean CPU time of one action, in microseconds."""
    start = time.process_time()
    for pair in pairs:
        action(*pair)
    return (time.process_time() - start) / len(pairs) * 1e6


def in_turns(
    actions: Sequence[Action], pairs: Sequence[Pair], turns: int = 31
) -> list[float]:
    """Median over the turns of each action's time; the first turn warms up."""
    found = [[once(action, pairs) for action in actions] for _ in range(turns + 1)]
    return [statistics.median(each) for each in zip(*found[1:], strict=True)]


def some_pairs(entries: int, count: int, seed: int) -> list[Pair]:
    rng = np.random.default_rng(seed)
    who = rng.integers(1, WORKERS + 1, count).tolist()
    return list(zip(rng.integers(1, entries + 1, count).tolist(), who, strict=True))


def measure(exposures: int, place: Path) -> dict[str, float]:
    with open_store(place / f"{exposures}.db", create=True) as store:
        entries = fill(store, exposures)
        pairs = some_pairs(entries, PAIRS, 7)
        with store.read() as tx:
            force = current_policy(tx)
            assert force is not None

            def whole_row(entry: int, _: int) -> object:
                return tx.driver_one(ROW, {"entry": entry})

            def one_column(entry: int, _: int) -> object:
                return tx.driver_one(COLUMN, {"entry": entry})

            def gate(entry: int, account: int) -> object:
                return decide(tx, force, entry, account)

            row, column, decided = in_turns([whole_row, one_column, gate], pairs)
            spread = once(gate, some_pairs(entries, 20 * PAIRS, 8))

        def booked(entry: int, account: int) -> object:
            with store.write() as write:
                lease = Pull(leased_until=9)
                asks = [Asks(account, [entry])]
                return book(
                    write, asks, delivery=lease, at=5, cause="t", skip_refused=True
                )

        told = {
            "exposures": store_count(store),
            "row us": row,
            "column us": column,
            "decision us": decided,
            "spread us": spread,
            "booking us": once(booked, pairs[:200]),
        }
        print("  ".join(f"{name} {value:,.1f}" for name, value in told.items()))
        return told


def store_count(store: Store) -> float:
    with store.read() as tx:
        return float(
            sql.value(tx, "SELECT COUNT(*) FROM ledger_line WHERE kind = 'exposure'")
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        small = measure(options.small, Path(place))
        large = measure(options.large, Path(place))
    told = (
        ("decision in whole-row look-ups", large["decision us"] / large["row us"], 10),
        (
            "decision in one-column look-ups",
            large["decision us"] / large["column us"],
            10,
        ),
        ("decision, large to small", large["decision us"] / small["decision us"], 1.5),
    )
    for name, value, limit in told:
        print(verdict(name, value, limit))
    spread = large["spread us"] / small["spread us"]
    print(f"(pairs spread over all history, asked once: large to small {spread:.2f})")
    return 0 if all(value <= limit for _, value, limit in told) else 1


if __name__ == "__main__":
    sys.exit(main())
