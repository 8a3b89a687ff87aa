"""Signed messages: what the receiver gets, and what is refused before it leaves."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from functools import partial

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from connectors.base import Item, Misconfigured, Offer, Settings, TryLater
from connectors.http.client import Http
from connectors.webhook import CONNECTOR, WebhookFeed

OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
OFFER = Offer(
    "17",
    account="acme",
    items=(
        Item("t1", content="Zürich 🦊".encode(), label="place"),
        Item("t2", content=b"\x89PNG\x00", media_type="image/png", label="photo"),
    ),
)


@pytest.fixture
def feed():
    http = Http(private=["127.0.0.1"])
    yield partial(made, http)
    http.close()


def made(http, url, *secrets, later=0):
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - the library asks the clock
    return WebhookFeed(url, secrets, http, lambda: now + later)


def test_the_reference_library_accepts_the_message(outside, feed):
    handle = feed(f"{outside.url}/hook", OLD).send(OFFER)
    (got,) = outside.requests
    told = Webhook(OLD).verify(got.body, dict(got.headers))
    assert told["data"]["items"] == [
        {
            "token": "t1", "field": "place", "media_type": "text/plain",
            "text": "Zürich 🦊",
        },
        {
            "token": "t2", "field": "photo", "media_type": "image/png",
            "base64": base64.b64encode(b"\x89PNG\x00").decode(),
        },
    ]  # fmt: skip
    assert got.headers["webhook-id"] == handle.reference == "msg_17"


def test_safety_42_a_thin_message_tells_of_items_and_holds_none(outside):
    values = {
        "url": f"{outside.url}/hook", "allow_private": "127.0.0.1, tasks.lan",
        "payload": "thin", "fetch": "http://tasks.lan/fetch/acme",
    }  # fmt: skip
    opened = CONNECTOR.open(Settings(values, OLD.encode()))
    opened.send(OFFER)
    opened.close()
    (got,) = outside.requests
    told = Webhook(OLD).verify(got.body, dict(got.headers))
    assert told == {
        "type": "fields.announced",
        "data": {
            "fetch": "http://tasks.lan/fetch/acme",
            "items": [
                {"token": "t1", "field": "place", "media_type": "text/plain"},
                {"token": "t2", "field": "photo", "media_type": "image/png"},
            ],
        },
    }


def test_safety_42_while_a_secret_is_changed_both_hold(outside, feed):
    feed(outside.url, OLD, NEW).send(OFFER)
    (got,) = outside.requests
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(got.body, dict(got.headers))
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(got.body, dict(got.headers))


def test_a_repeat_has_the_same_id_and_the_same_body(outside, feed):
    outside.respond = lambda request: (503, {"retry-after": "9"}, b"")
    with pytest.raises(TryLater) as caught:
        feed(outside.url, OLD).send(OFFER)
    assert caught.value.after == 9
    outside.respond = lambda request: (204, {}, b"")
    feed(outside.url, OLD, later=5).send(OFFER)
    first, second = outside.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_a_body_says_nothing_but_what_is_shared(outside, feed):
    feed(outside.url, OLD).send(OFFER)
    told = json.loads(outside.requests[0].body)
    assert sorted(told) == ["data", "type"]


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "plain", "whsec_!!!", OLD[6:], "whsec_c2hvcnQ="]
)
def test_a_secret_that_is_none_is_refused_without_telling_it(secret):
    settings = Settings({"url": "https://a.example/h"}, secret.encode())
    with pytest.raises(Misconfigured) as caught:
        CONNECTOR.open(settings)
    assert not secret or secret == "whsec_" or secret not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"url": "http://a.example/"},
        {"url": "https://a.example/", "uri": "x"},
        {"url": "https://a.example/", "payload": "thin"},
        {"url": "https://a.example/", "payload": "fat"},
        {"url": "https://a.example/", "fetch": "https://t.example/fetch/a"},
        {
            "url": "https://a.example/",
            "payload": "thin",
            "fetch": "https://t.example/from/a",
        },
        {
            "url": "https://a.example/",
            "payload": "thin",
            "fetch": "http://t.example/fetch/a",
        },
    ],
)
def test_settings_that_can_not_be_are_refused(values):
    with pytest.raises(Misconfigured):
        CONNECTOR.open(Settings(values, OLD.encode()))


def test_two_secrets_lie_in_two_lines():
    opened = CONNECTOR.open(
        Settings({"url": "https://a.example/h"}, f"{OLD}\n{NEW}\n".encode())
    )
    assert opened.manifest.name == "webhook"
