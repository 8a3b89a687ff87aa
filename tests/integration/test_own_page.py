"""The worker's own page over HTTP, on both databases: counts and dates, nothing else."""

import html
import re

import pytest

from dispatcher.model import Budget, GoldQuestion
from dispatcher.stages.serving import Given, ServingTerms
from dispatcher.stages.serving.values import DAY
from dispatcher.store import Store, gold_questions, money
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests import builders
from tests.integration.serving_house import House, png
from tests.integration.test_taskpage import (
    SAME,
    arrived,
    browser,
    crop_of,
    page_of,
    text_of,
    token_of,
)


@pytest.fixture
def house(store: Store, clock) -> House:
    return House(store, clock)


@pytest.fixture
def app(house, rng):
    return task_app(
        house.store,
        {"inhouse": house.market()},
        clock=house.clock,
        rng=rng,
        terms=ServingTerms(lease=60, apart=0),
        settings=PageSettings(neutral=0),
    )


def planned(house, worker: str = "ann", **values: str):
    """A worker with one record for each value."""
    who = house.account(worker)
    entries = [
        house.record(10 * who.account_id + number, **{name: value})[name]
        for number, (name, value) in enumerate(values.items())
    ]
    house.plan((who, entries))
    return who


def words(page) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


def work(client, **answers: str) -> None:
    """Answer all that is shown, by what is shown."""
    page = client.post("/start")
    while page_of(page) == "task":
        given = {
            "answer": answers[text_of(page)],
            "outcome": "answered",
            "then": "next",
        }
        page = client.post(f"/task/{token_of(page)}/answer", data=given)
        assert page.status_code == 200


def test_it_tells_what_was_done_by_day_and_kind_and_no_value(app, house, clock):
    planned(house, name="Ada", age="36", disease="flu")
    client = arrived(app, house, "ann")
    work(client, Ada="Canary", **{"36": "41", "flu": "gout"})
    page = client.get("/me")
    assert page_of(page) == "me"
    assert "Nothing waits at the moment" in words(page)
    told = re.findall(r"<td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", page.text)
    day = told[0][0]
    assert told == [(day, k, "1") for k in ("texts", "choices", "numbers")]
    for value in ("Ada", "Canary", "36", "41", "flu", "gout", "ann"):
        assert value not in words(page)


def test_what_is_older_than_a_month_is_not_told(app, house, clock):
    who = planned(house, name="Ada")
    client = arrived(app, house, "ann")
    work(client, Ada="x")
    clock.now += 29 * DAY
    client = arrived(app, house, "ann")
    assert 'id="done"' in client.get("/me").text
    clock.now += 2 * DAY
    client = arrived(app, house, "ann")
    assert 'id="done"' not in client.get("/me").text
    assert who.account_id


def test_made_up_questions_count_so_that_the_list_tells_none_of_them(app, house):
    who = planned(house, name="Ada")
    (question,) = house.made_up("gold", ("Jo", "Jo"))
    client = arrived(app, house, "ann")
    work(client, Ada="x")
    builders.answer_gold(house.store, question, who.account_id, 0, house.clock())
    assert "texts 2" in words(client.get("/me"))


@pytest.mark.parametrize(
    ("fields", "told"),
    [(0, "Nothing waits"), (1, "A few tasks"), (9, "A few tasks"), (10, "Dozens")],
)
def test_how_much_waits_is_told_roughly_and_for_the_worker_alone(
    app, house, fields, told
):
    """What is planned for ann is nothing that waits for bob; his Start says the same."""
    who = house.account("ann")
    entries = [house.record(number + 1, name="Ada")["name"] for number in range(fields)]
    house.plan((who, entries), (house.account("bob"), []))
    assert told in words(arrived(app, house, "ann").get("/me"))
    bob = arrived(app, house, "bob")
    assert "Nothing waits at the moment." in words(bob.get("/me"))
    assert page_of(bob.post("/start")) != "task"


def test_nothing_waits_where_the_gate_would_refuse_all(app, house):
    """The one field that is planned completes a set that the worker holds a part of."""
    who = house.account("ann")
    record = house.record(1, name="Ada", disease="flu")
    house.plan((who, [record["name"]]))
    client = arrived(app, house, "ann")
    work(client, Ada="x")
    house.plan((who, [record["disease"]]))
    assert "Nothing waits at the moment." in words(client.get("/me"))
    assert page_of(client.post("/start")) != "task"


def test_a_test_that_was_failed_says_when_it_may_be_tried_again(app, house, clock):
    who = planned(house, name="Ada")
    house.test_of(1.0, ("Jo", "Jo"))
    client = arrived(app, house, "ann")
    page = client.post("/start")
    assert "question of a test" in words(page)
    assert "not finished" in words(client.get("/me"))
    client.post(
        f"/task/{token_of(page)}/answer",
        data={"answer": "wrong", "outcome": "answered", "then": "stop"},
    )
    assert re.search(
        r"Name: type exactly what you see: not passed, once more from \d{4}-\d\d-\d\d",
        words(client.get("/me")),
    )
    with house.store.write() as tx:
        gold_questions.stand(
            tx, who.account_id, house.fields["name"], state="failed", attempt=2
        )
    assert "once more" not in words(client.get("/me"))


def test_a_picture_of_a_made_up_question_is_served_as_a_page_is(app, house):
    who = house.account("ann")
    house.plan((who, [house.record(1, scan=png(1))["scan"]]))
    with house.store.write() as tx:
        row = GoldQuestion(
            id=1, field_id=house.fields["scan"], purpose="test",
            shown=png(2), media="image/png", answer=b"Jo",
        )  # fmt: skip
        gold_questions.add(tx, [row])
        gold_questions.require(tx, house.fields["scan"], 1.0)
    client = arrived(app, house, "ann")
    crops = []
    for _ in range(2):
        page = client.post("/start")
        crops.append(client.get(crop_of(page), headers={"sec-fetch-dest": "image"}))
        answer = {"answer": "Jo", "outcome": "answered", "then": "stop"}
        client.post(f"/task/{token_of(page)}/answer", data=answer)
        assert client.get(crop_of(page)).content != crops[-1].content  # used up
    assert [crop.content for crop in crops] == [png(2), png(1)]
    assert {crop.headers["content-type"] for crop in crops} == {"image/png"}
    assert house.exposures() == 1


def test_pay_is_told_where_fields_earn_some(app, house):
    planned(house, name="Ada", age="36")
    with house.store.write() as tx:
        row = Budget(run_id=1, currency="GBP", cap=10**9, bonus=120_000)
        money.put_budget(tx, row)
    client = arrived(app, house, "ann")
    assert "Pay" not in words(client.get("/me"))
    assert "GBP 0.12 for this one" in words(client.post("/start"))
    work(client, Ada="x", **{"36": "36"})
    assert "Earned GBP 0.24 Paid so far GBP 0.00" in words(client.get("/me"))


def test_nobody_sees_anothers(app, house):
    planned(house, "ann", name="Ada")
    work(arrived(app, house, "ann"), Ada="x")
    house.account("bob")
    page = arrived(app, house, "bob").get("/me")
    assert 'id="done"' not in page.text
    assert "ann" not in words(page)


def test_without_a_session_there_is_only_the_way_in(app, house):
    assert page_of(browser(app).get("/me")) == "arrive"
    assert page_of(browser(app).post("/me/leave", headers=SAME)) == "arrive"


def test_leaving_for_good_needs_the_tick(app, house):
    planned(house, name="Ada")
    client = arrived(app, house, "ann")
    page = client.post("/me/leave", data={})
    assert (page.status_code, page_of(page)) == (422, "me")
    assert house.ask("SELECT state FROM account") == "active"


def test_who_left_is_shown_nothing_and_no_link_opens(app, house):
    planned(house, name="Ada", age="36")
    client, other_tab = arrived(app, house, "ann"), arrived(app, house, "ann")
    showing = client.post("/start")
    page = client.post("/me/leave", data={"sure": "yes"})
    assert (page.status_code, page_of(page)) == (200, "message")
    assert "You have left" in words(page)
    for tab in (client, other_tab):
        assert page_of(tab.post("/start")) == "arrive"
        late = tab.post(f"/task/{token_of(showing)}/answer", data={"answer": "x"})
        assert page_of(late) == "arrive"
    again = browser(app)
    again.headers.update(SAME)
    refused = again.post("/arrive", data={"invite": house.invite("ann")})
    assert refused.status_code == 403
    assert house.ask("SELECT state FROM account") == "left"
    assert house.ask("SELECT state FROM task") == "returned"
    assert house.ask("SELECT draft FROM task") is None
    assert house.count("event", "action = 'account.left'") == 1
    assert house.exposures() == 1  # what was seen stays seen


def test_leaving_twice_at_once_is_leaving_once(app, house):
    planned(house, name="Ada")
    client, other = arrived(app, house, "ann"), arrived(app, house, "ann")
    client.post("/me/leave", data={"sure": "yes"})
    assert page_of(other.post("/me/leave", data={"sure": "yes"})) == "arrive"
    assert house.ask("SELECT invite FROM account") == 2


def test_beside_a_task_stands_what_was_done_today_and_how_long_one_takes(store, clock):
    house = House(store, clock)
    ann = house.account("ann")
    ids = [house.record(n, name=f"Ada {n}")["name"] for n in range(1, 6)]
    house.plan((ann, ids))
    serving = house.serving(gold=0)
    for seconds in (4, 8, 30):
        task = serving.start(ann)
        found = serving.pace(ann, task)
        assert found.seconds is None, "too few to tell"
        clock.advance(seconds)
        serving.answer(ann, task.token, Given({"answer": "Ada"}))
    found = serving.pace(ann, serving.start(ann))
    assert (found.today, found.pay, found.seconds) == (3, "", 8.0)
