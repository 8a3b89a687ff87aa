"""Thin messages: a receiver comes, signed, for what was booked before it was told."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import numpy as np
import pytest
from standardwebhooks import Webhook
from starlette.testclient import TestClient

from connectors.http.client import Http
from connectors.webhook import WebhookFeed
from dispatcher.core.rate_limit import Rate
from dispatcher.ledger.book import Push
from dispatcher.stages.serving import fetching
from dispatcher.store import pause
from dispatcher.surfaces.taskpage import PageSettings
from dispatcher.surfaces.taskpage.app import task_app
from tests import builders
from tests.contract.receiver import receiving
from tests.integration.exchange_house import Exchange
from tests.integration.ledger_cases import Case

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
FETCH = "https://tasks.example.test/fetch/acme"


@pytest.fixture
def outside():
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def exchange(store, clock, outside):
    http = Http(private=["127.0.0.1"])
    feed = WebhookFeed(
        f"{outside.url}/hook", [SECRET], http, lambda: clock() / 1e6, FETCH
    )
    made = Exchange(Case(store), clock, feed, name="acme")
    made.workers("data")
    made.case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "abcd"))
    yield made
    http.close()


@pytest.fixture
def told(exchange, outside):
    """What the receiver was told of: the items of one message."""
    exchange.book(("data", "r1.a r1.b r2.a"))
    assert exchange.sending().tick(exchange.epoch) == 1
    (request,) = outside.requests
    message = json.loads(request.body)
    assert message["type"] == "fields.announced"
    assert message["data"]["fetch"] == FETCH
    assert b"shown" not in request.body
    return message["data"]["items"]


@pytest.fixture
def page(exchange, rng):
    app = task_app(
        exchange.store, {}, clock=exchange.clock, rng=rng,
        feeds={"acme": exchange.market},
    )  # fmt: skip
    return TestClient(app, base_url="http://127.0.0.1:8421")


def headers(body: str, at: float, secret=SECRET, signed: str | None = None):
    moment = datetime.fromtimestamp(at, UTC)
    signature = Webhook(secret).sign("q1", moment, body if signed is None else signed)
    return {"webhook-id": "q1", "webhook-timestamp": str(int(at)),
            "webhook-signature": signature}  # fmt: skip


def ask(page, clock, tokens, *, late=0, secret=SECRET, type_="fields.fetch"):
    body = json.dumps({"type": type_, "tokens": tokens})
    given = headers(body, clock() / 1e6 - late, secret)
    return page.post("/fetch/acme", content=body, headers=given)


def tokens(items):
    return [item["token"] for item in items]


def test_the_receiver_gets_what_it_was_told_of(page, clock, told):
    answer = ask(page, clock, tokens(told))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    found = answer.json()["data"]["items"]
    assert tokens(found) == tokens(told)
    assert [(item["field"], item["text"]) for item in found] == [
        (field, "shown") for field in "aba"
    ]
    assert (answer.json()["later"], answer.json()["missing"]) == ([], [])


def test_it_was_booked_before_it_was_told(page, clock, told, exchange):
    assert exchange.states("task") == ["published"] * 3
    booked = exchange.ask("SELECT count(*) FROM ledger_line WHERE kind = 'exposure'")
    for _ in range(3):  # again and again: nothing more is booked
        assert ask(page, clock, tokens(told)).status_code == 200
    after = exchange.ask("SELECT count(*) FROM ledger_line WHERE kind = 'exposure'")
    assert booked == after == 3


@pytest.mark.parametrize(
    "how",
    [{"late": 301}, {"late": -301}, {"secret": OTHER}, {"type_": "fields.announced"}],
)
def test_safety_41_a_request_that_is_forged_or_old_gets_nothing(page, clock, told, how):
    answer = ask(page, clock, tokens(told), **how)
    assert (answer.status_code, answer.content) == (401, b"")


def test_our_own_message_sent_back_opens_nothing(page, outside, told):
    (mine,) = outside.requests
    answer = page.post("/fetch/acme", content=mine.body, headers=dict(mine.headers))
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"type": "fields.fetch"}', "nonsense", "\ud83d", "[" * 99_999,
             '{"type": "fields.fetch", "tokens": [1]}',
             '{"type": "fields.fetch", "tokens": []}',
             '{"type": "fields.fetch", "tokens": "abc"}']
)  # fmt: skip
def test_a_signed_request_of_another_form_gets_nothing(page, clock, body):
    raw = body.encode("utf-8", "surrogatepass")
    signed = raw.decode("utf-8", "replace")
    given = headers(body, clock() / 1e6, signed=signed)
    assert page.post("/fetch/acme", content=raw, headers=given).status_code == 401


@pytest.mark.parametrize(
    ("name", "value"),
    [("webhook-timestamp", "soon"), ("webhook-timestamp", "9" * 30),
     ("webhook-timestamp", "9" * 12), ("webhook-signature", "v1"),
     ("webhook-signature", "v1,é"), ("webhook-id", "")],
)  # fmt: skip
def test_headers_that_are_none_get_nothing(page, clock, told, name, value):
    body = json.dumps({"type": "fields.fetch", "tokens": tokens(told)})
    given = {**headers(body, clock() / 1e6), name: value.encode("latin-1")}
    assert page.post("/fetch/acme", content=body, headers=given).status_code == 401


def test_safety_44_requests_are_limited_for_each_address(exchange, rng):
    app = task_app(
        exchange.store, {}, clock=exchange.clock, rng=rng,
        feeds={"acme": exchange.market},
        settings=PageSettings(call=Rate(per_minute=60, burst=2)),
    )  # fmt: skip
    client = TestClient(app, base_url="http://127.0.0.1:8421")
    statuses = [client.post("/fetch/acme").status_code for _ in range(3)]
    assert statuses == [401, 401, 429]


def test_one_token_too_many_is_refused(page, clock):
    assert ask(page, clock, [f"t{n}" for n in range(101)]).status_code == 401


def test_tokens_of_nothing_and_of_others_are_missing(page, clock, told, exchange):
    exchange.case.add("other/data")
    theirs = exchange.case.book(("other/data", "r2.c"), delivery=Push()).tasks
    asked = ["made-up", exchange.token(theirs[0]), told[0]["token"]]
    answer = ask(page, clock, asked).json()
    assert tokens(answer["data"]["items"]) == [told[0]["token"]]
    assert answer["missing"] == asked[:2]


@pytest.mark.parametrize("scope", ["all", "connector:acme", "run:default"])
def test_under_a_pause_nothing_leaves_and_nothing_is_lost(
    page, clock, told, exchange, scope
):
    with exchange.store.write() as tx:
        pause.pause(tx, scope, "look first", clock())
    answer = ask(page, clock, tokens(told)).json()
    assert answer["data"]["items"] == []
    assert answer["later"] == tokens(told)
    with exchange.store.write() as tx:
        pause.resume(tx, scope)
    assert len(ask(page, clock, tokens(told)).json()["data"]["items"]) == 3


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda store: builders.erase_records(store, [1, 2]),
        lambda store: builders.block(store, "acme/data"),
        lambda store: builders.end_tasks(store, "dead", [1, 2, 3]),
    ],
    ids=["erased", "blocked", "given up"],
)
def test_what_must_not_leave_any_more_is_missing(
    page, clock, told, exchange, meanwhile
):
    meanwhile(exchange.store)
    answer = ask(page, clock, tokens(told)).json()
    assert (answer["data"]["items"], answer["missing"]) == ([], tokens(told))


def test_more_than_one_answer_holds_is_to_be_asked_for_again(
    page, clock, told, monkeypatch
):
    monkeypatch.setattr(fetching, "MOST_BYTES", 7)  # "shown" has five
    left = tokens(told)
    for count in (2, 1, 0):
        answer = ask(page, clock, left).json()
        assert len(answer["data"]["items"]) == 1
        left = answer["later"]
        assert len(left) == count


def test_a_feed_of_whole_messages_and_none_at_all_have_nothing_to_fetch(
    exchange, clock, rng, outside
):
    http = Http(private=["127.0.0.1"])
    whole = WebhookFeed(outside.url, [SECRET], http, lambda: clock() / 1e6)
    app = task_app(
        exchange.store, {}, clock=clock, rng=np.random.default_rng(1),
        feeds={"acme": whole},
    )  # fmt: skip
    client = TestClient(app, base_url="http://127.0.0.1:8421")
    assert ask(client, clock, ["t1"]).status_code == 401
    assert client.post("/fetch/nowhere").status_code == 404
    assert client.get("/fetch/acme").status_code == 405
