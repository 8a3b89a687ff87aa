"""Events of the tracking API: byte for byte what the official SDK would send."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime

import pytest
from segment.analytics.client import Client

from connectors.base import Item, Misconfigured, Offer, Rejected, Settings, TryLater
from connectors.http.client import Http
from connectors.segment import CONNECTOR, SegmentFeed
from connectors.segment.feed import (
    BATCH_BYTES,
    LONGEST_NAME,
    MANIFEST,
    encoded,
    event,
)

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVENT_BYTES = 32 << 10
"""Most bytes of one event; the platform drops a larger one, and responds with 200."""
OFFER = Offer(
    "17",
    account="acme",
    items=(
        Item("t1", content="Zürich 🦊 </script>".encode(), label="place"),
        Item("t2", content=b"\x89PNG\x00", media_type="image/png", label="photo"),
    ),
)


@pytest.fixture
def feed(outside):
    http = Http(private=["127.0.0.1"])
    yield SegmentFeed(outside.url, "WK", http, AT.timestamp)
    http.close()


def same(body: bytes) -> bytes:
    """Leave out what names the library and the moment of sending."""
    body = re.sub(rb'"library": \{[^}]*\}', b'"library": {}', body)
    return re.sub(rb'"sentAt": "[^"]*"', b'"sentAt": ""', body)


def test_the_bytes_are_those_of_the_official_sdk(outside, feed):
    feed.send(OFFER)
    (ours,) = outside.requests
    ids = [one["messageId"] for one in json.loads(ours.body)["batch"]]
    shown = ({"text": "Zürich 🦊 </script>"}, {"base64": "iVBORwA="})
    official = Client("WK", host=outside.url, sync_mode=False)
    for item, name, what in zip(OFFER.items, ids, shown, strict=True):
        official.track(
            anonymous_id=item.token,
            event="Field Shared",
            properties={"field": item.label, "media_type": item.media_type, **what},
            timestamp=AT,
            message_id=name,
        )
    official.flush()
    official.join()
    theirs = outside.requests[-1]
    assert same(ours.body) == same(theirs.body)
    assert ours.path == theirs.path == "/v1/batch"
    for name in ("content-type", "authorization"):
        assert ours.headers[name] == theirs.headers[name]


def test_the_login_is_the_write_key_without_a_password(outside, feed):
    feed.send(OFFER)
    login = outside.requests[0].headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(login) == b"WK:"


def test_nothing_joins_two_fields(outside, feed):
    feed.send(OFFER)
    first, second = json.loads(outside.requests[0].body)["batch"]
    assert first["anonymousId"] != second["anonymousId"]
    assert first["userId"] is second["userId"] is None


def test_a_repeat_has_the_same_ids(outside, feed):
    outside.respond = lambda request: (500, {}, b"")
    with pytest.raises(TryLater):
        feed.send(OFFER)
    outside.respond = lambda request: (200, {}, b"")
    feed.send(OFFER)
    first, second = ([one["messageId"] for one in json.loads(got.body)["batch"]]
                     for got in outside.requests)  # fmt: skip
    assert first == second


def test_much_goes_in_batches_that_the_api_takes(outside, feed):
    items = tuple(
        Item(f"t{number}", content=b"x" * 4_000, label="note") for number in range(200)
    )
    feed.send(Offer("18", account="acme", items=items))
    sizes = [len(got.body) for got in outside.requests]
    assert len(sizes) > 1
    assert max(sizes) <= BATCH_BYTES
    told = [one for got in outside.requests for one in json.loads(got.body)["batch"]]
    assert [one["anonymousId"] for one in told] == [item.token for item in items]


def test_what_would_be_dropped_in_silence_is_rejected_and_nothing_leaves(outside, feed):
    content = b"x" * (MANIFEST.limits.content_bytes + 1)
    offer = Offer("19", account="acme", items=(Item("t", content=content, label="n"),))
    with pytest.raises(Rejected, match="bytes"):
        feed.send(offer)
    assert not outside.requests


@pytest.mark.parametrize("sign", ["\x01", '"', "\u00e9", "\U0001f98a"])
def test_what_the_manifest_takes_is_never_dropped_in_silence(feed, sign):
    length = MANIFEST.limits.content_bytes // len(sign.encode())
    item = Item("t" * 128, content=(sign * length).encode(), label="\u00e9" * 200)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    name = "\u00e9" * LONGEST_NAME
    assert len(encoded(event("k" * 32, item, name, at))) <= EVENT_BYTES


def test_an_events_name_of_any_length_is_refused():
    values = {"url": "https://a.example", "event": "x" * (LONGEST_NAME + 1)}
    with pytest.raises(Misconfigured):
        CONNECTOR.open(Settings(values, b"WK"))


@pytest.mark.parametrize("secret", [b"", b"two words", b"\xff\xfe"])
def test_a_write_key_that_is_none_is_refused(secret):
    with pytest.raises(Misconfigured):
        CONNECTOR.open(Settings({"url": "https://a.example"}, secret))


@pytest.mark.parametrize("values", [{}, {"url": "https://a.example", "x": "y"}])
def test_settings_that_can_not_be_are_refused(values):
    with pytest.raises(Misconfigured):
        CONNECTOR.open(Settings(values, b"WK"))
