"""What a gate decision costs: against a primary-key look-up, and as history grows.

    python benchmarks/gate.py [--large N] [--small N]

Prints, for a store with SMALL and one with LARGE exposures: the time of one SELECT of a
row by its primary key, of one decision (nothing is written), their ratio, and of a booking with its
commit. Limits: a decision costs at most 10 look-ups, and 1.5 times its own figure at the
small size.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dispatcher import keys
from dispatcher.ledger.book import Asks, Pull, Push, book
from dispatcher.ledger.decision import decide
from dispatcher.ledger.loads import RecordKeys, register_keys
from dispatcher.ledger.members import add_accounts
from dispatcher.ledger.standing import current_policy
from dispatcher.ledger.versions import apply_policy
from dispatcher.store import Store, open_store

FIELDS = 8
WORKERS = 300
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
    records = max(exposures // (FIELDS * COPIES), 20)
    with store.write() as tx:
        apply_policy(tx, POLICY, at=1)
        add_accounts(tx, [("folder", f"w{i}") for i in range(WORKERS)], at=2)
        tx.execute(
            "INSERT INTO run (id, name, state, created_at)"
            " VALUES (1, 'default', 'active', 0)"
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
    _book(store, records)
    return records * FIELDS


def _book(store: Store, records: int) -> None:
    record = np.repeat(np.arange(records), FIELDS)
    field = np.tile(np.arange(FIELDS), records)
    entry = record * FIELDS + field + 1
    given = [
        (record // 3 * 97 + field * 17 + record % 3 * 141 + copy * 8 + 3) % WORKERS
        for copy in range(COPIES)
    ]
    asks = [
        Asks(worker + 1, np.sort(np.concatenate([entry[g == worker] for g in given])))
        for worker in range(WORKERS)
    ]
    for first in range(0, WORKERS, 50):
        with store.write() as tx:
            part = asks[first : first + 50]
            book(tx, part, delivery=Push(), at=4, cause="plan", skip_refused=True)


def timed(action, pairs, repeats: int = 5) -> float:
    """Median over the repeats of the mean time of one action, in microseconds."""
    means = []
    for _ in range(repeats):
        start = time.perf_counter()
        for pair in pairs:
            action(*pair)
        means.append((time.perf_counter() - start) / len(pairs) * 1e6)
    return statistics.median(means)


def measure(exposures: int, place: Path) -> dict[str, float]:
    with open_store(place / f"{exposures}.db", create=True) as store:
        entries = fill(store, exposures)
        rng = np.random.default_rng(7)
        pairs = [
            (int(e), int(a))
            for e, a in zip(
                rng.integers(1, entries + 1, PAIRS),
                rng.integers(1, WORKERS + 1, PAIRS),
                strict=True,
            )
        ]
        with store.read() as tx:
            force = current_policy(tx)
            assert force is not None

            def look_up(entry, _):
                return tx.one("SELECT * FROM entry WHERE id = ?", (entry,))

            def gate(entry, account):
                return decide(tx, force, entry, account)

            timed(gate, pairs, 1)  # both warm
            selected, decided = timed(look_up, pairs), timed(gate, pairs)

        def booked(entry, account):
            with store.write() as write:
                lease = Pull(leased_until=9)
                asks = [Asks(account, [entry])]
                book(write, asks, delivery=lease, at=5, cause="t", skip_refused=True)

        whole = timed(booked, pairs[:200], 1)
        told = {
            "exposures": store_count(store),
            "select us": selected,
            "decision us": decided,
            "ratio": decided / selected,
            "booking us": whole,
        }
        print("  ".join(f"{name} {value:,.1f}" for name, value in told.items()))
        return told


def store_count(store: Store) -> float:
    with store.read() as tx:
        return float(
            tx.value("SELECT COUNT(*) FROM ledger_line WHERE kind = 'exposure'")
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        small = measure(options.small, Path(place))
        large = measure(options.large, Path(place))
    growth = large["decision us"] / small["decision us"]
    print(
        f"decision {large['ratio']:.1f} look-ups (limit 10), growth {growth:.2f} (1.5)"
    )
    return 0 if large["ratio"] <= 10 and growth <= 1.5 else 1


if __name__ == "__main__":
    sys.exit(main())
