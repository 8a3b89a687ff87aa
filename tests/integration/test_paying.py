"""Money of pieces of work: taken before they leave, given back or paid once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from connectors.base import (
    Money,
    PayKind,
    Progress,
    Submission,
)
from dispatcher.core.errors import Conflict
from dispatcher.operations import payments
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.paying import PATIENCE
from dispatcher.stages.serving import Given
from tests import builders
from tests.contract.paying_market import PayingMarket
from tests.integration.paying_house import (
    PENNY,
    PayingHouse,
    many,
    planned,
    reconcile,
)


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


def test_an_offer_leaves_with_its_reward_and_takes_it_from_the_budget(house):
    house.budget(reward=120, fee=33)
    planned(house)
    assert house.offer() == 1
    (offer,) = house.outside.offers.values()
    assert offer.reward == Money(Decimal("1.20"), "GBP")
    assert house.payments() == {"reward-1": "reserved"}
    assert house.purse().taken == 120 * PENNY + 396_000  # a third of 1.20 on top
    house.check_books()


@pytest.mark.parametrize("set_", [None, {"reward": 0}])
def test_without_a_reward_nothing_is_booked_and_it_goes_on_when_there_is(house, set_):
    if set_ is not None:
        house.budget(**set_)
    planned(house)
    assert house.offer() == 0
    assert (house.outside.offers, house.payments()) == ({}, {})
    assert house.count("outbox") == 0
    house.budget(cap=120, per_day=120)
    assert house.offer() == 1


@pytest.mark.parametrize("set_", [{"cap": 119}, {"per_day": 119}])
def test_without_money_nothing_leaves_and_it_goes_on_when_there_is(house, clock, set_):
    house.budget(**set_)
    planned(house)
    assert house.offer() == 0
    assert (house.outside.offers, house.payments()) == ({}, {})
    assert house.ask("SELECT attempts FROM outbox") == 0
    house.budget(cap=120, per_day=120)
    assert house.sending.tick(house.epoch) == 0  # it is looked at in a minute
    clock.advance(seconds=61)
    assert house.sending.tick(house.epoch) == 1


def test_a_cap_holds_in_the_middle_of_a_batch(house):
    house.budget(cap=250, reward=120)
    for name in ("ann", "bob", "cat"):
        who = house.account(name, "paying")
        house.plan((who, many(house, 1, first=who.account_id)), beside=True)
    house.offer()
    assert len(house.outside.offers) == 2
    assert house.taken() == (240, 0)
    assert house.count("outbox", "state = 'ready'") == 1
    house.check_books()


def test_an_offer_of_work_that_is_gone_is_dropped_and_costs_nothing(house):
    house.budget()
    ann = planned(house)
    builders.pause(house.store, "connector:paying")
    house.offer()
    builders.resume(house.store)
    house.plan((ann, []))
    house.offer()
    assert house.payments() == {}


@pytest.mark.parametrize("why", ["done", "settled", "paused", "erased"])
def test_no_piece_of_work_is_bought_where_nothing_is_left_to_do(house, clock, why):
    """The plan keeps its pairs: what was done of them is no work any more."""
    house.budget()
    ann = planned(house, fields=2)
    house.offer()
    house.work(ann, 2 if why == "done" else 1)
    house.hand_in("ann")
    house.settle()
    match why:
        case "settled":
            open_ = builders.unsettled(house.store)
            builders.save_results(house.store, open_, "conflict")
        case "paused":
            builders.pause(house.store, "run:default")
        case "erased":
            builders.erase_records(house.store, [1, 2])
    clock.advance(seconds=3601)
    house.lead()
    assert house.offer() == 0
    assert house.taken() == (120, 120)
    assert house.count("outbox", "state = 'cancelled'") == 1


def test_another_piece_of_work_is_bought_while_something_is_left(house, clock):
    house.budget()
    ann = planned(house, fields=2)
    house.offer()
    house.work(ann, 1)
    house.hand_in("ann")
    house.settle()
    clock.advance(seconds=3601)
    house.lead()
    assert house.offer() == 1
    assert house.taken() == (240, 120)


def test_nobody_has_two_pieces_of_work_open(house, clock):
    house.budget()
    planned(house)
    house.offer()
    clock.advance(seconds=7200)
    house.lead()
    assert house.offer() == 0
    assert len(house.outside.offers) == 1


def test_a_wait_for_money_makes_no_second_offer(house, clock):
    house.budget(cap=119)
    planned(house)
    house.offer()
    clock.advance(seconds=7200)
    house.lead()
    house.offer()
    assert house.count("outbox") == 1


def test_work_that_was_handed_in_is_approved_when_its_answers_are_settled(house):
    house.budget()
    ann = planned(house)
    house.offer()
    assert house.work(ann, 2) == 2
    house.hand_in("ann")
    house.settle()
    assert house.outside.paid["reward of s-" + house.references()[0]][0] == "ann"
    assert house.payments() == {"reward-1": "paid"}
    assert house.taken() == (120, 120)
    house.check_books()
    assert house.settle() == 0  # and once only


def test_what_is_answered_and_not_handed_in_is_not_paid(house, clock):
    """The worker may still be at it: the market says when it is done."""
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    assert house.work(ann, 4) == 4
    house.hand_in("ann", progress=Progress.OPEN)
    for _ in range(3):
        house.settle()
        clock.advance(micros=PATIENCE)
        house.lead()
    assert house.payment("reward", 1).state == "reserved"
    assert set(house.payments().values()) == {"reserved"}
    assert house.outside.calls == 0
    house.hand_in("ann")
    for _ in range(3):
        house.settle()
    assert set(house.payments().values()) == {"paid"}
    assert PayingMarket(house.outside).paid_to("ann", PayKind.REWARD) == [
        Decimal("1.20")
    ]
    house.check_books()


def test_one_field_in_the_hand_or_an_open_field_holds_approval_up(house, clock):
    house.budget()
    ann = planned(house)
    house.offer()
    serving = house.serving(lease=600)
    showing = serving.start(ann)
    house.hand_in("ann")
    house.settle()
    assert house.payments() == {"reward-1": "reserved"}
    serving.answer(ann, showing.token, Given({"answer": "36"}))
    clock.advance(seconds=31)
    house.paying.tick(house.epoch)  # not counted yet: others might be asked
    assert house.payments() == {"reward-1": "reserved"}
    clock.advance(seconds=31)
    house.settle()
    assert house.payments() == {"reward-1": "paid"}


def test_nobody_waits_for_ever_for_the_answers_of_others(house, clock):
    house.budget()
    ann = planned(house)
    house.offer()
    house.work(ann)
    house.hand_in("ann")
    house.paying.tick(house.epoch)
    assert house.payments() == {"reward-1": "reserved"}
    clock.advance(micros=PATIENCE)
    house.paying.tick(house.epoch)
    assert house.payments() == {"reward-1": "paid"}


def test_work_without_one_valid_answer_is_held_for_a_person(house):
    house.budget()
    planned(house)
    house.offer()
    house.hand_in("ann")
    house.settle()
    assert house.payments() == {"reward-1": "held"}
    assert "without one valid answer" in house.payment("reward", 1).why
    assert (house.outside.calls, house.taken()) == (0, (120, 0))


def test_work_on_made_up_questions_alone_is_work_that_is_paid(house):
    house.budget()
    ann = planned(house)
    house.offer()
    house.test_of(1.0, ("7", "7"), field="age")
    serving = house.serving()
    showing = serving.start(ann)
    serving.answer(ann, showing.token, Given({"answer": "8"}))
    house.hand_in("ann")
    house.settle()
    assert house.payments() == {"reward-1": "paid"}


@pytest.mark.parametrize("progress", [Progress.GONE, Progress.REJECTED])
def test_work_that_was_handed_back_gives_its_money_back(house, progress):
    house.budget()
    planned(house)
    house.offer()
    house.hand_in("ann", progress=progress)
    house.settle()
    assert house.taken() == (0, 0)
    assert house.purse().day_taken == 0
    house.check_books()


@pytest.mark.parametrize(("fields", "word"), [(1, "1 field"), (3, "3 fields")])
def test_work_that_ended_after_answers_is_held_for_a_person(house, clock, fields, word):
    """The answers are used: that nothing was paid for them is to be known."""
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann, fields)
    house.hand_in("ann", progress=Progress.GONE)
    for _ in range(3):
        house.settle()
        clock.advance(micros=PATIENCE)
        house.lead()
    assert set(house.payments().values()) == {"held"}
    reward = house.payment("reward", 1)
    assert reward.why == f"it ended at the market after {word} had been answered"
    assert house.taken() == (120 + 12 * fields, 0)
    house.check_books()
    desk = Workspace(clock=clock)
    with pytest.raises(Conflict):
        payments.approve(desk, house.store, ["reward-1"], "x")
    payments.settle(desk, house.store, ["reward-1"], "by hand")
    house.settle()
    assert house.payments()["reward-1"] == "paid"
    assert house.outside.calls == 0
    house.check_books()


def test_an_offer_that_ended_untaken_gives_its_money_back(house):
    house.budget()
    planned(house)
    house.offer()
    reference = house.references()[0]
    house.outside.pieces["x"] = Submission(reference, reference, "", Progress.GONE)
    house.collect()
    house.settle()
    assert house.payments() == {"reward-1": "released"}


def test_work_that_comes_in_after_it_was_handed_back_is_paid_all_the_same(house):
    house.budget(cap=120)
    ann = planned(house)
    house.offer()
    house.work(ann)
    house.hand_in("ann", progress=Progress.GONE)
    house.settle()
    assert house.taken() == (120, 0)
    house.hand_in("ann")
    house.settle()
    house.settle()
    assert house.taken() == (120, 120)
    house.check_books()


def test_late_work_waits_for_room_and_is_never_paid_past_the_cap(house, clock):
    house.budget(cap=120)
    ann = planned(house)
    house.offer()
    serving = house.serving()
    showing = serving.start(ann)
    house.hand_in("ann", progress=Progress.GONE)
    house.settle()
    house.budget(cap=119)
    serving.answer(ann, showing.token, Given({"answer": "36"}))
    house.hand_in("ann")
    house.settle()
    assert house.payments() == {"reward-1": "released"}
    house.budget(cap=120)
    clock.advance(seconds=31)
    house.settle()
    assert house.taken() == (120, 120)


def test_what_was_approved_at_the_market_counts_as_paid(house):
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann, 2)
    house.hand_in("ann", progress=Progress.APPROVED)
    house.settle()
    assert house.payments() == {
        "field-1": "paid", "field-2": "paid", "reward-1": "paid",
    }  # fmt: skip
    assert PayingMarket(house.outside).paid_to("ann") == [Decimal("0.24")]


def test_what_another_account_took_is_held_and_never_paid(house):
    house.budget()
    planned(house)
    house.offer()
    house.hand_in("mallory")
    house.settle()
    assert house.payments() == {"reward-1": "held"}
    assert house.outside.calls == 0


def test_an_earlier_taking_that_ended_does_not_undo_a_later_one(house):
    house.budget()
    ann = planned(house)
    house.offer()
    house.work(ann)
    house.hand_in("ann")
    reference = house.references()[0]
    gone = Submission("earlier", reference, "ann", Progress.GONE)
    house.outside.pieces["earlier"] = gone
    house.collect()
    house.settle()
    assert house.payments() == {"reward-1": "paid"}


def test_what_a_market_tells_of_no_offer_of_ours_changes_nothing(house):
    house.budget()
    planned(house)
    house.offer()
    house.outside.take("foreign", "ann", Progress.SUBMITTED)
    house.collect()
    house.settle()
    assert house.payments() == {"reward-1": "reserved"}


def test_a_piece_of_work_that_is_not_at_its_market_any_more_is_found_out(house, clock):
    house.budget()
    planned(house)
    house.offer()
    clock.advance(seconds=3 * 86_400)
    house.outside.offers.clear()
    assert reconcile(house).counts["gone"] == 1
    house.settle()
    assert house.payments() == {"reward-1": "released"}


def test_a_piece_of_work_that_was_handed_in_is_not_given_up(house, clock):
    house.budget()
    ann = planned(house)
    house.offer()
    house.work(ann)
    house.hand_in("ann")
    clock.advance(seconds=3 * 86_400)
    house.outside.offers.clear()
    reconcile(house)
    house.settle()
    assert house.payments() == {"reward-1": "paid"}
