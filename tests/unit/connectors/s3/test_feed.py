"""Objects in a bucket, against a real HTTP server that speaks S3."""

from __future__ import annotations

import csv
import io
import json

import polars as pl
import pytest

from connectors.base import Item, Misconfigured, Offer, Settings, TryLater
from connectors.formats.formula_guard import unguard
from connectors.s3 import CONNECTOR
from tests.contract.buckets import SECRET, bucket_server, objects
from tests.contract.receiver import receiving

ITEMS = (
    Item("t1", content='=1+1, Zürich 🦊\n"x"'.encode(), label="place"),
    Item("t2", content=b"\x89PNG\x00", media_type="image/png", label="photo"),
)
OFFER = Offer("17", account="acme", items=ITEMS)
ROWS = [
    ("t1", "place", "text/plain", '=1+1, Zürich 🦊\n"x"', ""),
    ("t2", "photo", "image/png", "", "iVBORwA="),
]


@pytest.fixture(scope="module")
def outside():
    with bucket_server() as url:
        yield url


OPENED = []


@pytest.fixture(autouse=True)
def closing_all():
    yield
    while OPENED:
        OPENED.pop().close()


def feed(url, bucket="acme-data", **more):
    values = {"bucket": bucket, "endpoint": url, "allow_private": "127.0.0.1", **more}
    OPENED.append(CONNECTOR.open(Settings(values, SECRET)))
    return OPENED[-1]


def put(url, form, **more):
    """Send under a prefix of its own; the object's name and bytes."""
    prefix = f"{form}{len(more)}/"
    feed(url, format=form, prefix=prefix, **more).send(OFFER)
    ((name, body),) = objects(url, "acme-data", prefix).items()
    return name, body


def test_csv_is_guarded_against_formulas_and_reads_back_exactly(outside):
    name, body = put(outside, "csv")
    header, *rows = csv.reader(io.StringIO(body.decode(), newline=""))
    assert header == ["token", "field", "media_type", "text", "base64"]
    assert rows[0][3].startswith("'=")
    assert [tuple(map(unguard, row)) for row in rows] == ROWS
    assert name.endswith(".csv")


def test_csv_without_the_guard_holds_the_values_as_they_are(outside):
    _, body = put(outside, "csv", guard="no")
    _, *rows = csv.reader(io.StringIO(body.decode(), newline=""))
    assert [tuple(row) for row in rows] == ROWS


def test_json_lines_and_parquet_hold_the_values_as_they_are(outside):
    _, body = put(outside, "jsonl")
    assert [tuple(json.loads(line).values()) for line in body.splitlines()] == ROWS
    _, body = put(outside, "parquet")
    assert pl.read_parquet(io.BytesIO(body)).rows() == ROWS


def test_an_object_that_is_there_is_not_written_over(outside):
    one = feed(outside, prefix="once/", format="jsonl")
    handle = one.send(OFFER)
    changed = Offer("17", account="acme", items=ITEMS[:1])
    assert one.send(changed) == handle == one.find("17")
    (body,) = objects(outside, "acme-data", "once/").values()
    assert len(body.splitlines()) == 2
    assert one.find("18") is None


def test_a_bucket_that_is_not_there_is_for_the_operator_to_mend(outside):
    with pytest.raises(Misconfigured, match="404"):
        feed(outside, bucket="nobody-has-it").send(OFFER)


def test_a_server_that_is_not_there_is_for_later(outside):
    with pytest.raises(TryLater):
        feed("http://127.0.0.1:9").send(OFFER)


@pytest.mark.parametrize(
    ("more", "secret"),
    [
        ({"bucket": "Bad_Name"}, SECRET),
        ({"format": "xlsx"}, SECRET),
        ({"guard": "maybe"}, SECRET),
        ({"prefix": "é"}, SECRET),
        ({"endpoint": "http://10.0.0.1/"}, SECRET),
        ({"colour": "red"}, SECRET),
        ({"region": "evil.example/"}, SECRET),
        ({}, b"one-line-only"),
        ({}, b""),
    ],
)
def test_settings_that_can_not_be_are_refused(more, secret):
    values = {"bucket": "acme-data", **more}
    with pytest.raises(Misconfigured) as caught:
        CONNECTOR.open(Settings(values, secret))
    assert not secret or secret.decode() not in str(caught.value)


def told(sent):
    """The Misconfigured that a send ends with, which tells nothing of the secret."""
    with pytest.raises(Misconfigured) as caught:
        sent.send(OFFER)
    assert SECRET.decode().split()[1] not in f"{caught.value.what}{caught.value.why}"
    return caught.value


@pytest.mark.parametrize(
    "values", [{"endpoint": "https://metadata.example"}, {"region": "eu-west-1"}]
)
def test_a_name_that_leads_into_the_own_network_is_not_reached(monkeypatch, values):
    asked = []

    def private(host, port, **_):
        asked.append(host)
        return [(2, 1, 6, "", ("169.254.169.254", port))]

    monkeypatch.setattr("connectors.http.client.socket.getaddrinfo", private)
    sent = CONNECTOR.open(Settings({"bucket": "acme-data", **values}, SECRET))
    assert "private network" in told(sent).what
    assert asked == [values.get("endpoint", "")[8:]
                     or "acme-data.s3.eu-west-1.amazonaws.com"]  # fmt: skip


def test_a_redirect_leads_to_no_other_server():
    with receiving() as outside, receiving() as elsewhere:
        headers = {"x-amz-bucket-region": "eu-west-1", "location": elsewhere.url}
        outside.respond = lambda request: (301, headers, b"")
        assert "301" in told(feed(outside.url)).what
        assert outside.requests
        assert not elsewhere.requests
