"""Offers, work and pay through Mechanical Turk and our stages, while calls fail there."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

import connectors.mturk.api
from connectors.base import Settings
from connectors.mturk import CONNECTOR, Mturk
from connectors.mturk.arrivals import read_note
from dispatcher.preflight import Preflight
from dispatcher.stages.booking import Booking
from dispatcher.stages.sending import SendingTerms
from dispatcher.stages.serving import Arrivals, Present, SessionTerms
from tests.contract.mturk_bench import SECRET, hand_in, values, visit_of
from tests.contract.mturk_server import Faults, mturk_server
from tests.integration import stages
from tests.integration.paying_house import PayingHouse

LINK = "https://tasks.example.test"
WORKERS = ("A1ANNWORKER", "A2BOBWORKER", "A3CATWORKER")
TURNS = 60


@dataclass
class MturkHouse(PayingHouse):
    """The house with MTurk as its only market."""

    market: Mturk | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.market is not None
        self.connectors = {"mturk": self.market}
        self.begin()

    def begin(self) -> None:
        """Make the stages anew, as after a crash: what they remember is gone."""
        terms = SendingTerms(link=LINK)
        self.sending = stages.sending(self.store, self.connectors, self.clock, terms)
        self.paying = stages.paying(self.store, self.connectors, self.clock)

    def turn(self) -> None:
        """One round of the daemon, a minute after the last."""
        self.clock.advance(seconds=61)
        preflight = Preflight(self.connectors, link=LINK)
        Booking(self.store, preflight, self.clock, np.random.default_rng(5)).tick(
            self.epoch
        )
        self.sending.tick(self.epoch)
        self.collect()
        self.settle()


@pytest.fixture
def server(clock, monkeypatch):
    monkeypatch.setattr(connectors.mturk.api, "_FIRST_WAIT", 0.001)
    off = timedelta(minutes=5)

    def theirs() -> datetime:
        return datetime.fromtimestamp(clock() / 1e6, UTC) + off

    with mturk_server(theirs) as running:
        yield running


@pytest.fixture
def house(store, clock, server):
    market = CONNECTOR.open(Settings(values(server), secret=SECRET))
    assert isinstance(market, Mturk)
    house = MturkHouse(store, clock, market=market)
    house.budget(currency="USD", reward=50, bonus=2, fee=20)
    numbers = itertools.count(1)
    house.plan(*(
        (house.account(name, "mturk"),
         [house.record(next(numbers), age="36")["age"] for _ in range(3)])
        for name in WORKERS
    ))  # fmt: skip
    yield house
    market.close()


def work(house, server, name: str, place: int) -> None:
    """Find the HIT, take it, hand it back, take it again, do it, hand in."""
    (hit,) = server.visible(name)
    server.give_back(server.accept(name, hit))
    taken = server.accept(name, hit)
    now = datetime.fromtimestamp(house.clock() / 1e6, UTC)
    arrival = house.market.arrive(visit_of(server.link(taken)), now)
    arrivals = Arrivals(house.store, house.clock, SessionTerms())
    account = arrivals.identify("mturk", arrival, invited=False)
    assert account is not None
    assert account.id == place
    who = Present(account.id, account.invite)
    assert house.work(who, 3) == 3
    hand_in(server, taken)


@pytest.mark.parametrize("share", [0, 0.08])
def test_all_is_paid_once_and_what_is_spent_is_what_was_booked(house, server, share):
    server.faults = Faults(np.random.default_rng(4), share)
    for turn in range(TURNS):
        house.turn()
        if len(server.hits) == len(WORKERS):
            break
        if turn % 5 == 4:
            house.begin()
    for place, name in enumerate(WORKERS, 1):
        assert not [h for h in server.visible("A9OTHER") if h], "nobody else sees one"
        work(house, server, name, place)
    for turn in range(TURNS):
        house.turn()
        if set(house.payments().values()) == {"paid"}:
            break
        if turn % 5 == 4:
            house.begin()
    assert set(house.payments().values()) == {"paid"}, house.payments()
    assert len(house.payments()) == 3 + 9
    spent = Counter()
    for kind, name, amount in server.paid:
        spent[kind, name] += amount
    assert spent == {
        **{("reward", name): Decimal("0.50") for name in WORKERS},
        **{("bonus", name): Decimal("0.06") for name in WORKERS},
    }
    keys = Counter(read_note(hit.told()) for hit in server.hits.values())
    assert set(keys.values()) == {1}
    taken, paid = house.taken()
    assert paid == taken == 3 * 56 * 120 // 100  # with the fee on top
    house.check_books()
    if share:
        assert {"throttle", "lost", "fault before", "fault after"} <= set(
            server.faults.done
        )
