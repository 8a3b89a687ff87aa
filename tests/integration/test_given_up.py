"""Money of offers that were given up: they may be at the market all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.base import Progress, Rejected, Submission
from dispatcher.stages.paying import NOTHING_VALID
from tests.contract.paying_market import PayingMarket
from tests.integration.paying_house import (
    PayingHouse,
    offer_unheard,
    planned,
    reconcile,
    try_until_given_up,
)


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


def test_a_message_that_was_rejected_at_once_gives_its_money_back(house, monkeypatch):
    house.budget()
    planned(house)

    def reject(self, offer):
        raise Rejected("no such account")

    monkeypatch.setattr(PayingMarket, "publish", reject)
    house.offer()
    house.settle()
    assert house.payments() == {"reward-1": "released"}
    assert house.ask("SELECT state FROM outbox") == "dead"


def test_a_message_given_up_after_several_tries_keeps_its_money(
    house, clock, monkeypatch
):
    """It may be at the market, and be taken there."""
    house.budget()
    planned(house)

    def fail(self, offer):
        raise OSError("gone")

    monkeypatch.setattr(PayingMarket, "publish", fail)
    try_until_given_up(house, clock)
    assert house.ask("SELECT state FROM outbox") == "dead"
    house.settle()
    assert house.payments() == {"reward-1": "held"}


@pytest.fixture
def given_up(house, clock, monkeypatch):
    """Ann's offer arrived, no answer came, and it was given up; ann herself."""
    house.budget(cap=144, bonus=12)
    ann = planned(house, fields=2)
    offer_unheard(house, clock, monkeypatch)
    house.settle()
    assert house.ask("SELECT state FROM outbox") == "dead"
    assert house.payments() == {"reward-1": "held"}
    return ann


def test_work_that_was_given_up_and_found_later_is_paid(house, given_up):
    assert reconcile(house).counts["arrived"] == 1
    house.settle()
    assert house.payments() == {"reward-1": "held"}  # it is about to be looked for
    house.sending.tick(house.epoch)
    house.settle()
    assert house.payments() == {"reward-1": "reserved"}
    assert house.taken() == (120, 0)  # its money was never free
    assert house.work(given_up, 2) == 2
    house.hand_in("ann")
    for _ in range(2):
        house.settle()
    assert set(house.payments().values()) == {"paid"}
    assert house.taken() == (144, 144)
    house.check_books()


def test_work_that_was_given_up_is_found_by_what_the_market_tells_of_it(
    house, given_up
):
    """Its news come before anyone has looked for the offer."""
    (key,) = house.outside.offers
    taken = Submission("s", house.references()[0], "ann", Progress.OPEN, key=key)
    assert house.work(given_up) == 0  # nobody would pay for it
    house.outside.pieces["s"] = taken
    house.collect()
    house.settle()
    assert house.payments()["reward-1"] == "reserved"
    assert house.work(given_up, 2) == 2
    house.outside.pieces["s"] = replace(taken, progress=Progress.SUBMITTED)
    house.collect()
    house.settle()
    house.settle()
    assert set(house.payments().values()) == {"paid"}
    assert house.ask("SELECT state FROM outbox") == "dead"
    house.check_books()


def test_work_that_was_found_waits_for_another_piece_and_is_not_paid_by_its_answers(
    house, given_up, clock
):
    house.budget(cap=1000, bonus=12)
    clock.advance(seconds=3601)
    house.lead()
    assert house.offer() == 1
    reconcile(house)
    house.sending.tick(house.epoch)
    house.work(given_up, 2)
    house.settle()
    assert house.payments()["reward-1"] == "held"  # beside the one in hand
    house.hand_in("ann", 1)
    house.hand_in("ann", 0)
    for _ in range(4):
        house.settle()
        clock.advance(seconds=61)
        house.lead()
    found = house.payment("reward", 1)
    assert (found.state, found.why) == ("held", NOTHING_VALID)
    assert house.payments()["reward-2"] == "paid"
    assert house.taken() == (264, 144)
    house.check_books()


@pytest.mark.parametrize("progress", [Progress.GONE, Progress.REJECTED])
def test_work_that_was_given_up_and_ended_there_gives_its_money_back(
    house, given_up, progress
):
    reconcile(house)
    house.sending.tick(house.epoch)
    house.hand_in("ann", progress=progress)
    house.settle()
    assert house.taken() == (0, 0)
    house.check_books()


def test_work_that_was_given_up_stays_held_when_it_is_given_up_once_more(
    house, given_up, monkeypatch, clock
):
    def fail(self, key):
        raise OSError("gone")

    reconcile(house)
    monkeypatch.setattr(PayingMarket, "find", fail)
    for _ in range(20):
        clock.advance(seconds=4000)
        house.lead()
        house.sending.tick(house.epoch)
        house.settle()
        assert house.payments() == {"reward-1": "held"}
    assert house.ask("SELECT state FROM outbox") == "dead"
