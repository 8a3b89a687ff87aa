"""Whoever is blocked, leaves, falls below the floor or is merged keeps no open offer.

Each change of standing against each kind of place that offers lie at, on both databases.
What was taken up may be finished where the standing allows it; exposures stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from sqlalchemy import insert

from connectors.base import Progress
from connectors.testing.hostile import Memory
from dispatcher.ledger import identity_changes
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.model import Task
from dispatcher.stages.serving import ServingTerms, leave, stop_by_agreement
from dispatcher.store import Store, booking
from tests import builders, sql
from tests.contract.memory_feed import MemoryFeed
from tests.contract.paying_market import PayingMarket
from tests.integration import stages
from tests.integration.paying_house import PayingHouse, many, planned

EARLIER = 9999
"""A task that was answered before, for what the floor counts."""


class Watched(PayingMarket):
    """Tells of an offer that was withdrawn before anybody took it that it is gone."""

    def withdraw(self, handle):
        super().withdraw(handle)
        if not any(
            p.reference == handle.reference for p in self.outside.pieces.values()
        ):
            self.outside.take(handle.reference, "ann", Progress.GONE)


@dataclass
class Standings(PayingHouse):
    """A house with a connector of each kind."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory, self.feed = Memory(), MemoryFeed()
        self.market = Watched(self.outside)
        self.connectors |= {
            "paying": self.market, "memory": self.memory, "feed": self.feed
        }  # fmt: skip
        self.sending = stages.sending(self.store, self.connectors, self.clock)
        self.paying = stages.paying(self.store, self.connectors, self.clock)

    def book(self, who, entries: list[int]) -> None:
        """Book entries, each in a message of its own."""
        with self.store.write() as tx:
            delivery = Push(tasks_per_message=1)
            asks = [Asks(who.account_id, entries)]
            book(tx, asks, delivery=delivery, at=self.clock(), cause="planned")

    def send(self) -> int:
        self.lead()
        return self.sending.tick(self.epoch)

    def keep_books(self) -> tuple[int, int]:
        """Hear what the market says, settle, and tell what is taken from the budget."""
        self.clock.advance(60)
        self.send()
        self.collect()
        self.settle()
        self.check_books()
        return self.taken()

    def states(self, table: str, account_id: int) -> set[str]:
        asked = f"SELECT DISTINCT state FROM {table} WHERE account_id = ? AND id < ?"
        with self.store.read() as tx:
            return {state for (state,) in sql.rows(tx, asked, [account_id, EARLIER])}


@pytest.fixture
def house(store: Store, clock) -> Standings:
    return Standings(store, clock)


def block(house, connector, who):
    builders.block(house.store, f"{connector}/ann")


def leaves(house, connector, who):
    assert leave(house.store, house.clock, who)


def floor(house, connector, who):
    builders.rate(house.store, f"{connector}/ann", 0.3)
    before = insert(Task).values(
        id=EARLIER, entry_id=9999, account_id=who.account_id, adversary_id=1,
        connector=connector, state="answered", created_at=1,
    )  # fmt: skip
    with house.store.write() as tx:
        tx.execute(before)
    terms = ServingTerms(floor=0.5, floor_after=1)
    assert stop_by_agreement(house.store, house.clock, terms, house.epoch) == 1


def merge(house, connector, who):
    house.account("bob", connector)
    with house.store.write() as tx:
        parts = [[f"{connector}/ann", f"{connector}/bob"]]
        identity_changes.merge(tx, parts, because="one desk", at=house.clock())


CHANGES = [block, leaves, floor, merge]
OUT = [block, leaves, floor]
"""Those after which the account is given nothing; a merged one goes on, as one."""


@pytest.mark.parametrize("change", CHANGES)
def test_an_offer_that_nobody_took_is_withdrawn_and_its_money_freed(house, change):
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    assert house.taken() == (120, 0)
    change(house, "paying", ann)
    assert house.keep_books() == (0, 0)
    assert house.market.withdrawn == set(house.outside.offers)
    assert house.exposures() == 0


@pytest.mark.parametrize("change", CHANGES)
def test_an_offer_that_was_taken_is_withdrawn_and_its_money_kept(house, change):
    house.budget()
    ann = planned(house)
    house.offer()
    house.hand_in("ann")
    change(house, "paying", ann)
    assert house.keep_books()[0] == 120
    assert house.market.withdrawn == set(house.outside.offers)


@pytest.mark.parametrize("change", CHANGES)
def test_an_offer_that_has_not_left_stays_here(house, change):
    house.budget()
    ann = planned(house)
    with house.store.write() as tx:
        booking.add_offers(tx, [(ann.account_id, "paying")], house.clock())
    change(house, "paying", ann)
    assert house.keep_books() == (0, 0)
    assert house.outside.offers == {}
    assert house.states("outbox", ann.account_id) == {"cancelled"}


@pytest.mark.parametrize("change", CHANGES)
def test_work_in_hand_on_our_page_is_taken_away_unless_it_may_be_finished(
    house, change
):
    house.budget(bonus=12)
    ann = planned(house, "inhouse")
    showing = house.serving(gold=0).start(ann)
    assert house.taken() == (12, 0)
    change(house, "inhouse", ann)
    again = house.serving(gold=0).start(ann)
    if change in (floor, merge):
        assert again.token == showing.token
        assert house.keep_books() == (12, 0)
    else:
        assert again is None
        assert house.states("task", ann.account_id) == {"returned"}
        assert house.keep_books() == (0, 0)
    assert house.exposures() == 1


def one_sent_and_one_booked(house, connector):
    """Give ann a field that has left, and one that has not."""
    ann = house.account("ann", connector)
    first, second = many(house, 2)
    house.book(ann, [first])
    assert house.send() == 1
    house.book(ann, [second])
    return ann


@pytest.mark.parametrize("change", OUT)
def test_tasks_at_a_market_are_withdrawn_and_a_late_answer_counts(house, change):
    ann = one_sent_and_one_booked(house, "memory")
    change(house, "memory", ann)
    house.send()
    assert house.memory.withdrawn == set(house.memory.offers)
    assert len(house.memory.offers) == 1
    assert house.states("task", ann.account_id) == {"returned"}
    assert house.ask("SELECT count(*) FROM outbox WHERE state = 'dead'") == 0
    assert house.exposures() == 2
    (offer,) = house.memory.offers.values()
    house.memory.give(offer.items[0].token, "ann", "36")
    house.collect()
    assert house.count("answer", "valid = 1") == 1


@pytest.mark.parametrize("change", OUT)
def test_what_a_feed_has_not_got_never_leaves(house, change):
    ann = one_sent_and_one_booked(house, "feed")
    change(house, "feed", ann)
    assert house.send() == 0
    assert house.states("task", ann.account_id) == {"published", "returned"}
    assert house.states("outbox", ann.account_id) == {"sent", "cancelled"}
    assert house.exposures() == 2


@pytest.mark.parametrize("connector", ["memory", "feed"])
def test_what_a_merged_worker_may_still_see_goes_on(house, connector):
    """What together would be past a limit is recalled: ``test_merges.py``."""
    ann = house.account("ann", connector)
    house.book(ann, many(house, 1))
    merge(house, connector, ann)
    assert house.send() == 1
    assert house.states("task", ann.account_id) <= {"sent", "published"}
