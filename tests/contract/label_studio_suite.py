"""What holds of the label-studio connector, whichever server stands behind it.

A test file subclasses what is here and gives the fixture ``server``, which has a `url`
and a `token` that may do everything.
"""

from __future__ import annotations

import html
import json
import secrets
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from connectors.base import Form, Handle, Item, Offer, Outcome, Settings, Visit
from connectors.inhouse import Ticket, sign
from connectors.label_studio import CONNECTOR
from connectors.label_studio.api import Api
from connectors.testing.listing_suite import ListingContract
from connectors.testing.suite import CANARY, NOW, Bench, offer_for

LINK = "https://tasks.example.test/"
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Outside:
    """A server as its administrator sees it, and the part of it that is this test's."""

    url: str
    token: str
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    opened: list[Any] = field(default_factory=list)

    def open(self, **values: str) -> Any:
        secret = f"{self.token}\n{self.key.hex()}\n".encode()
        told = {"url": self.url, "allow_private": "127.0.0.1", **values}
        made = CONNECTOR.open(Settings(told, secret=secret))
        assert made.manifest == CONNECTOR.declared(told)
        self.opened.append(made)
        return made

    def ask(self, method: str, path: str, told: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/{path}",
            method=method,
            data=None if told is None else json.dumps(told).encode(),
            headers={
                "authorization": f"Token {self.token}",
                "content-type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def projects(self) -> dict[str, int]:
        """Ours by title: the word in a title is made of this test's key."""
        from connectors.tickets import opaque

        mark = opaque(self.key, "project")[:8]
        listed = self.ask("GET", "projects/?page_size=1000")["results"]
        return {p["title"]: p["id"] for p in listed if mark in p["title"]}

    def work(self) -> int:
        (number,) = [n for t, n in self.projects().items() if "closed" not in t]
        return number

    def tasks(self, project: int) -> list[dict[str, Any]]:
        path = f"tasks?project={project}&fields=all&page_size=1000"
        return self.ask("GET", path)["tasks"]

    def held(self) -> bytes:
        """All that lies there of ours, in any spelling."""
        every = [t for number in self.projects().values() for t in self.tasks(number)]
        text = json.dumps(every, ensure_ascii=False)
        return (text + html.unescape(text)).encode("utf-8", "replace")

    def live(self) -> list[dict[str, Any]]:
        """Tasks at which somebody could work."""
        return self.tasks(self.work())

    def remove(self, handle: Handle) -> None:
        """Delete the tasks of an offer, as an administrator may."""
        for task in self.live():
            if task["data"]["offer"] == handle.reference:
                self.ask("DELETE", f"tasks/{task['id']}/")

    def annotate(self, task: int, result: Any, **more: Any) -> int:
        told = {"result": result, **more}
        return self.ask("POST", f"tasks/{task}/annotations/", told)["id"]

    def write(self, token: str, value: str) -> int:
        """Answer a task by its text box."""
        (task,) = [t for t in self.live() if t["meta"].get("task") == token]
        return self.annotate(task["id"], [wrote(value)])


def wrote(value: str, name: str = "answer") -> dict[str, Any]:
    return {"from_name": name, "to_name": "shown", "type": "textarea",
            "value": {"text": [value]}}  # fmt: skip


def chose(value: str, name: str = "choice") -> dict[str, Any]:
    return {"from_name": name, "to_name": "shown", "type": "choices",
            "value": {"choices": [value]}}  # fmt: skip


@contextmanager
def answer_lost():
    """The tasks are imported, and we never hear of it."""
    real = Api.load

    def load(self, project, tasks):
        real(self, project, tasks)
        raise OSError("lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Api, "load", load)
        yield


def field_of(token: str = "t1", ask: str = "transcribe", **form: Any) -> Item:
    return Item(token, Form(ask, **form), content=CANARY.encode())


class Suite:
    """What both kinds share."""

    @pytest.fixture
    def outside(self, server):
        made = Outside(server.url, server.token)
        yield made
        while made.opened:
            made.opened.pop().close()


class Board(Suite, ListingContract):
    """Content stays home: the contract, and what lies at the server."""

    @pytest.fixture
    def bench(self, outside):
        def visit(account, now):
            ticket = Ticket(account, "t1", now + timedelta(hours=1))
            return Visit({"token": sign(outside.key, ticket)})

        good = visit("ann", NOW).parameters["token"]
        foreign = sign(b"o" * 32, Ticket("ann", "t1", NOW + timedelta(hours=1)))
        return Bench(
            open=outside.open,
            seen=lambda _: outside.held(),
            copies=lambda _: len(outside.live()),
            visit=visit,
            forged=[
                *(
                    Visit({"token": t})
                    for t in (foreign, good[:-1], good + "=", "v1..")
                ),
                Visit({"user": "ann", "email": "ann@example.test"}),
            ],
            crash_after_accept=answer_lost,
            remove=outside.remove,
        )

    def test_nothing_of_ours_lies_there_but_the_address_and_for_whom(self, outside):
        offer = Offer("key-51", account="ann <b>", items=(Item("task-9f3"),), link=LINK)
        outside.open().publish(offer)
        held = outside.held().decode()
        assert LINK in held
        assert "ann <b>" in held
        assert "<b>" not in outside.live()[0]["data"]["notice"]
        for secret in ("task-9f3", outside.key.hex(), "token="):
            assert secret not in held

    def test_a_notice_taken_down_is_deleted_and_never_put_up_again(self, outside):
        market = outside.open()
        offer = Offer("k1", account="ann", items=(Item("t1"),), link=LINK)
        handle = market.publish(offer)
        market.withdraw(handle)
        assert outside.live() == []
        assert market.publish(offer) == handle
        assert outside.live() == []

    def test_notices_and_fields_of_one_connector_share_no_project(self, outside):
        outside.open().publish(
            Offer("k1", account="ann", items=(Item("t1"),), link=LINK)
        )
        there = outside.open(content="there", project="x" * 24)
        handle = there.publish(Offer("k2", audience="crowd", items=(field_of(),)))
        there.withdraw(handle)
        titles = outside.projects()
        assert len(titles) == 3  # one of each, and what was withdrawn
        assert len(set(titles.values())) == 3

    def test_two_dispatchers_share_a_server_and_no_project(self, outside):
        other = Outside(outside.url, outside.token, opened=outside.opened)
        offer = Offer("k1", account="ann", items=(Item("t1"),), link=LINK)
        for one in (outside, other):
            one.open().publish(offer)
        assert other.open().find("k2") is None
        assert len(outside.live()) == len(other.live()) == 1
        assert outside.work() != other.work()


class There(Suite, ListingContract):
    """Content lies at the server: the contract, and how answers come back."""

    @pytest.fixture
    def bench(self, outside):
        return Bench(
            open=self.opener(outside),
            seen=lambda _: outside.held(),
            copies=lambda _: len(outside.live()) / 2,  # two tasks an offer
            answer=lambda handle, token, account, value: self.answer(
                outside, token, account, value
            ),
            crash_after_accept=answer_lost,
            remove=outside.remove,
        )

    def opener(self, outside):
        return lambda: outside.open(content="there")

    def answer(self, outside, token, account, value):
        if token == "never-offered":
            data = {
                "offer": "other",
                "shown": "",
                "question": "",
                "help": "",
                "choices": [],
            }
            meta = {"task": token, "account": account}
            told = [{"data": data, "meta": meta}]
            outside.ask("POST", f"projects/{outside.work()}/import", told)
        outside.write(token, value)

    @pytest.fixture
    def there(self, outside):
        return self.opener(outside)()

    def put_one(self, there, item):
        return there.publish(Offer("k1", audience="crowd", items=(item,)))

    def test_what_is_shown_can_not_become_part_of_the_page(self, there, outside):
        text = '</pre><script>x</script><img src=x onerror="x">$question'
        self.put_one(there, Item("t1", Form("transcribe"), content=text.encode()))
        shown = outside.live()[0]["data"]["shown"]
        assert "<script" not in shown
        assert "<img" not in shown
        assert text in html.unescape(shown)

    def test_a_picture_travels_inside_its_task(self, there, outside):
        item = Item("t1", Form("transcribe"), content=PNG, media_type="image/png")
        self.put_one(there, item)
        shown = outside.live()[0]["data"]["shown"]
        assert shown.startswith('<img alt="" src="data:image/png;base64,iVBORw0KGgo')

    @pytest.mark.parametrize(
        ("result", "outcome", "value"),
        [
            ([wrote("seven")], Outcome.ANSWERED, "seven"),
            ([chose("yes")], Outcome.ANSWERED, "yes"),
            ([chose("illegible", "mark")], Outcome.ILLEGIBLE, ""),
            ([chose("not present", "mark")], Outcome.NOT_PRESENT, ""),
        ],
    )
    def test_an_annotation_says_what_was_answered(
        self, there, outside, result, outcome, value
    ):
        self.put_one(there, field_of(ask="yes_no"))
        outside.annotate(outside.live()[0]["id"], result)
        (answer,) = there.collect("").answers
        assert (answer.token, answer.account) == ("t1", "crowd")
        assert (answer.outcome, answer.value) == (outcome, value)
        assert answer.given is not None

    def test_a_skipped_task_is_handed_back(self, there, outside):
        self.put_one(there, field_of())
        outside.annotate(outside.live()[0]["id"], [], was_cancelled=True)
        (answer,) = there.collect("").answers
        assert answer.outcome is Outcome.RETURNED

    @pytest.mark.parametrize(
        "result",
        [[], [wrote("a"), chose("b")], [wrote("a"), chose("illegible", "mark")]],
    )
    def test_what_says_nothing_or_two_things_is_set_aside(self, there, outside, result):
        self.put_one(there, field_of(ask="choose", choices=("a", "b")))
        outside.annotate(outside.live()[0]["id"], result)
        found = there.collect("")
        assert not found.answers
        (strange,) = found.quarantined
        assert strange.account == "crowd"
        assert "annotation" in strange.place

    def test_a_task_of_somebody_else_in_our_project_is_set_aside(self, there, outside):
        self.put_one(there, field_of())
        data = {"shown": "x", "question": "", "help": "", "choices": []}
        outside.ask("POST", f"projects/{outside.work()}/import", [{"data": data}])
        (foreign,) = [t for t in outside.live() if not t["meta"]]
        outside.annotate(foreign["id"], [wrote("seven")])
        (strange,) = there.collect("").quarantined
        assert strange.reason == "the task is none of ours"

    def test_two_annotations_of_one_task_are_two_answers(self, there, outside):
        self.put_one(there, field_of())
        for value in ("seven", "eight"):
            outside.write("t1", value)
        found = there.collect("").answers
        assert [one.value for one in found] == ["seven", "eight"]
        assert len({one.id for one in found}) == 2

    def test_an_annotation_that_is_changed_is_another_answer(self, there, outside):
        self.put_one(there, field_of())
        number = outside.write("t1", "seven")
        first = there.collect("")
        outside.ask("PATCH", f"annotations/{number}/", {"result": [wrote("eight")]})
        later = there.collect(first.cursor).answers
        assert "eight" in [one.value for one in later]
        assert first.answers[0].id not in [one.id for one in later]

    def test_a_withdrawn_task_with_an_answer_shows_nothing_and_is_collected(
        self, there, outside
    ):
        offer = Offer("k1", audience="crowd", items=(field_of("t1"), field_of("t2")))
        handle = there.publish(offer)
        outside.write("t1", "seven")
        there.withdraw(handle)
        assert CANARY.encode() not in outside.held()
        assert [t["meta"]["task"] for t in outside.live()] == ["t1"]
        (answer,) = there.collect("").answers
        assert (answer.token, answer.value) == ("t1", "seven")

    def test_what_is_forgotten_is_gone_with_its_answer(self, there, outside):
        offer = Offer("k1", audience="crowd", items=(field_of("t1"), field_of("t2")))
        there.publish(offer)
        outside.write("t1", "a-canary-answer")
        assert there.forget(["t1", "t9"]) == ()
        assert there.forget(["t1"]) == ()
        assert b"a-canary-answer" not in outside.held()
        assert [t["meta"]["task"] for t in outside.live()] == ["t2"]

    def test_an_import_that_broke_off_is_finished_and_nothing_doubled(
        self, there, outside
    ):
        offer = Offer("k1", audience="crowd", items=(field_of("t1"), field_of("t2")))
        there.publish(offer)
        lost = next(t for t in outside.live() if t["meta"]["task"] == "t2")
        outside.ask("DELETE", f"tasks/{lost['id']}/")
        assert there.find("k1") is None
        there.publish(offer)
        assert sorted(t["meta"]["task"] for t in outside.live()) == ["t1", "t2"]
        assert there.find("k1") is not None

    def test_more_than_a_page_of_tasks_and_answers_comes_in_whole(self, there, outside):
        items = tuple(field_of(f"t{number}") for number in range(100))
        for name in ("k1", "k2"):
            there.publish(Offer(name, audience="crowd", items=items))
        tasks = outside.live()
        assert len(tasks) == 200
        for task in tasks[::29]:
            outside.annotate(task["id"], [wrote("seven")])
        cursor, found = "", []
        for _ in range(20):
            page = there.collect(cursor)
            found += page.answers
            cursor = page.cursor
            if not page.more:
                break
        assert len({one.id for one in found}) == len(tasks[::29])
        listed, cursor = [], ""
        for _ in range(9):
            told = there.listing(cursor)
            listed += [one.key for one in told.posted]
            cursor = told.cursor
            if not cursor:
                break
        assert sorted(listed) == ["k1", "k2"]
        assert there.find("k2") is not None

    def test_what_is_deleted_while_it_is_listed_moves_nothing_out_of_sight(
        self, there, outside
    ):
        items = tuple(field_of(f"t{number}") for number in range(100))
        for name in ("k1", "k2"):
            there.publish(Offer(name, audience="crowd", items=items))
        there.publish(Offer("k3", audience="crowd", items=(field_of("last"),)))
        first = there.listing("")
        assert [one.key for one in first.posted] == ["k1"]
        there.withdraw(Handle("k1", "offer-k1"))
        second = there.listing(first.cursor)
        assert [one.key for one in second.posted] == ["k2"]
        assert [one.key for one in there.listing(second.cursor).posted] == ["k3"]

    def test_what_is_answered_is_not_listed_as_open(self, there, outside):
        self.put_one(there, field_of())
        assert [one.open for one in there.listing("").posted] == [True]
        outside.write("t1", "seven")
        assert [one.open for one in there.listing("").posted] == [False]

    @pytest.mark.parametrize(
        "meta", [{}, {"of": "x", "task": ["t1"], "account": 3, "key": 7}, {"key": "\n"}]
    )
    def test_what_users_write_into_a_task_breaks_nothing(self, there, outside, meta):
        offer = Offer("k1", audience="crowd", items=(field_of("t1"), field_of("t2")))
        there.publish(offer)
        outside.write("t1", "seven")
        outside.write("t2", "eight")
        (task,) = [t for t in outside.live() if t["meta"]["task"] == "t1"]
        outside.ask("PATCH", f"tasks/{task['id']}/", {"meta": meta})
        found = there.collect("")
        assert [one.value for one in found.answers] == ["eight"]
        assert len(found.quarantined) == 1
        assert [one.key for one in there.listing("").posted] == ["k1"]
        assert there.find("k1") is not None
        there.publish(offer)
        there.withdraw(Handle("k1", "offer-k1"))
        assert CANARY.encode() not in outside.held()

    def test_the_project_gone_with_all_it_held_is_made_anew(self, there, outside):
        self.put_one(there, field_of())
        outside.ask("DELETE", f"projects/{outside.work()}/")
        assert there.find("k1") is None
        assert there.collect("").answers == ()
        self.put_one(there, field_of())
        assert len(outside.live()) == 1


__all__ = [
    "LINK",
    "Board",
    "Outside",
    "There",
    "field_of",
    "offer_for",
    "wrote",
]
