"""Workers who come from Mechanical Turk: framed, waiting until confirmed, at work."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.testclient import TestClient

import connectors.mturk.api
from connectors.base import Item, Money, Offer, Settings
from connectors.mturk import CONNECTOR
from dispatcher.stages.serving import ServingTerms
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests.contract.mturk_server import KEY, KEY_ID, mturk_server
from tests.integration.serving_house import House

PAGE = "https://tasks.example.test"
ANN, BOB = "A1ANNWORKER", "A2BOBWORKER"
SAME = {"sec-fetch-site": "same-origin"}
SECRET = f"{KEY_ID}\n{KEY}\n{(b'k' * 32).hex()}\n".encode()


@pytest.fixture
def server(clock, monkeypatch):
    monkeypatch.setattr(connectors.mturk.api, "_FIRST_WAIT", 0.001)
    with mturk_server(lambda: datetime.fromtimestamp(clock() / 1e6, UTC)) as running:
        yield running


@pytest.fixture
def market(server):
    values = {"url": server.url, "page": f"{PAGE}/from/mturk", "per_second": "1000",
              "allow_private": "127.0.0.1"}  # fmt: skip
    opened = CONNECTOR.open(Settings(values, secret=SECRET))
    yield opened
    opened.close()


@pytest.fixture
def house(store, clock):
    house = House(store, clock)
    ann, bob = house.account(ANN, "mturk"), house.account(BOB, "mturk")
    first = house.record(1, name="Ada Lovelace")
    second = house.record(2, name="Grace Hopper")
    house.plan((ann, list(first.values())), (bob, list(second.values())))
    return house


@pytest.fixture
def app(house, market, rng):
    return task_app(
        house.store,
        {"mturk": market, "inhouse": house.market()},
        clock=house.clock,
        rng=rng,
        terms=ServingTerms(lease=60, apart=0),
        settings=PageSettings(neutral=0, https=True),
    )


def browser(app) -> TestClient:
    return TestClient(app, base_url=PAGE, follow_redirects=True, headers=SAME)


@pytest.fixture
def client(app):
    return browser(app)


def hit_of(server, market, account: str = ANN, key: str = "k1"):
    reward = Money(Decimal("1.20"), "USD")
    offer = Offer(key, account=account, items=(Item("t1"),), link=PAGE, reward=reward)
    return server.hits[market.publish(offer).reference]


def way_in(notice) -> str:
    return html.unescape(re.search(r'href="(/from/mturk\?[^"]+)"', notice.text)[1])


def form_of(page) -> dict[str, str]:
    found = re.findall(r'name="([^"]+)" value="([^"]*)"', page.text)
    return {name: html.unescape(value) for name, value in found}


def page_of(response) -> str:
    return re.search(r'data-page="(\w+)"', response.text)[1]


def test_a_worker_comes_in_works_and_hands_in(client, server, market):
    hit = hit_of(server, market)
    taken = server.accept(ANN, hit)
    notice = client.get(server.link(taken))
    ready = client.post("/arrive", data=form_of(client.get(way_in(notice))))
    assert page_of(ready) == "ready"
    task = client.post("/start", data=form_of(ready))
    assert "Ada Lovelace" in task.text
    token = re.search(r'data-token="([^"]+)"', task.text)[1]
    given = {**form_of(task), "answer": "Ada Lovelace"}
    client.post(f"/task/{token}/answer", data=given)
    where = html.unescape(re.search(r'action="([^"]+)"', notice.text)[1])
    told = httpx2.post(where, data=form_of(notice), headers={"cookie": f"worker={ANN}"})
    assert told.status_code == 200
    (piece,) = market.collect("").submissions
    assert (piece.account, piece.progress.value) == (ANN, "submitted")
    assert "Ada Lovelace" not in taken.answer


def test_the_frame_shows_nothing_opens_no_session_and_is_mturks_alone(
    client, server, market
):
    notice = client.get(server.link(server.accept(ANN, hit_of(server, market))))
    assert page_of(notice) == "notice"
    policy = notice.headers["content-security-policy"]
    assert f"frame-ancestors {server.url}" in policy
    assert f"form-action {server.url};" in policy
    assert "x-frame-options" not in notice.headers
    assert "set-cookie" not in notice.headers
    assert "Ada Lovelace" not in notice.text


def test_a_preview_shows_nothing_and_leads_nowhere(client, server, market):
    address = server.preview(ANN, hit_of(server, market))
    notice = client.get(address)
    assert (notice.status_code, page_of(notice)) == (200, "notice")
    assert "/from/" not in notice.text
    assert "<form" not in notice.text
    parts = urlsplit(address)
    brought = client.get(f"/from/mturk?{parts.query}")
    assert client.post("/arrive", data=form_of(brought)).status_code == 403


def test_who_has_not_accepted_waits_and_comes_in_with_the_same_form(
    client, server, market
):
    hit = hit_of(server, market)
    taken = server.accept(ANN, hit)
    address = way_in(client.get(server.link(taken)))
    taken.status = "Returned"  # as before MTurk's own servers agree
    waiting = client.post("/arrive", data=form_of(client.get(address)))
    assert (waiting.status_code, page_of(waiting)) == (200, "wait")
    assert "Ada Lovelace" not in waiting.text
    taken.status = "Accepted"
    assert page_of(client.post("/arrive", data=form_of(waiting))) == "ready"


def test_an_edited_worker_id_lets_nobody_in(client, server, market):
    hit_of(server, market, BOB, "k2")
    taken = server.accept(ANN, hit_of(server, market))
    form = form_of(client.get(way_in(client.get(server.link(taken)))))
    refused = client.post("/arrive", data={**form, "workerId": BOB})
    assert (refused.status_code, page_of(refused)) == (403, "arrive")


def test_the_form_of_being_done_goes_to_mturk_alone(client, server, market):
    taken = server.accept(ANN, hit_of(server, market))
    elsewhere = server.link(taken).replace("127.0.0.1", "evil.example.test")
    refused = client.get(elsewhere)
    assert refused.status_code == 403
    assert "evil.example" not in refused.text


def test_mturk_down_lets_nobody_in_and_loses_nothing(client, server, market):
    taken = server.accept(ANN, hit_of(server, market))
    form = form_of(client.get(way_in(client.get(server.link(taken)))))
    respond = server.receiver.respond
    server.receiver.respond = lambda _: (503, {}, b"")
    waiting = client.post("/arrive", data=form)
    assert page_of(waiting) == "wait"
    server.receiver.respond = respond
    assert page_of(client.post("/arrive", data=form_of(waiting))) == "ready"


def test_what_anybody_calls_is_heard_by_nobody(client, server, market):
    """MTurk speaks to a queue; a forged message of SNS to our page finds no door."""
    told = client.post("/hooks/mturk", content=b'{"Type":"Notification"}')
    assert told.status_code == 404


@pytest.mark.parametrize("name", ["inhouse", "nobody"])
def test_a_market_without_a_frame_has_no_notice(client, name):
    assert client.get(f"/from/{name}/notice?a=b").status_code == 404
    assert client.get(f"/from/mturk/notice?x={'y' * 17_000}").status_code == 404
