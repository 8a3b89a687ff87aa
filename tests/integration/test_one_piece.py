"""Nobody has two pieces of work open, or the same answers would pay two rewards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from connectors.base import Progress
from dispatcher import money
from dispatcher.model import Outbox, Payment
from dispatcher.stages import paying
from dispatcher.stages.paying import NOTHING_VALID
from dispatcher.store import outbox
from tests import sql
from tests.integration.paying_house import (
    PayingHouse,
    offer_unheard,
    planned,
    reconcile,
)
from tests.patience import PATIENCE

FIRST_OFFER = update(Outbox).where(Outbox.id == 1)


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


@pytest.fixture
def ann(house, clock, monkeypatch):
    """Her first offer was given up and lies at the market; a second one waits for room."""
    house.budget(cap=144, bonus=12)
    ann = planned(house)
    offer_unheard(house, clock, monkeypatch)
    house.settle()
    later(house, clock, 3601)
    assert house.offer() == 0
    assert offers(house) == ["dead", "ready"]
    assert house.payments() == {"reward-1": "held"}
    return ann


def later(house, clock, seconds=61):
    clock.advance(seconds=seconds)
    house.lead()


def offers(house):
    with house.store.read() as tx:
        return [row[0] for row in sql.rows(tx, "SELECT state FROM outbox ORDER BY id")]


def rewards(house):
    return [state for name, state in house.payments().items() if name[0] == "r"]


def released(house, clock):
    """Ann handed her first piece of work back, and has a second one in hand."""
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.hand_in("ann", progress=Progress.GONE)
    house.settle()
    later(house, clock, 3601)
    assert house.offer() == 1
    assert rewards(house) == ["released", "reserved"]
    return ann


def claimed(house, tx):
    """What leaves now, and what stays for want of money, in a transaction."""
    found = outbox.claim(tx, "paying", house.epoch, house.clock(), house.clock() + 1, 9)
    return money.send_off(tx, "paying", found, pays=True, now=house.clock())


def test_an_offer_waits_while_its_account_has_another_piece_of_work(house, ann, clock):
    reconcile(house)
    house.sending.tick(house.epoch)
    house.settle()
    house.budget(cap=1000, bonus=12)
    later(house, clock)
    house.sending.tick(house.epoch)
    assert offers(house) == ["sent", "ready"]
    assert rewards(house) == ["reserved"]
    assert house.work(ann, 2) == 2
    house.hand_in("ann")
    house.settle()
    later(house, clock)
    house.settle()
    assert rewards(house) == ["paid"]
    house.sending.tick(house.epoch)
    assert rewards(house) == ["paid", "reserved"]
    house.hand_in("ann", 1)
    house.settle()
    assert house.payment("reward", 2).why == NOTHING_VALID
    assert house.taken() == (264, 144)
    house.check_books()


def test_of_two_offers_in_one_batch_one_waits(house):
    house.budget()
    planned(house)
    with house.store.write() as tx:
        outbox.add(tx, [(n, "paying", 1, "offer", 0, 0) for n in (7, 8)])
        assert claimed(house, tx).waiting == {8}
    assert house.payments() == {"reward-7": "reserved"}


def test_an_offer_that_was_given_back_waits_for_other_work_and_begins_anew(
    house, clock
):
    released(house, clock)
    with house.store.write() as tx:
        tx.execute(FIRST_OFFER.values(state="dead"))
        outbox.revive(tx, [1], clock())
        assert claimed(house, tx).waiting == {1}
        tx.execute(update(Payment).where(Payment.about == 2).values(state="paid"))
        tx.execute(FIRST_OFFER.values(state="ready"))
        assert not claimed(house, tx).waiting
    assert house.payment("reward", 1).state == "reserved"
    assert house.payment("reward", 1).created_at == clock()


def test_work_that_comes_in_late_waits_for_other_work_and_is_not_paid_by_its_answers(
    house, clock
):
    ann = released(house, clock)
    house.work(ann, 2)
    house.hand_in("ann")
    house.settle()
    assert rewards(house) == ["released", "reserved"]
    house.hand_in("ann", 1)
    for _ in range(4):
        house.settle()
        later(house, clock)
    assert rewards(house) == ["held", "paid"]
    assert house.payment("reward", 1).why == NOTHING_VALID
    assert house.taken() == (264, 144)
    house.check_books()


def test_work_that_the_market_has_approved_late_is_booked_beside_other_work(
    house, clock
):
    released(house, clock)
    house.hand_in("ann", progress=Progress.APPROVED)
    house.settle()
    assert rewards(house) == ["paid", "reserved"]
    house.check_books()


def test_an_offer_that_leaves_while_another_is_gone_on_with_sees_it(
    house, ann, clock, monkeypatch
):
    """The books are kept in one transaction, and the offer leaves in another."""
    reconcile(house)
    house.sending.tick(house.epoch)
    house.budget(cap=1000, bonus=12)
    later(house, clock)
    take_up = paying.take_up
    jobs = []

    def leave():
        with house.store.write() as tx:
            return claimed(house, tx).waiting

    with ThreadPoolExecutor(1) as pool:

        def take_up_slowly(tx, free, now):
            found = take_up(tx, free, now)
            jobs.append(pool.submit(leave))
            with pytest.raises(TimeoutError):
                jobs[0].result(timeout=0.3)
            return found

        monkeypatch.setattr(paying, "take_up", take_up_slowly)
        house.settle()
        assert jobs[0].result(PATIENCE) == {2}
    assert rewards(house) == ["reserved"]


def test_work_that_is_found_while_an_offer_leaves_waits_for_it(house, ann, clock):
    reconcile(house)
    house.sending.tick(house.epoch)
    house.budget(cap=1000, bonus=12)
    later(house, clock)
    with ThreadPoolExecutor(1) as pool:
        with house.store.write() as tx:
            assert not claimed(house, tx).waiting
            job = pool.submit(house.paying.tick, house.epoch)
            with pytest.raises(TimeoutError):
                job.result(timeout=0.3)
        job.result(PATIENCE)
    assert rewards(house) == ["held", "reserved"]
