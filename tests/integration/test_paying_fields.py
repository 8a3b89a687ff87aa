"""Money of fields: bonuses at a market that pays, and pay of our own page."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest

from connectors.base import (
    PayKind,
    Rejected,
)
from dispatcher.model import DAY
from dispatcher.operations import answers, fields, payments
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.serving import Given
from tests import builders
from tests.contract.paying_market import PayingMarket
from tests.integration.paying_house import (
    PENNY,
    PayingHouse,
    many,
    planned,
)

HOUR = 3_600_000_000


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


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


def test_whoever_answered_is_paid_whatever_an_operator_decides(house, clock, tmp_path):
    house.budget(bonus=12)
    ann = planned(house, "inhouse")
    house.work(ann, 1)
    found = fields.list_fields(house.store)
    (one,) = [one for one in found.fields if one.answers]
    name = f"{found.pseudonyms[one.record_id]}.{one.field}"
    workspace = Workspace(tmp_path, clock=clock, actor="ada")
    decided = answers.FieldDecision.UNREADABLE
    answers.judge(workspace, house.store, name, decided, "a blot, as the scan shows")
    house.settle()
    assert house.payments() == {"field-1": "due"}
    house.check_books()


def test_what_one_worker_is_owed_is_listed_however_much_others_are(house):
    house.budget(bonus=12)
    fields = [house.record(n, age="36")["age"] for n in (1, 2, 3)]
    ann, bob = (house.account(name, "inhouse") for name in ("ann", "bob"))
    house.plan((ann, fields[:1]), (bob, fields[1:]))
    house.work(ann)
    house.work(bob, 2)
    house.settle()
    found = payments.list_payments_of(house.store, ann.account_id, ["due"], limit=1)
    assert [row.account for row in found] == ["inhouse/ann"]


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
        builders.end_tasks(house.store, "dead")
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
    assert builders.add_run(house.store, "b") == 2
    house.budget(bonus=12)
    house.budget(2, currency="EUR", bonus=12)
    ann = house.account("ann", "paying")
    house.plan((ann, [*many(house, 3), *many(house, 1, first=4, run_id=2)]))
    house.offer()
    assert house.work(ann, 4) == 3
    assert house.taken(2) == (0, 0)


def test_two_runs_have_two_purses(house):
    assert builders.add_run(house.store, "b") == 2
    house.budget(cap=12, bonus=12)
    house.budget(2, cap=12, bonus=12)
    ann = house.account("ann", "inhouse")
    house.plan((ann, [*many(house, 2), *many(house, 2, first=3, run_id=2)]))
    assert house.work(ann, 4) == 2
    assert house.taken(1) == house.taken(2) == (12, 0)
