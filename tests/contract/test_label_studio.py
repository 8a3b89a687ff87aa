"""The label-studio connector against a small server of our own."""

from __future__ import annotations

import pytest

from connectors.base import (
    Heeding,
    Inviting,
    Item,
    Misconfigured,
    Offer,
    Rejected,
    Settings,
    TryLater,
    Visit,
)
from connectors.http.client import Http
from connectors.label_studio import CONNECTOR
from connectors.label_studio.api import Api
from connectors.label_studio.market import HEADER
from connectors.testing.suite import NOW
from tests.contract.label_studio_server import PERSONAL, label_studio
from tests.contract.label_studio_suite import (
    LINK,
    Board,
    Outside,
    There,
    field_of,
    wrote,
)

OFFER = Offer("k1", account="ann", items=(Item("t1"),), link=LINK)
HOOK = "https://tasks.example.test/hooks/label-studio"


@pytest.fixture
def server():
    with label_studio() as world:
        yield world


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


def test_a_personal_access_token_buys_access_and_buys_anew_before_it_lapses(server):
    server.legacy = False
    seconds = [0.0]
    http = Http(private=["127.0.0.1"])
    api = Api(server.url, PERSONAL, http, clock=lambda: seconds[0])
    for moment, bought in ((0.0, 1), (149.0, 1), (151.0, 2), (300.0, 2), (302.0, 3)):
        seconds[0] = moment
        assert api.project("none") is None
        assert server.bought == bought
    api.close()
    assert all(
        "refresh" not in path or method == "POST" for method, path in server.asked
    )


def test_a_legacy_token_that_the_server_takes_no_more_is_a_matter_of_the_set_up(
    server, outside
):
    server.legacy = False
    with pytest.raises(Misconfigured):
        outside.open().publish(OFFER)
    assert not server.tasks


def test_a_personal_token_that_was_revoked_is_a_matter_of_the_set_up(server):
    api = Api(server.url, "a.b.c", Http(private=["127.0.0.1"]))
    with pytest.raises(Misconfigured):
        api.project("none")
    api.close()


def test_a_busy_server_is_asked_again_when_it_says(server, outside):
    server.before = lambda method, path: (429, {"retry-after": "7"})
    with pytest.raises(TryLater) as caught:
        outside.open().publish(OFFER)
    assert caught.value.after == 7.0


@pytest.mark.parametrize("status", [500, 502, 0])
def test_an_import_that_is_done_and_not_told_is_found_and_not_repeated(
    server, outside, status
):
    def after(method, path):
        if path.endswith("/import") and not done:
            done.append(path)
            return status, {}
        return None

    done: list[str] = []
    server.after = after
    with pytest.raises(TryLater):
        outside.open().publish(OFFER)
    handle = outside.open().find("k1")
    assert handle is not None
    assert outside.open().publish(OFFER) == handle
    assert len(server.tasks) == 1


def test_a_server_that_says_yes_and_does_nothing_is_found_out(server, outside):
    server.before = lambda method, path: (200, {}) if path.endswith("import") else None
    outside.open().publish(OFFER)
    server.before = lambda method, path: None
    assert outside.open().find("k1") is None


def test_what_is_no_label_studio_is_a_matter_of_the_set_up(server, outside):
    server.before = lambda method, path: (200, {})
    with pytest.raises(Misconfigured, match="Label Studio"):
        outside.open().find("k1")


def test_an_answer_of_ten_megabytes_is_set_aside_and_holds_up_no_other(server, outside):
    market = outside.open(content="there")
    items = tuple(field_of(f"t{number}") for number in range(3))
    market.publish(Offer("k1", audience="crowd", items=items))
    for token, value in (("t0", "seven"), ("t1", "x" * (10 << 20)), ("t2", "eight")):
        outside.write(token, value)
    found = market.collect("")
    assert [one.value for one in found.answers] == ["seven", "eight"]
    (strange,) = found.quarantined
    assert "too large" in strange.reason


def test_one_task_with_countless_annotations_holds_up_no_other(server, outside):
    market = outside.open(content="there")
    items = (field_of("t1"), field_of("t2"))
    market.publish(Offer("k1", audience="crowd", items=items))
    first = outside.live()[0]["id"]
    for number in range(500):
        server.annotate(first, {"result": [wrote(f"v{number}")]})
    outside.write("t2", "eight")
    server.asked.clear()
    found = market.collect("")
    assert [one.value for one in found.answers] == [
        *(f"v{number}" for number in range(20)),
        "eight",
    ]
    assert len(server.asked) < 30
    (strange,) = found.quarantined
    assert "more than 20" in strange.reason


def test_large_pictures_go_in_several_imports_and_are_one_offer(server, outside):
    market = outside.open(content="there")
    items = tuple(
        Item(f"t{n}", field_of().form, b"\x89PNG" + b"x" * 2_000_000, "image/png")
        for n in range(5)
    )
    market.publish(Offer("k1", audience="crowd", items=items))
    imports = [path for _, path in server.asked if path.endswith("/import")]
    assert len(imports) == 2  # three of 2.7 MB in base64 fit 8 MiB
    assert len(outside.live()) == 5
    assert market.find("k1") is not None


def test_more_changes_of_one_moment_than_fit_a_page_come_in_whole(server, outside):
    market = outside.open(content="there")
    for name in range(3):
        items = tuple(field_of(f"t{name}-{number}") for number in range(100))
        market.publish(Offer(f"k{name}", audience="crowd", items=items))
    for task in list(server.tasks):
        if server.tasks[task]["data"].get("task", "").endswith("7"):
            server.annotate(task, {"result": [wrote("seven")]})
    for task in server.tasks.values():
        task["updated_at"] = "2026-03-04T05:06:07Z"
    cursor, found = "", set()
    for _ in range(20):
        page = market.collect(cursor)
        found |= {one.id for one in page.answers}
        cursor = page.cursor
        if not page.more:
            break
    assert not page.more
    assert len(found) == 30


def test_a_change_that_was_committed_late_is_not_lost(server, outside):
    market = outside.open(content="there")
    market.publish(
        Offer("k1", audience="crowd", items=(field_of("t1"), field_of("t2")))
    )
    slow = outside.write("t1", "seven")
    server.pass_time(1)
    hidden = server.annotations.pop(slow)
    outside.write("t2", "eight")
    cursor = market.collect("").cursor
    server.annotations[slow] = hidden
    assert "seven" in [one.value for one in market.collect(cursor).answers]


def test_old_answers_are_not_told_for_ever(server, outside):
    market = outside.open(content="there")
    market.publish(
        Offer("k1", audience="crowd", items=(field_of("t1"), field_of("t2")))
    )
    outside.write("t1", "seven")
    server.pass_time(60)
    outside.write("t2", "eight")
    cursor = market.collect("").cursor
    assert [one.value for one in market.collect(cursor).answers] == ["eight"]


class TestCalls:
    @pytest.fixture
    def market(self, outside):
        made = outside.open(content="there", hook=HOOK)
        made.publish(Offer("k1", audience="crowd", items=(field_of(),)))
        return made

    def test_a_webhook_without_payload_is_left_there_once(
        self, server, market, outside
    ):
        for again in (market, market, outside.open(content="there", hook=HOOK)):
            again.collect("")
        (hook,) = server.webhooks
        assert (hook["url"], hook["send_payload"]) == (HOOK, False)
        assert outside.key.hex() not in str(hook)

    def test_a_call_with_the_word_is_a_hint_and_one_without_is_rejected(
        self, server, market
    ):
        market.collect("")
        word = server.webhooks[0]["headers"][HEADER]
        assert market.heed(Visit(headers={HEADER: word}), NOW)
        for headers in ({}, {HEADER: ""}, {HEADER: word[:-1]}, {HEADER: "é"}):
            with pytest.raises(Rejected):
                market.heed(Visit(headers=headers), NOW)

    def test_calls_of_one_second_are_one(self, server, market):
        market.collect("")
        visit = Visit(headers={HEADER: server.webhooks[0]["headers"][HEADER]})
        assert market.heed(visit, NOW) == market.heed(visit, NOW.replace(microsecond=9))
        assert market.heed(visit, NOW) != market.heed(visit, NOW.replace(second=59))

    def test_where_no_webhook_can_be_left_answers_are_asked_for(
        self, server, market, outside
    ):
        server.before = lambda method, path: (
            (403, {}) if path == "/api/webhooks/" else None
        )
        outside.write("t1", "seven")
        assert [one.value for one in market.collect("").answers] == ["seven"]


def test_a_kind_declares_by_its_settings_what_it_is(outside):
    here, there = outside.open(), outside.open(content="there")
    assert (here.manifest.content, here.manifest.binding) == ("ours", "late")
    assert (there.manifest.content, there.manifest.binding) == ("market", "none")
    assert isinstance(here, Inviting)
    assert not isinstance(here, Heeding)
    assert isinstance(there, Heeding)
    assert not isinstance(there, Inviting)
    with pytest.raises(Rejected):
        there.arrive(Visit({"token": "x"}), NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"content": "market"},
        {"project": "ab"},
        {"project": "x" * 25},
        {"hook": HOOK},
        {"hook": "https://tasks.example.test/", "content": "there"},
        {"url": "http://label.example.test"},
        {"token": "x"},
    ],
)
def test_wrong_settings_are_told_before_anything_is_asked(server, wrong):
    values = {"url": server.url, "allow_private": "127.0.0.1", **wrong}
    secret = f"word\n{'6b' * 32}\n".encode()
    with pytest.raises(Misconfigured):
        CONNECTOR.open(Settings(values, secret=secret))
    for bad in (b"word\n", b"word\nabcd", b"word\nxyz"):
        with pytest.raises(Misconfigured):
            CONNECTOR.open(Settings({"url": server.url}, secret=bad))
    assert not server.asked


@pytest.mark.parametrize("link", ["", "javascript:x"])
def test_an_offer_that_names_no_page_is_rejected(server, outside, link):
    with pytest.raises(Rejected, match="no task page"):
        outside.open().publish(
            Offer("k1", account="ann", items=(Item("t1"),), link=link)
        )
    assert not server.tasks


def test_what_is_neither_text_nor_picture_is_rejected(server, outside):
    market = outside.open(content="there")
    for content, kind in ((b"\xff\xfe", "text/plain"), (b"%PDF", "application/pdf")):
        item = Item("t1", field_of().form, content=content, media_type=kind)
        with pytest.raises(Rejected):
            market.publish(Offer("k1", audience="crowd", items=(item,)))
    assert not server.tasks
