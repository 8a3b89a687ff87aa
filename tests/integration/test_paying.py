"""Money: taken before work leaves, given back when none came of it, paid once."""

from __future__ import annotations

import threading
from dataclasses import replace
from decimal import Decimal

import pytest

from connectors.base import (
    Misconfigured,
    Money,
    PayKind,
    Progress,
    Rejected,
    Submission,
    TryLater,
)
from dispatcher import settlement
from dispatcher.errors import Conflict, StaleLease
from dispatcher.stages.paying import PATIENCE, PayingStage
from dispatcher.stages.reconciling import Mending, Reconciling
from dispatcher.stages.serving import Given
from dispatcher.store import money as rows
from dispatcher.store.dumping import make_ready
from dispatcher.store.money import DAY
from tests.contract.paying_market import PayingMarket
from tests.integration.paying_house import PENNY, PayingHouse

HOUR = 3_600_000_000


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


def many(house: PayingHouse, count: int, first: int = 1) -> list[int]:
    return [house.record(n, age="36")["age"] for n in range(first, first + count)]


def planned(house: PayingHouse, connector: str = "paying", fields: int = 4):
    """Give ann some fields to do."""
    ann = house.account("ann", connector)
    house.plan((ann, many(house, fields)))
    return ann


# -- pieces of work at a market that pays ------------------------------------------------


def test_an_offer_leaves_with_its_reward_and_takes_it_from_the_budget(house):
    house.budget(reward=120, fee=33)
    planned(house)
    assert house.offer() == 1
    (offer,) = house.outside.offers.values()
    assert offer.reward == Money(Decimal("1.20"), "GBP")
    assert house.payments() == {"reward-1": "reserved"}
    assert house.purse().taken == 120 * PENNY + 396_000  # a third of 1.20 on top
    house.check_books()


@pytest.mark.parametrize("set_", [None, {"reward": 0}, {"cap": 119}, {"per_day": 119}])
def test_without_money_nothing_leaves_and_it_goes_on_when_there_is(house, clock, set_):
    if set_ is not None:
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
        house.plan((who, many(house, 1, first=who.account_id)))
        with house.store.write() as tx:
            tx.execute("UPDATE plan SET state = 'applied'")
    house.offer()
    assert len(house.outside.offers) == 2
    assert house.taken() == (240, 0)
    assert house.count("outbox", "state = 'ready'") == 1
    house.check_books()


def test_an_offer_of_work_that_is_gone_is_dropped_and_costs_nothing(house):
    house.budget()
    ann = planned(house)
    house.do("INSERT INTO pause VALUES ('connector:paying', 'x', 1)")
    house.offer()
    house.do("DELETE FROM pause")
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
    statement = {
        "done": "SELECT 1",
        "settled": "INSERT INTO result (entry_id, confidence, answers, wanted, state, at)"
        " SELECT id, 1.0, 1, 1, 'conflict', 1 FROM entry e WHERE NOT EXISTS"
        " (SELECT 1 FROM result r WHERE r.entry_id = e.id)",
        "paused": "INSERT INTO pause (scope, reason, at) VALUES ('run:default', 'x', 1)",
        "erased": "UPDATE record SET erased_at = 1",
    }[why]
    house.do(statement)
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
    with pytest.raises(Conflict), house.store.write() as tx:
        settlement.approve(tx, [reward], at=clock(), because="x")
    with house.store.write() as tx:
        settlement.settle(tx, [reward], at=clock(), because="by hand")
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


def reconcile(house, mending=Mending(mend=True)):  # noqa: B008 - frozen
    stage = Reconciling(house.store, house.connectors, house.clock)
    return stage.reconcile("paying", mending)


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


# -- bonuses -----------------------------------------------------------------------------


def test_fields_of_a_piece_earn_one_bonus_after_its_reward(house):
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann, 3)
    house.hand_in("ann")
    house.settle()
    house.settle()
    market = PayingMarket(house.outside)
    assert market.paid_to("ann", PayKind.REWARD) == [Decimal("1.20")]
    assert market.paid_to("ann", PayKind.BONUS) == [Decimal("0.36")]
    assert house.taken() == (156, 156)
    house.check_books()


def test_between_two_pieces_of_work_nothing_is_shown(house):
    """What were done then would be paid by nobody."""
    house.budget()
    ann = planned(house)
    house.offer()
    assert house.work(ann, 1) == 1
    house.hand_in("ann")
    assert house.work(ann, 1) == 0


def test_a_field_left_open_in_a_piece_earns_nothing(house, clock):
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann)
    house.serving(lease=60).start(ann)
    clock.advance(seconds=61)
    house.expire()
    house.hand_in("ann")
    house.settle()
    house.settle()
    assert house.payments() == {
        "field-1": "paid", "field-2": "released", "reward-1": "paid",
    }  # fmt: skip
    assert house.taken() == (132, 132)


def test_what_is_answered_after_its_piece_was_settled_is_held(house, clock):
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann)
    serving = house.serving(lease=60)
    late = serving.start(ann)
    clock.advance(seconds=61)
    house.expire()
    house.hand_in("ann")
    house.settle()
    serving.answer(ann, late.token, Given({"answer": "36"}))
    for _ in range(3):
        house.settle()
    assert house.payments()["field-2"] == "held"
    assert PayingMarket(house.outside).paid_to("ann", PayKind.BONUS) == [
        Decimal("0.12")
    ]


def test_what_a_market_will_not_pay_is_left_to_a_person_fields_and_all(house):
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann, 2)
    house.hand_in("ann")
    house.outside.before.append(Rejected("timed out there"))
    house.settle()
    assert house.payments() == {
        "field-1": "held", "field-2": "held", "reward-1": "held",
    }  # fmt: skip
    assert house.payment("reward", 1).why == "timed out there"
    assert house.taken() == (144, 0)
    house.check_books()


# -- our own page: the operator pays -----------------------------------------------------


def test_a_field_on_our_page_is_owed_once_its_answers_are_settled(house):
    house.budget(bonus=12, fee=50)
    ann = planned(house, "inhouse")
    house.offer()
    house.work(ann, 2)
    assert house.taken() == (24, 0)  # no market, so no fee of one
    house.settle()
    assert house.payments() == {"field-1": "due", "field-2": "due"}
    house.check_books()


@pytest.mark.parametrize("way", ["given back", "expired", "recalled"])
def test_a_field_that_is_not_answered_gives_its_money_back(house, clock, way):
    house.budget(bonus=12)
    ann = planned(house, "inhouse")
    serving = house.serving(lease=60)
    showing = serving.start(ann)
    assert house.taken() == (12, 0)
    if way == "given back":
        serving.give_back(ann, showing.token)
    elif way == "expired":
        clock.advance(seconds=61)
        house.expire()
    else:
        house.do("UPDATE task SET state = 'dead'")
    house.settle()
    assert house.payments() == {"field-1": "released"}
    assert (house.taken(), house.purse().day_taken) == ((0, 0), 0)
    house.check_books()


def test_a_late_answer_earns_its_bonus(house, clock):
    house.budget(bonus=12)
    ann = planned(house, "inhouse")
    serving = house.serving(lease=60)
    showing = serving.start(ann)
    clock.advance(seconds=61)
    house.expire()
    house.settle()
    serving.answer(ann, showing.token, Given({"answer": "36"}))
    house.settle()
    assert house.payments() == {"field-1": "due"}
    house.check_books()


def test_the_page_shows_nothing_when_the_money_is_used_up(house):
    house.budget(cap=25, bonus=12)
    ann = planned(house, "inhouse")
    assert house.work(ann, 4) == 2
    house.budget(cap=36, bonus=12)
    assert house.work(ann, 4) == 1
    assert house.exposures() == 3
    house.check_books()


def test_a_day_s_allowance_begins_anew_at_midnight(house, clock):
    house.budget(per_day=24, bonus=12)
    ann = planned(house, "inhouse", fields=6)
    assert house.work(ann, 6) == 2
    clock.now = (clock.now // DAY + 1) * DAY
    assert house.work(ann, 6) == 2
    clock.now -= HOUR  # put back: the day before is over all the same
    assert house.work(ann, 6) == 0
    house.check_books()


def test_money_that_comes_back_a_day_later_is_no_allowance_of_today(house, clock):
    house.budget(per_day=12, bonus=12)
    ann = planned(house, "inhouse")
    serving = house.serving(lease=60)
    serving.start(ann)
    clock.advance(micros=DAY)
    house.expire()
    assert house.work(ann, 3) == 1
    house.settle()
    assert house.purse().day_taken == 12 * PENNY
    house.check_books()


def test_a_cap_below_what_is_taken_stops_new_work_and_undoes_nothing(house):
    house.budget(cap=100, bonus=12)
    ann = planned(house, "inhouse")
    house.work(ann, 2)
    house.budget(cap=10, bonus=12)
    assert house.work(ann, 2) == 0
    assert house.taken() == (24, 0)
    house.settle()
    assert set(house.payments().values()) == {"due"}


def test_ten_workers_at_once_do_not_overspend(house):
    """Each Start books and takes in one transaction; the budget's row is the lock."""
    house.budget(cap=60, bonus=12)
    fields = many(house, 30)
    workers = [house.account(f"w{n}", "inhouse") for n in range(10)]
    house.plan(*((who, fields) for who in workers))
    serving = house.serving()
    got: list[object] = []

    def begin(who):
        got.append(serving.start(who))

    threads = [threading.Thread(target=begin, args=(who,)) for who in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = sum(one is not None for one in got)
    assert len(got) == 10
    assert shown <= 5
    assert house.taken() == (12 * shown, 0)
    assert house.exposures() == shown
    house.check_books()


def test_no_piece_of_work_is_bought_that_no_field_could_be_paid_in(house):
    house.budget(cap=131, reward=120, bonus=12)
    planned(house)
    assert house.offer() == 0
    assert house.taken() == (0, 0)


def test_a_field_of_a_run_in_another_currency_is_not_shown_in_a_piece(house):
    """A piece of work is paid in one sum."""
    house.do(
        "INSERT INTO run (id, name, state, created_at) VALUES (2, 'b', 'active', 1)"
    )
    house.budget(bonus=12)
    house.budget(2, currency="EUR", bonus=12)
    ann = planned(house)
    house.do("UPDATE record SET run_id = 2 WHERE id > 3")
    house.offer()
    assert house.work(ann, 4) == 3
    assert house.taken(2) == (0, 0)


def test_two_runs_have_two_purses(house):
    house.do(
        "INSERT INTO run (id, name, state, created_at) VALUES (2, 'b', 'active', 1)"
    )
    house.budget(cap=12, bonus=12)
    house.budget(2, cap=12, bonus=12)
    ann = house.account("ann", "inhouse")
    fields = many(house, 4)
    house.do("UPDATE record SET run_id = 2 WHERE id > 2")
    house.plan((ann, fields))
    assert house.work(ann, 4) == 2
    assert house.taken(1) == house.taken(2) == (12, 0)


# -- paying once, whatever happens -------------------------------------------------------


def submitted(house: PayingHouse, **set_: int):
    house.budget(**{"bonus": 12} | set_)
    ann = planned(house)
    house.offer()
    house.work(ann, 2)
    house.hand_in("ann")
    return PayingMarket(house.outside)


def both(market: PayingMarket) -> list[Decimal]:
    return market.paid_to("ann")


@pytest.mark.parametrize("fault", [TimeoutError("x"), TryLater("full", after=1)])
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
            patch.setattr(PayingStage, "_settle", die)
            with pytest.raises(Killed):
                house.settle()
        house.lead()
        house.paying = PayingStage(house.store, house.connectors, clock)
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
    house.do("UPDATE payment SET state = 'due', attempts = 0")
    house.do("UPDATE budget SET paid = 0")
    with house.store.write() as tx:
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
        patch.setattr(type(house.sending), "_settle", lambda *_: 0)
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
    house.offer()
    for _ in range(20):
        clock.advance(seconds=4000)
        house.lead()
        house.sending.tick(house.epoch)
    assert house.ask("SELECT state FROM outbox") == "dead"
    house.settle()
    assert house.payments() == {"reward-1": "held"}


@pytest.fixture
def given_up(house, clock, monkeypatch):
    """Ann's offer arrived, no answer came, and it was given up; ann herself."""
    house.budget(cap=144, bonus=12)
    ann = planned(house, fields=2)
    with monkeypatch.context() as patch:

        def publish_unheard(self, offer):
            self.offers[offer.key] = offer
            raise OSError("gone")

        def fail(self, key):
            raise OSError("gone")

        patch.setattr(PayingMarket, "publish", publish_unheard)
        patch.setattr(PayingMarket, "find", fail)
        house.offer()
        for _ in range(20):
            clock.advance(seconds=4000)
            house.lead()
            house.sending.tick(house.epoch)
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


def test_lines_of_money_are_never_changed(house):
    submitted(house)
    for statement in ("UPDATE money_line SET amount = 0", "DELETE FROM money_line"):
        with pytest.raises(Exception, match="once written"):
            house.do(statement)


def test_no_budget_no_books(house):
    ann = planned(house, "inhouse")
    assert house.work(ann, 4) == 4
    assert house.settle() == 0
    assert house.payments() == {}
    with house.store.read() as tx:
        assert rows.budgets(tx) == []
