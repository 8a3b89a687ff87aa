"""Money is paid once, whatever happens meanwhile."""

from __future__ import annotations

from decimal import Decimal

import pytest

from connectors.base import (
    Misconfigured,
    Progress,
    Submission,
    TryLater,
)
from dispatcher.core.errors import StaleLease
from dispatcher.stages.paying import MarketPayments
from dispatcher.stages.sending import Sending
from dispatcher.store import money as rows
from dispatcher.store.dumping import make_ready
from tests import edits
from tests.contract.paying_market import PayingMarket
from tests.integration import stages
from tests.integration.paying_house import (
    PayingHouse,
    many,
    planned,
    submitted,
)


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


def both(market: PayingMarket) -> list[Decimal]:
    return market.paid_to("ann")


@pytest.mark.parametrize(
    "fault", [TimeoutError("x"), TryLater("full", after=1), SystemExit(0)]
)
def test_a_lost_answer_is_asked_after_and_paid_once(house, clock, fault):
    market = submitted(house)
    for _ in range(2):  # once for the reward, once for the bonus
        house.outside.after.append(fault)
        house.settle()
        clock.advance(seconds=600)
        house.settle()
    house.settle()
    assert both(market) == [Decimal("1.20"), Decimal("0.24")]
    assert set(house.payments().values()) == {"paid"}
    house.check_books()


def test_a_market_that_can_not_tell_is_never_paid_twice_blindly(house, clock):
    market = submitted(house)
    house.settle()
    house.outside.can_tell = False
    house.outside.after.append(TimeoutError("lost"))
    clock.advance(seconds=600)
    for _ in range(10):
        house.settle()
        clock.advance(seconds=601)
    assert len(both(market)) == 2
    assert house.payments()["field-1"] == "unknown"
    house.check_books()


def test_a_market_that_can_tell_only_later_is_believed_then(house, clock):
    market = submitted(house)
    house.settle()
    house.outside.can_tell = False
    house.outside.after.append(TimeoutError("lost"))
    for _ in range(3):
        house.settle()
        clock.advance(seconds=601)
    house.outside.can_tell = True
    house.settle()
    assert len(both(market)) == 2
    assert set(house.payments().values()) == {"paid"}


@pytest.mark.parametrize(
    "fault", [Misconfigured("no money"), TryLater("busy", certain=True)]
)
def test_what_surely_did_nothing_is_tried_again_at_a_market_that_can_not_tell(
    house, clock, fault
):
    market = submitted(house)
    house.settle()
    house.outside.can_tell = False
    house.outside.before.append(fault)
    for _ in range(3):
        house.settle()
        clock.advance(seconds=301)
    assert len(both(market)) == 2
    assert set(house.payments().values()) == {"paid"}


class Killed(BaseException):
    """The process dies: nothing after it is done."""


def test_a_kill_between_the_call_and_the_books_pays_once(house, clock, monkeypatch):
    market = submitted(house)

    def die(*_):
        raise Killed

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(MarketPayments, "_settle", die)
            with pytest.raises(Killed):
                house.settle()
        house.lead()
        house.paying = stages.paying(house.store, house.connectors, clock)
        clock.advance(seconds=301)
        house.settle()
    house.settle()
    assert both(market) == [Decimal("1.20"), Decimal("0.24")]
    house.check_books()


def test_a_restored_store_asks_before_it_pays_again(house, clock):
    market = submitted(house)
    house.settle()
    house.settle()
    assert len(both(market)) == 2
    with house.store.write() as tx:
        edits.forget_payments(tx)
        make_ready(tx, clock())
    house.lead()
    for _ in range(3):
        clock.advance(seconds=60)
        house.settle()
    assert len(both(market)) == 2
    assert set(house.payments().values()) == {"paid"}


def test_a_kill_after_an_offer_has_arrived_takes_its_money_once(
    house, clock, monkeypatch
):
    house.budget()
    planned(house)
    publish = PayingMarket.publish

    def die(self, offer):
        publish(self, offer)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PayingMarket, "publish", die)
        with pytest.raises(Killed):
            house.offer()
    house.lead()
    clock.advance(seconds=301)
    house.lead()
    house.sending.tick(house.epoch)
    assert len(house.outside.offers) == 1
    assert house.taken() == (120, 0)
    assert house.payment("reward", 1).reference == house.references()[0]


def test_what_was_never_tried_counts_as_never_tried(house, clock):
    """One that fails lets its market rest; the others were not asked for."""
    house.budget(bonus=12)
    for name in ("ann", "bob"):
        who = house.account(name, "paying")
        house.plan((who, many(house, 1, first=10 * who.account_id)))
        house.offer()
        house.work(who)
        house.hand_in(name, number=who.account_id - 1)
    house.settle()
    house.outside.can_tell = False
    house.outside.before.append(Misconfigured("no money"))
    house.settle()
    tries = [house.payment("field", n).attempts for n in (1, 2)]
    assert tries == [0, 0]
    clock.advance(seconds=301)
    house.settle()
    assert set(house.payments().values()) == {"paid"}
    assert len(house.outside.paid) == 4


def test_work_taken_before_we_knew_of_the_offer_is_known_by_our_key(
    house, clock, monkeypatch
):
    """A crash after publishing: the market tells of the work before we ask after it."""
    house.budget()
    ann = planned(house)
    with monkeypatch.context() as patch:
        patch.setattr(Sending, "_settle", lambda *_: 0)
        house.offer()
    assert house.payment("reward", 1).reference is None
    house.work(ann)
    (key,) = house.outside.offers
    reference = f"memory:{key}"
    done = Submission("s", reference, "ann", Progress.SUBMITTED, key)
    house.outside.pieces["s"] = done
    house.collect()
    house.settle()
    assert house.payments() == {"reward-1": "paid"}


def test_two_daemons_do_not_pay_side_by_side(house):
    submitted(house)
    old = house.epoch
    house.lead()
    with pytest.raises(StaleLease):
        house.paying.tick(old)
    assert house.outside.calls == 0


@pytest.mark.parametrize(
    "fault", [Misconfigured("no balance"), TryLater("busy"), OSError("x")]
)
def test_a_market_that_does_not_pay_rests_and_pays_later(house, clock, fault):
    market = submitted(house)
    house.outside.before += [fault] * 3
    for _ in range(8):
        house.settle()
        clock.advance(seconds=400)
    assert both(market) == [Decimal("1.20"), Decimal("0.24")]


def test_a_dead_market_holds_up_no_other_money(house):
    market = submitted(house)
    bob = house.account("bob", "inhouse")
    house.plan((bob, many(house, 2, first=50)))
    house.work(bob, 2)
    house.outside.before += [OSError("dead")] * 50
    house.settle()
    assert both(market) == []
    assert house.payments()["field-3"] == "due"


def test_lines_of_money_are_never_changed(house):
    submitted(house)
    for rewrite in ("payments, changed", "payments, deleted"):
        with (
            pytest.raises(Exception, match="once written"),
            house.store.write() as tx,
        ):
            edits.REWRITES[rewrite](tx)


def test_no_budget_no_books(house):
    ann = planned(house, "inhouse")
    assert house.work(ann, 4) == 4
    assert house.settle() == 0
    assert house.payments() == {}
    with house.store.read() as tx:
        assert rows.budgets(tx) == []
