"""Pieces of work at the emulated MTurk by the hundred, with everything failing.

As the daemon does it, but without one: each is offered, taken, handed back, taken again,
arrived for, handed in, approved and paid a bonus; what fails is asked after and repeated.
The long form, a minute for each hundred pieces::

    python -m tests.markets.mturk_storm --pieces 1000
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np

from connectors.base import (
    Arrival,
    Collected,
    Handle,
    Item,
    Money,
    Offer,
    Pay,
    PayKind,
    Progress,
    Settings,
    Submission,
    TryLater,
)
from connectors.mturk import CONNECTOR, Mturk
from connectors.mturk.arrivals import read_note
from connectors.testing.suite import NOW
from tests.contract.mturk_bench import SECRET, hand_in, values, visit_of
from tests.contract.mturk_queue import queue_server
from tests.contract.mturk_server import Faults, mturk_server
from tests.contract.mturk_server import Mturk as Server

Told = TypeVar("Told")
TRIES = 50
PAGE = "https://tasks.example.test/"
REWARD, BONUS = Money(Decimal("0.50"), "USD"), Money(Decimal("0.07"), "USD")


@dataclass
class Clock:
    """MTurk's clock: five minutes off ours, and a second later with every look."""

    now: datetime = NOW + timedelta(minutes=5)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=20)
        return self.now


@dataclass
class Storm:
    """One run.

    Attributes
    ----------
    restart : float
        Share of steps before which our process begins anew.
    """

    server: Server
    queue: str
    rng: np.random.Generator
    restart: float = 0.02
    tried_again: Counter[str] = field(default_factory=Counter)
    cursor: str = ""
    market: Mturk | None = None

    def opened(self) -> Mturk:
        if self.market is None or self.rng.random() < self.restart:
            self.close()
            told = values(self.server, queue=self.queue)
            market = CONNECTOR.open(Settings(told, secret=SECRET))
            assert isinstance(market, Mturk)
            self.market = market
        return self.market

    def close(self) -> None:
        if self.market is not None:
            self.market.close()

    def at_last(self, what: str, step: Callable[[Mturk], Told | None]) -> Told:
        """Repeat a step until it gives something, as the daemon does."""
        for _ in range(TRIES):
            try:
                found = step(self.opened())
            except TryLater:
                found = None
            if found is not None:
                return found
            self.tried_again[what] += 1
        raise AssertionError(f"{what}: {TRIES} tries")

    def offer(self, key: str, account: str) -> Handle:
        offer = Offer(
            key, account=account, items=(Item("t"),), link=PAGE, reward=REWARD
        )
        tried = iter([False])

        def step(market: Mturk) -> Handle:
            found = market.find(key) if next(tried, True) else None
            return found or market.publish(offer)

        return self.at_last("publish", step)

    def work(self, handle: Handle, account: str) -> Arrival:
        """Take it, hand it back, take it again; come to our page; hand in."""
        hit = self.server.hits[handle.reference]
        self.server.give_back(self.server.accept(account, hit))
        taken = self.server.accept(account, hit)
        visit = visit_of(self.server.link(taken))
        arrival = self.at_last("arrive", lambda market: market.arrive(visit, NOW))
        hand_in(self.server, taken)
        return arrival

    def collect(self) -> dict[str, Submission]:
        """How all pieces of work stand, by the HIT."""

        def step(market: Mturk) -> Collected:
            return market.collect(self.cursor)

        told: dict[str, Submission] = {}
        more = True
        while more:
            found = self.at_last("collect", step)
            assert not found.quarantined
            told |= {one.reference: one for one in found.submissions}
            self.cursor, more = found.cursor, found.more
        return told

    def pay(self, piece: Submission, kind: PayKind, money: Money) -> None:
        pay = Pay(f"{kind.value}-{piece.reference.lower()}", kind, piece.id,
                  piece.reference, piece.account, money)  # fmt: skip

        def step(market: Mturk) -> bool:
            if not market.paid(pay):
                (market.approve if kind is PayKind.REWARD else market.bonus)(pay)
            return True

        self.at_last(kind.value, step)


def run(pieces: int, workers: int = 20, share: float = 0.05, seed: int = 3) -> dict:
    """Run it; what came of it, with a list ``wrong`` that must be empty."""
    began = time.monotonic()
    rng = np.random.default_rng(seed)
    with queue_server() as queue, mturk_server(Clock()) as server:
        server.deliver = queue.send
        server.faults = Faults(rng, share)
        storm = Storm(server, queue.url, rng)
        strangers = 0
        for number in range(pieces):
            account = f"A{number % workers:03d}WORKER"
            handle = storm.offer(f"{number:032x}", account)
            strangers += storm.work(handle, account).account != account
        told = storm.collect()
        for piece in told.values():
            storm.pay(piece, PayKind.REWARD, REWARD)
            storm.pay(piece, PayKind.BONUS, BONUS)
        last = storm.collect()
        storm.close()
        return audit(storm, pieces, strangers, told, last) | {
            "seconds": round(time.monotonic() - began)
        }


def audit(
    storm: Storm,
    pieces: int,
    strangers: int,
    told: dict[str, Submission],
    last: dict[str, Submission],
) -> dict[str, Any]:
    """Hold what lies at MTurk against what was wanted."""
    server = storm.server
    keys = Counter(read_note(hit.told()) for hit in server.hits.values())
    paid = Counter(kind for kind, _, _ in server.paid)
    spent = sum((amount for _, _, amount in server.paid), Decimal(0))
    wanted = pieces * (REWARD.amount + BONUS.amount)
    counts = {
        "HITs made twice": sum(count > 1 for count in keys.values()),
        "HITs missing": pieces - len(keys),
        "pieces not told": pieces - len(told),
        "not approved at last": sum(
            one.progress is not Progress.APPROVED for one in last.values()
        ),
        "rewards": paid["reward"] - pieces,
        "bonuses": paid["bonus"] - pieces,
        "spent otherwise": int(spent != wanted),
        "strangers let in": strangers,
    }
    return {
        "wrong": [f"{name}: {count}" for name, count in counts.items() if count],
        "hits": len(server.hits),
        "spent": f"USD:{spent}",
        "calls": server.calls.total(),
        "faults_made": dict(server.faults.done) if server.faults else {},
        "tried_again": dict(storm.tried_again),
    }


def main() -> int:
    """Run the long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pieces", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    found = run(given.pieces, given.workers, given.share, given.seed)
    print(json.dumps(found, indent=2))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    raise SystemExit(main())
