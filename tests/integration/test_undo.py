"""An answer can be taken back for some seconds; nothing is made of it before."""

import pytest

from dispatcher.app.leadership import take_lease
from dispatcher.model import Budget
from dispatcher.stages.assembly import Assembly
from dispatcher.stages.serving import Given
from dispatcher.stages.serving.values import GRACE, held_back
from dispatcher.store import money
from policies.answers.validation import Mark
from tests.integration.serving_house import House


@pytest.fixture
def house(store, clock) -> House:
    return House(store, clock)


def given(text: str) -> Given:
    return Given({"answer": text})


def two_tasks(house: House, **terms: float):
    """A worker with two fields of two records; the first is answered, the second shown."""
    ann = house.account("ann")
    ids = [house.record(n, name=name)["name"] for n, name in ((1, "Ada"), (2, "Eve"))]
    house.plan((ann, ids))
    serving = house.serving(gold=0, **terms)
    first = serving.start(ann)
    saved = serving.answer(ann, first.token, given("Adda"))
    return ann, serving, first, saved, serving.start(ann)


def test_an_answer_taken_back_is_asked_again_and_then_the_one_after_it(house):
    ann, serving, first, saved, second = two_tasks(house)
    assert saved.undo
    back = serving.take_back(ann, first.token)
    assert back.token == first.token
    assert serving.in_hand(ann).token == first.token
    assert house.count("answer") == 0
    assert serving.answer(ann, first.token, given("Ada")).undo
    assert serving.in_hand(ann).token == second.token
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"
    assert house.exposures() == 2, "taking back and asking again disclose nothing new"


def test_it_can_be_taken_back_for_some_seconds_only(house, clock):
    ann, serving, first, _, second = two_tasks(house)
    clock.advance(10 + GRACE + 1)
    assert serving.take_back(ann, first.token) is None
    assert serving.in_hand(ann).token == second.token
    assert house.count("answer") == 1


def test_no_answer_is_taken_back_where_that_is_switched_off(house):
    ann, serving, first, saved, _ = two_tasks(house, undo=0)
    assert not saved.undo
    assert serving.take_back(ann, first.token) is None


def test_nobody_takes_back_the_answer_of_another(house):
    _, serving, first, _, _ = two_tasks(house)
    assert serving.take_back(house.account("bob"), first.token) is None
    assert house.count("answer") == 1


def test_nothing_is_made_of_an_answer_that_may_be_taken_back(house, clock):
    ann, serving, first, _, _ = two_tasks(house)
    assembly = Assembly(house.store, clock, held_back(10))
    epoch = take_lease(house.store, clock)
    assert assembly.tick(epoch) == 0
    clock.advance(10 + GRACE + 1)
    assert assembly.tick(take_lease(house.store, clock)) == 1
    assert serving.take_back(ann, first.token) is None, "it is counted"


def gold_of(house: House):
    """A worker who is asked gold alone, and what it earns."""
    ann = house.account("ann")
    house.made_up("gold", ("Jo Doe", "Jo Doe"))
    house.plan((ann, [house.record(1, name="Ada")["name"]]))
    serving = house.serving(gold=0.5)
    while True:
        showing = serving.start(ann)
        if showing.words == "Jo Doe":
            return ann, serving, showing
        serving.give_back(ann, showing.token)
        house.plan((ann, [house.record(house.count("record") + 1, name="Ada")["name"]]))


def test_gold_is_taken_back_as_a_real_field_is(house):
    ann, serving, gold = gold_of(house)
    assert serving.answer(ann, gold.token, given("Jo Do")).undo
    assert house.ask("SELECT correct FROM gold_task") == 0
    assert serving.take_back(ann, gold.token).token == gold.token
    assert house.ask("SELECT correct FROM gold_task") is None
    assert serving.in_hand(ann).token == gold.token
    serving.answer(ann, gold.token, given("Jo Doe"))
    assert house.ask("SELECT correct FROM gold_task") == 1


def test_the_marks_of_a_test_stand(house):
    ann = house.account("ann")
    house.test_of(1.0, ("Jo", "Jo"))
    house.plan((ann, [house.record(1, name="Ada")["name"]]))
    serving = house.serving()
    test = serving.start(ann)
    assert test.of_test
    assert not serving.answer(ann, test.token, given("Jo")).undo
    assert serving.take_back(ann, test.token) is None


def test_a_mark_can_be_taken_back_too(house):
    ann = house.account("ann")
    house.plan((ann, [house.record(1, name="Ada")["name"]]))
    serving = house.serving(gold=0)
    task = serving.start(ann)
    serving.answer(ann, task.token, Given({}, Mark.ILLEGIBLE))
    assert serving.take_back(ann, task.token).draft == ""


def test_what_an_answer_to_gold_earned_is_kept_back_while_it_is_asked_again(house):
    with house.store.write() as tx:
        money.put_budget(tx, Budget(run_id=1, currency="EUR", cap=10**9, bonus=50_000))
    ann, serving, gold = gold_of(house)
    state = "SELECT state FROM payment WHERE about = (SELECT max(id) FROM gold_task)"
    assert house.ask(state) == "reserved"
    serving.answer(ann, gold.token, given("Jo Do"))
    assert house.ask(state) == "due"
    assert serving.pace(ann, serving.take_back(ann, gold.token)).pay == "EUR 0.05"
    assert house.ask(state) == "reserved"
    serving.answer(ann, gold.token, given("Jo Doe"))
    assert house.ask(state) == "due"
