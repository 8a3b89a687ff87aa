"""Two to four daemons race for the last safe pair: never both, whoever leads by now.

``python -m tests.e2e.torture.races --races 1000 [--store postgresql]``

Each daemon is a process with a clock of its own, some of them a day off. In each race
all ask at the same moment. Some first take the lease from whoever has it, so that the
others hold a stale epoch or one that becomes stale while they ask; others ask in the
name of whoever leads, as its threads do. Two things are raced
for: the halves of a pair that one adversary may not hold both of, and the one showing
that a field has left.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dispatcher.core.errors import Refused, StaleLease, StoreLocked, StoreUnreachable
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.ledger.comparison import compare
from dispatcher.store import Store, Tx, lease, open_store
from dispatcher.store.engine import committed
from tests.e2e.torture import raw
from tests.e2e.torture.__main__ import database
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.patience import PATIENCE

DAEMONS = 4
DAY = 86_400_000_000
SKEWS = (0, DAY, -DAY, 0)
"""What the clocks of the daemons are off, in microseconds."""

GROUP = '[workers.groups.g]\nmembers = ["x/g*"]'


@dataclass
class Field:
    """What is raced for, the same for all daemons.

    ``asks[race][daemon]`` is the (account, entry) that it asks for, or None if it only
    looks on; ``takers[race]`` are the daemons that take the lease first,
    ``threads[race]`` those that ask under the epoch of whoever leads.
    """

    asks: list[list[tuple[int, int] | None]]
    takers: list[set[int]]
    threads: list[set[int]]
    pairs: list[tuple[int, int]] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)


def prepare(store: Store, races: int, seed: int) -> Field:
    """Load a record for each race, and draw who asks for what."""
    rng = np.random.default_rng(seed)
    case = Case(store)
    case.apply(policy(PAIR, budget="t = 1", groups=GROUP))
    case.add(*(f"x/g{i}" for i in range(DAEMONS)), *(f"x/{i}" for i in range(DAEMONS)))
    for first in range(0, races, 500):
        case.load(
            *(
                (f"r{i}", None, None, "abc")
                for i in range(first, min(races, first + 500))
            )
        )
    made = Field([], [], [])
    for race in range(races):
        count = int(rng.integers(2, DAEMONS + 1))
        inside = rng.permutation(DAEMONS)[:count].tolist()
        pair = race % 2 == 0
        asks: list[tuple[int, int] | None] = [None] * DAEMONS
        for turn, one in enumerate(inside):
            who = f"x/g{one}" if pair else f"x/{one}"
            what = ("ab"[turn % 2]) if pair else "c"
            asks[one] = case.accounts[who], case.entries[f"r{race}.{what}"]
        made.asks.append(asks)
        draws = dict(zip(inside, rng.random(count), strict=True))
        made.takers.append({one for one in inside if draws[one] < 0.2 or not race})
        made.threads.append({one for one in inside if draws[one] > 0.4})
        if pair:
            made.pairs.append((case.entries[f"r{race}.a"], case.entries[f"r{race}.b"]))
        else:
            made.lasts.append(case.entries[f"r{race}.c"])
    return made


def contend(number: int, location: str, made: Field, start: Any, said: Any) -> None:
    """One daemon: in every race it may take the lease, and asks under its epoch."""

    def clock() -> int:
        return time.time_ns() // 1000 + SKEWS[number]

    told: Counter[str] = Counter()
    epoch = 0
    with open_store(location) as store:
        for race, asks in enumerate(made.asks):
            ask = asks[number]
            start.wait(PATIENCE)
            try:
                if number in made.takers[race]:
                    epoch = seize(store, clock, number, race) or epoch
                elif number in made.threads[race]:
                    epoch = leading(store)
                if ask is None:
                    continue
                granted = committed(store, partial(one_showing, ask, clock(), epoch))
                told["granted" if granted else "held already"] += 1
            except Refused:
                told["refused by the gate"] += 1
            except StaleLease:
                told["refused for its epoch"] += 1
            except (StoreLocked, StoreUnreachable):
                told["the store was busy"] += 1
    said.put(told)


def one_showing(ask: tuple[int, int], now: int, epoch: int, tx: Tx) -> int:
    account, entry = ask
    delivery = Pull(leased_until=now)
    asks = [Asks(account, [entry])]
    fence = lease.Fence(lease.SHARD, epoch)
    return book(tx, asks, delivery=delivery, at=now, cause="race", fence=fence).new


def leading(store: Store) -> int:
    """Epoch of whoever leads."""
    with store.read() as tx:
        found = lease.holder(tx, lease.SHARD)
    return found.epoch if found else 0


def seize(store: Store, clock: Any, number: int, race: int) -> int | None:
    """Take the lease whoever has it, as one does who believes that it is over."""
    until = clock() + 8_000_000
    with store.write() as tx:
        found = lease.holder(tx, lease.SHARD)
        name = f"daemon {number}, race {race}"
        if found is None:
            return lease.take(tx, lease.SHARD, name, clock(), until)
        return lease.seize(tx, lease.SHARD, found, name, until)


def run(location: str, races: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Race; return what the daemons were told, and what is wrong in the ledger."""
    with open_store(location) as store:
        made = prepare(store, races, seed)
    context = multiprocessing.get_context("spawn")
    start, said = context.Barrier(DAEMONS), context.Queue()
    daemons = [
        context.Process(target=contend, args=(i, location, made, start, said))
        for i in range(DAEMONS)
    ]
    for one in daemons:
        one.start()
    told: Counter[str] = Counter()
    for _ in daemons:
        told += said.get(timeout=PATIENCE + 4 * races)
    for one in daemons:
        one.join(PATIENCE)
    return told, wrong(location, made)


def wrong(location: str, made: Field) -> list[str]:
    """What must not be: both halves with one adversary, a field shown twice."""
    place = (
        (Path(), location)
        if location.startswith("postgresql")
        else (Path(location).parent, None)
    )
    with raw.opened(*place) as rows:
        lines = rows.rows(
            "SELECT chain_id, entry_id FROM ledger_line WHERE showing = 1"
        )
    held: dict[int, set[int]] = {}
    shown = Counter(entry for _, entry in set(lines))
    for chain, entry in lines:
        held.setdefault(chain, set()).add(entry)
    found = [
        f"one showing counted twice: {line}"
        for line, n in Counter(lines).items()
        if n > 1
    ]
    found += [
        f"both halves: {pair}"
        for pair in made.pairs
        for mine in held.values()
        if mine.issuperset(pair)
    ]
    found += [
        f"shown {shown[one]} times: {one}" for one in made.lasts if shown[one] > 1
    ]
    with open_store(location) as store, store.read() as tx:
        found += [f"not as the ledger says: {d}" for d in compare(tx).differences]
    return found


def main() -> int:
    """Run; 0 if everything holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.torture.races")
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    chosen = parser.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="races-") as place,
        database(chosen.store) as url,
    ):
        location = url or str(Path(place) / "dispatcher.db")
        open_store(location, create=True).close()
        told, found = run(location, chosen.races, chosen.seed)
    print(
        f"{chosen.races} races on {chosen.store} in {time.monotonic() - began:.0f} s: "
        + ", ".join(f"{name} {count}" for name, count in sorted(told.items()))
    )
    for line in found[:20]:
        print(f"WRONG: {line}")
    print("DOES NOT HOLD" if found else "holds: never both")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
