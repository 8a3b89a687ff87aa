"""The turkle connector against a real Turkle server (`make test-markets`)."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from connectors.base import (
    Content,
    Item,
    Offer,
    Rejected,
    Settings,
    Stranger,
    Visit,
    Wall,
)
from connectors.errors import Misconfigured, TryLater
from connectors.http.rest import Rest
from connectors.inhouse import Ticket, sign
from connectors.testing.listing_suite import ListingContract
from connectors.testing.suite import NOW, Bench, offer_for
from connectors.turkle import CONNECTOR, MANIFEST
from connectors.turkle.api import Api
from tests.markets.turkle_server import PASSWORD, turkle_server

pytestmark = pytest.mark.markets
KEY = b"k" * 32
LINK = "https://tasks.example.test/"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with turkle_server(tmp_path_factory.mktemp("turkle")) as running:
        yield running


@pytest.fixture
def clean(server):
    """Begin each test with no project."""
    with closing(sqlite3.connect(server.database, timeout=20)) as store, store:
        store.execute("pragma foreign_keys = off")
        for table in ("taskassignment", "task", "batch", "project"):
            store.execute(f"delete from turkle_{table}")
        store.execute("delete from guardian_userobjectpermission")
    return server


OPENED = []


@pytest.fixture(autouse=True)
def closing_all():
    yield
    while OPENED:
        OPENED.pop().close()


def open_at(server, token: str = ""):
    secret = f"{token or server.token}\n{KEY.hex()}\n".encode()
    values = {"url": server.url, "allow_private": "127.0.0.1"}
    opened = CONNECTOR.open(Settings(values, secret=secret))
    OPENED.append(opened)
    return opened


def batches(server) -> list[dict]:
    return server.api("batches/")["results"]


def held(server) -> bytes:
    """All that Turkle keeps."""
    with closing(sqlite3.connect(server.database, timeout=20)) as store:
        return "\n".join(store.iterdump()).encode()


def remove(server, handle) -> None:
    """Delete a batch and its tasks, as an administrator may."""
    with closing(sqlite3.connect(server.database, timeout=20)) as store, store:
        number = [int(handle.reference)]
        store.execute("delete from turkle_task where batch_id = ?", number)
        store.execute("delete from turkle_batch where id = ?", number)


@contextmanager
def answer_lost():
    """The batch is made and switched on, and we never hear of it."""
    real = Api.change

    def change(self, kind, number, **told):
        real(self, kind, number, **told)
        raise OSError("lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Api, "change", change)
        yield


def visit(account, now):
    return Visit({"token": sign(KEY, Ticket(account, "t1", now + timedelta(hours=1)))})


class TestTurkle(ListingContract):
    @pytest.fixture
    def bench(self, clean):
        foreign = sign(b"o" * 32, Ticket("ann", "t1", NOW + timedelta(hours=1)))
        good = visit("ann", NOW).parameters["token"]
        return Bench(
            open=lambda: open_at(clean),
            seen=lambda _: held(clean),
            copies=lambda _: len(batches(clean)),
            visit=visit,
            forged=[
                Visit({"token": text})
                for text in (foreign, good[:-1], good + "=", "v1..")
            ]
            + [Visit({"workerId": "ann", "username": "ann"})],
            crash_after_accept=answer_lost,
            remove=lambda handle: remove(clean, handle),
        )


def tasks(server) -> list[int]:
    with closing(sqlite3.connect(server.database, timeout=20)) as store:
        return [row[0] for row in store.execute("select id from turkle_task")]


def secrets_of(offer: Offer) -> list[str]:
    return [*(item.token for item in offer.items), "#k=", "token="]


@pytest.fixture
def offer():
    return Offer("offer-key-51", account="ann", items=(Item("task-9f3"),), link=LINK)


def test_only_the_worker_is_told_of_the_work(clean, offer):
    open_at(clean).publish(offer)
    number = batches(clean)[0]["id"]
    path = f"/batch/{number}/accept_next_task/"
    assert path in clean.browser("ann").get("/")[1]
    assert path not in clean.browser("bob").get("/")[1]
    assert path not in clean.browser().get("/")[1]


def test_leak_a_a_preview_by_counting_tells_another_worker_nothing(clean, offer):
    open_at(clean).publish(offer)
    (task,) = tasks(clean)
    told = clean.browser("ann").get(f"/task/{task}/iframe/")
    assert told[0] == 200
    assert LINK in told[1]
    for name in ("bob", ""):
        status, text = clean.browser(name).get(f"/task/{task}/iframe/")
        assert status == 302
        assert LINK not in text


def test_leak_b_an_assignment_that_anybody_reads_lets_nobody_in(clean, offer):
    market = open_at(clean)
    market.publish(offer)
    (task,) = tasks(clean)
    ann = clean.browser("ann")
    number = batches(clean)[0]["id"]
    _, where = ann.get(f"/batch/{number}/accept_next_task/")
    found = re.search(r"/task/\d+/assignment/(\d+)/", where)
    assert found, where
    path = f"/task/{task}/assignment/iframe/{found[1]}/"
    status, text = clean.browser().get(path)
    assert status == 200, "Turkle has mended its leak: the page may say so"
    assert LINK in text
    for secret in secrets_of(offer):
        assert secret not in text
    for words in re.findall(r'(?:href|value)="([^"]+)"', text):
        with pytest.raises(Rejected):
            market.arrive(Visit({"token": words}), NOW)


def test_leak_c_a_batch_is_switched_on_after_it_is_permitted(clean, offer):
    seen = []
    real = Api.permit

    def permit(self, kind, number, user):
        seen.append(
            (kind, [(b["active"], b["login_required"]) for b in batches(clean)])
        )
        real(self, kind, number, user)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Api, "permit", permit)
        open_at(clean).publish(offer)
    off = [(False, True)]
    assert seen == [("projects", []), ("projects", off), ("batches", off)]
    (batch,) = batches(clean)
    assert (batch["active"], batch["custom_permissions"]) == (True, True)


def test_a_batch_left_inactive_is_finished_and_not_made_again(clean, offer):
    with pytest.MonkeyPatch.context() as patch:

        def broken(*_, **__):
            raise TryLater("broken off")

        patch.setattr(Api, "change", broken)
        with pytest.raises(TryLater):
            open_at(clean).publish(offer)
    assert open_at(clean).find(offer.key) is None
    open_at(clean).publish(offer)
    (batch,) = batches(clean)
    assert batch["active"]


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_what_turkle_took_and_did_not_do_is_not_taken_for_done(clean, offer, method):
    """A yes that opened nothing, and permissions that are not kept."""
    asked = Rest.ask

    def idle(self, verb, path, *given, **named):
        if verb != method:
            return asked(self, verb, path, *given, **named)
        return asked(self, "GET", path) if verb == "PATCH" else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rest, "ask", idle)
        with pytest.raises(TryLater, match="does not keep"):
            open_at(clean).publish(offer)
    assert not any(batch["active"] for batch in batches(clean))
    open_at(clean).publish(offer)
    assert [batch["active"] for batch in batches(clean)] == [True]


def test_what_was_withdrawn_stays_closed(clean, offer):
    market = open_at(clean)
    handle = market.publish(offer)
    market.withdraw(handle)
    assert market.publish(offer) == handle
    (batch,) = batches(clean)
    assert not batch["active"]


def test_turkle_holds_no_secret_and_no_token_of_ours(clean, offer):
    open_at(clean).publish(offer)
    text = held(clean).decode()
    assert LINK in text
    for secret in secrets_of(offer):
        assert secret not in text


def test_all_batches_are_listed_once_and_not_for_each_offer(clean):
    listed = []
    real = Api.page

    def page(self, kind, number):
        listed.append(kind)
        return real(self, kind, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Api, "page", page)
        market = open_at(clean)
        for number in range(4):
            offer = Offer(f"k{number}", account="ann", items=(Item("t1"),), link=LINK)
            assert market.find(offer.key) is None
            assert market.publish(offer) == market.find(offer.key)
    assert sorted(listed) == ["batches", "projects"]


BOB = Stranger("bob", PASSWORD)


def test_its_walls_hold_and_what_was_tried_is_taken_back(clean):
    tried = list(open_at(clean).probe("ann", BOB, LINK))
    assert {one.wall for one in tried} == {Wall.BINDING, Wall.PREVIEW}
    assert len(tried) == 7  # the server's word, then three tries of each of two
    assert all(one.held for one in tried)
    assert [batch["active"] for batch in batches(clean)] == [False]


def test_a_batch_that_somebody_opened_to_all_is_told_by_the_try(clean):
    tries = open_at(clean).probe("ann", BOB, LINK)
    first = next(tries)
    with closing(sqlite3.connect(clean.database, timeout=20)) as store, store:
        for table in ("batch", "project"):
            store.execute(f"update turkle_{table} set custom_permissions = 0")
    told = [one.finding for one in tries if not one.held]
    assert first.held
    assert any("the other worker tries to accept" in one for one in told)
    assert any("the other worker tries to preview" in one for one in told)


def test_a_wrong_password_of_the_other_worker_is_told(clean):
    with pytest.raises(Misconfigured, match="log in"):
        list(open_at(clean).probe("ann", Stranger("bob", "wrong"), LINK))
    assert [batch["active"] for batch in batches(clean)] == [False]


def test_a_worker_with_a_name_out_of_the_ordinary_is_found(clean):
    offer = Offer("k1", account="ann.lee@lab", items=(Item("t1"),), link=LINK)
    assert open_at(clean).publish(offer)


def test_a_worker_that_turkle_does_not_know_is_rejected(clean):
    offer = Offer("k1", account="Ann", items=(Item("t1"),), link=LINK)
    with pytest.raises(Rejected, match="no active worker"):
        open_at(clean).publish(offer)
    assert not batches(clean)


def test_a_wrong_token_is_a_matter_of_the_set_up(clean):
    with pytest.raises(Misconfigured):
        open_at(clean, token="0" * 40).publish(offer_for(MANIFEST, "k1"))
    assert MANIFEST.content is Content.OURS
