"""The label-studio connector against a real server (`make test-markets`)."""

from __future__ import annotations

import threading

import pytest

from connectors.base import Form, Item, Offer, Rejected, Visit
from connectors.http.client import Http
from connectors.label_studio.api import Api
from connectors.label_studio.market import HEADER
from connectors.testing.suite import CANARY, NOW
from tests.contract.label_studio_suite import (
    LINK,
    Board,
    Outside,
    There,
    field_of,
    wrote,
)
from tests.contract.receiver import receiving
from tests.e2e.conftest import chromium
from tests.markets.label_studio_server import BOSS, PASSWORD, label_studio_server

__all__ = ["chromium"]

pytestmark = pytest.mark.markets
OFFER = Offer("k1", account="ann", items=(Item("task-9f3"),), link=LINK)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with label_studio_server(tmp_path_factory.mktemp("label-studio")) as running:
        yield running


@pytest.fixture(scope="module")
def bob(server):
    return server.person("bob")


@pytest.fixture
def outside(server):
    made = Outside(server.url, server.token)
    yield made
    while made.opened:
        made.opened.pop().close()


class TestLabelStudioNotices(Board):
    pass


class TestLabelStudioFields(There):
    pass


def test_it_is_the_community_edition_of_the_version_we_say(server):
    told = server.ask("GET", "/api/version")[1]
    assert (told["release"], told["edition"]) == ("1.23.2", "Community")


def test_a_personal_access_token_does_as_well_as_a_legacy_one(server, outside):
    outside.open().publish(OFFER)
    token = server.personal_token()
    assert token.count(".") == 2
    api = Api(server.url, token, Http(private=["127.0.0.1"]))
    (title,) = [t for t in outside.projects() if "closed" not in t]
    found = api.project(title)
    api.close()
    assert found is not None
    assert found["id"] == outside.work()


def test_every_user_reads_every_task_and_nothing_that_lets_anybody_in(outside, bob):
    market = outside.open()
    market.publish(OFFER)
    project = outside.work()
    status, told = bob.ask("GET", f"/api/tasks?project={project}&fields=all")
    assert status == 200, (
        "Label Studio has begun to part its users: the docs may say so"
    )
    assert LINK in str(told)
    status, told = bob.ask("GET", f"/api/projects/{project}/export?exportType=JSON"
                                  "&download_all_tasks=true")  # fmt: skip
    assert status == 200
    assert LINK in str(told)
    for secret in ("task-9f3", outside.key.hex(), "#k=", "token="):
        assert secret not in str(told)
    task = told[0]
    for words in (task["data"]["offer"], task["data"]["task"], str(task["id"])):
        with pytest.raises(Rejected):
            market.arrive(Visit({"token": words}), NOW)


def test_what_lies_there_is_seen_by_all_so_the_server_is_one_adversary(outside, bob):
    market = outside.open(content="there")
    market.publish(Offer("k1", audience="crowd", items=(field_of(),)))
    (task,) = outside.live()
    assert CANARY in str(bob.ask("GET", f"/api/tasks/{task['id']}/"))
    assert market.manifest.binding == "none"


def test_a_user_answers_a_field_and_more_often_than_asked(outside, bob):
    market = outside.open(content="there")
    market.publish(Offer("k1", audience="crowd", items=(field_of(),)))
    (task,) = outside.live()
    for value in ("seven", "eight", "seven & 🦊"):
        path = f"/api/tasks/{task['id']}/annotations/"
        assert bob.ask("POST", path, {"result": [wrote(value)]})[0] == 201
    found = market.collect("").answers
    assert [one.value for one in found] == ["seven", "eight", "seven & 🦊"]
    assert {one.account for one in found} == {"crowd"}


def test_a_user_who_deletes_a_project_takes_the_answers_and_nothing_breaks(
    outside, bob
):
    market = outside.open(content="there")
    market.publish(Offer("k1", audience="crowd", items=(field_of(),)))
    assert bob.ask("DELETE", f"/api/projects/{outside.work()}/")[0] == 204
    assert market.collect("").answers == ()
    assert market.find("k1") is None


def test_two_users_race_for_one_task_and_both_answers_come_once(server, outside, bob):
    market = outside.open(content="there")
    market.publish(Offer("k1", audience="crowd", items=(field_of(),)))
    (task,) = outside.live()
    people = [bob, server.person(f"eve{task['id']}")]
    path = f"/api/tasks/{task['id']}/annotations/"
    told = {"result": [wrote("seven")]}
    threads = [
        threading.Thread(target=one.ask, args=("POST", path, told)) for one in people
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [one.id for one in market.collect("").answers]
    assert len(ids) == len(set(ids)) == len(outside.live()[0]["annotations"])


def test_a_webhook_calls_once_with_our_word_and_without_the_field(outside, bob):
    with receiving() as receiver:
        url = f"{receiver.url}/hooks/label-studio"
        market = outside.open(content="there", hook=url)
        receiver.respond = lambda _: (500, {}, b"")
        market.publish(Offer("k1", audience="crowd", items=(field_of(),)))
        market.collect("")
        (task,) = outside.live()
        path = f"/api/tasks/{task['id']}/annotations/"
        assert bob.ask("POST", path, {"result": [wrote("seven")]})[0] == 201
        (call,) = receiver.requests  # refused with 500, and not sent again
    assert CANARY.encode() not in call.body
    assert b"seven" not in call.body
    assert market.heed(Visit(headers=call.headers, body=call.body), NOW)
    with pytest.raises(Rejected):
        market.heed(Visit(headers={**call.headers, HEADER: "x"}), NOW)
    assert [one.value for one in market.collect("").answers] == ["seven"]


def test_a_person_reads_chooses_and_writes_in_a_browser(server, outside, chromium):
    there = outside.open(content="there")
    text = "Köln <b>& $help"
    written = Item("t1", Form("transcribe", "Which town?"), content=text.encode())
    chosen = Item("t2", Form("choose", choices=("red", "green <i>")), content=b"green")
    there.publish(Offer("k1", audience="crowd", items=(written, chosen)))
    numbers = {task["meta"]["task"]: task["id"] for task in outside.live()}
    context = chromium.new_context()
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{server.url}/user/login/")
    page.fill("input[name=email]", BOSS)
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "login" not in url)
    for token, seen in (("t1", text), ("t2", "green")):
        page.goto(f"{server.url}/projects/{outside.work()}/data?task={numbers[token]}")
        frame = page.locator("iframe").first.content_frame
        frame.get_by_text(seen, exact=True).wait_for()
        page.wait_for_load_state("networkidle")  # it draws a task twice
        if token == "t1":
            assert page.get_by_text("Which town?").is_visible()
            page.get_by_placeholder("Write the answer here").fill("Köln")
        else:
            page.locator("label").filter(has_text="green <i>").first.click()
        with page.expect_response(lambda answer: answer.request.method == "POST"
                                  and "/annotations" in answer.url):  # fmt: skip
            page.get_by_role("button", name="Submit").last.click()
    context.close()
    found = {one.token: one.value for one in there.collect("").answers}
    assert found == {"t1": "Köln", "t2": "green <i>"}
