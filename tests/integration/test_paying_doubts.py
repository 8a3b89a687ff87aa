"""Money in doubt: what a market may have paid, and what a person decides meanwhile."""

from __future__ import annotations

from decimal import Decimal

import pytest

from connectors.base import PayKind, Progress, Submission, TryLater
from dispatcher import settlement
from dispatcher.errors import Conflict
from dispatcher.stages.paying import PayingStage
from tests.contract.paying_market import PayingMarket
from tests.integration.paying_house import PayingHouse
from tests.integration.test_paying import planned, submitted


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


def decide(house, how, *names):
    with house.store.write() as tx:
        found = settlement.named(tx, names)
        how(tx, found, at=house.clock(), because="looked")


def test_a_question_that_fails_leaves_a_first_bonus_untried(house, clock, monkeypatch):
    """Else an outage of the market would leave each bonus to a person."""
    market = submitted(house)
    house.settle()
    house.outside.can_tell = False
    with monkeypatch.context() as patch:

        def fail(*_):
            raise TryLater("busy", after=1)

        patch.setattr(PayingMarket, "paid", fail)
        house.settle()
    assert house.payment("field", 1).attempts == 0
    clock.advance(seconds=301)
    house.settle()
    assert market.paid_to("ann", PayKind.BONUS) == [Decimal("0.24")]
    assert set(house.payments().values()) == {"paid"}


def test_what_a_market_was_asked_for_is_not_refused_any_more(house):
    """It may have been paid: its money is not free."""
    submitted(house)
    house.outside.after.append(TimeoutError("lost"))
    house.settle()
    assert house.payments()["reward-1"] == "due"
    with pytest.raises(Conflict, match="may have paid"):
        decide(house, settlement.refuse, "reward-1")
    assert house.taken() == (144, 0)


def test_what_was_not_asked_for_yet_can_be_refused(house):
    submitted(house)
    house.paying = PayingStage(house.store, {}, house.clock)
    house.settle()
    assert house.payments()["reward-1"] == "due"
    decide(house, settlement.refuse, "reward-1")
    assert house.payments()["reward-1"] == "refused"
    house.check_books()


def test_what_was_held_while_the_market_paid_it_counts_as_paid(house, monkeypatch):
    submitted(house)
    approve = PayingMarket.approve

    def meanwhile(market, pay):
        other = Submission("s-2", pay.reference, "eve", Progress.SUBMITTED)
        house.outside.pieces["s-2"] = other
        house.collect()
        assert house.payments()["reward-1"] == "held"
        approve(market, pay)

    monkeypatch.setattr(PayingMarket, "approve", meanwhile)
    house.settle()
    assert house.payments()["reward-1"] == "paid"
    assert house.taken()[1] == 120
    house.check_books()


def test_a_field_left_out_of_a_bonus_is_not_paid_by_it_later(house):
    """One bonus goes to a piece of work: asked again, it counts as paid already."""
    market = submitted(house)
    house.paying = PayingStage(house.store, {}, house.clock)
    house.settle()
    decide(house, settlement.refuse, "field-1")
    with pytest.raises(Conflict, match="can not be paid through"):
        decide(house, settlement.approve, "field-1")  # the other's bonus is due
    house.paying = PayingStage(house.store, house.connectors, house.clock)
    house.settle()
    house.settle()
    assert market.paid_to("ann", PayKind.BONUS) == [Decimal("0.12")]
    with pytest.raises(Conflict, match="can not be paid through"):
        decide(house, settlement.approve, "field-1")
    decide(house, settlement.settle, "field-1")  # a person pays it by hand
    assert set(house.payments().values()) == {"paid"}
    house.check_books()


def test_what_was_refused_is_settled_only_where_there_is_money(house):
    house.budget(bonus=12)
    house.work(planned(house, "inhouse"))
    house.settle()
    decide(house, settlement.refuse, "field-1")
    house.budget(cap=11, bonus=12)
    with pytest.raises(Conflict, match="no money"):
        decide(house, settlement.settle, "field-1")
    assert house.taken() == (0, 0)
    house.budget(cap=12, bonus=12)
    decide(house, settlement.settle, "field-1")
    assert house.taken() == (12, 12)
    house.check_books()


def test_a_field_of_a_piece_that_is_not_paid_is_not_approved_alone(house):
    """It would be due for ever: its bonus follows the reward."""
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann, 1)
    house.hand_in("ann", progress=Progress.REJECTED)
    house.settle()
    decide(house, settlement.refuse, "field-1")
    with pytest.raises(Conflict, match="can not be paid through"):
        decide(house, settlement.approve, "field-1")
    assert house.payments() == {"reward-1": "refused", "field-1": "refused"}
