"""The mturk connector: real boto3 against an emulator of our own, over real HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from urllib.parse import parse_qsl, urlsplit

import pytest

import connectors.mturk.api
from connectors.base import (
    Handle,
    Item,
    Money,
    Offer,
    Settings,
    Visit,
)
from connectors.contract import NOW, Bench
from connectors.listing_contract import ListingContract
from connectors.mturk import CONNECTOR, Mturk
from connectors.pay_contract import PayingContract
from tests.contract.mturk_server import KEY, KEY_ID, mturk_server
from tests.contract.mturk_server import Mturk as Server

PAGE = "https://tasks.example.test"
WORKER = "A1ANNWORKER"
SECRET = f"{KEY_ID}\n{KEY}\n{(b'k' * 32).hex()}\n".encode()
REWARD = Money(Decimal("1.20"), "USD")
OPENED: list[Mturk] = []


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(connectors.mturk.api, "_FIRST_WAIT", 0.001)


@pytest.fixture
def server(clock) -> Iterator[Server]:
    with mturk_server(clock) as running:
        yield running
        while OPENED:
            OPENED.pop().close()


def values(server: Server, **more: str) -> dict[str, str]:
    return {"url": server.url, "page": f"{PAGE}/from/mturk", "per_second": "1000",
            "allow_private": "127.0.0.1", **more}  # fmt: skip


def open_at(server: Server, secret: bytes = SECRET, **more: str) -> Mturk:
    market = CONNECTOR.open(Settings(values(server, **more), secret=secret))
    assert isinstance(market, Mturk)
    OPENED.append(market)
    return market


def offer(key: str = "k1", account: str = WORKER) -> Offer:
    return Offer(key, account=account, items=(Item("task-1"),), link=f"{PAGE}/",
                 reward=REWARD)  # fmt: skip


def visit_of(link: str) -> Visit:
    return Visit(dict(parse_qsl(urlsplit(link).query)))


def forged(server: Server) -> list[Visit]:
    """Visits that must be refused, each for one reason."""
    market = open_at(server)
    other = server.hits[market.publish(offer("of-bob", "A2BOBWORKER")).reference]
    bobs = visit_of(server.link(server.accept("A2BOBWORKER", other))).parameters
    mine = server.hits[market.publish(offer("forged")).reference]
    good = visit_of(server.link(server.accept(WORKER, mine))).parameters
    return [
        Visit({**good, **wrong})
        for wrong in (
            {"workerId": "A2BOBWORKER"},
            {"workerId": ""},
            {"hitId": bobs["hitId"]},
            {"hitId": "3NOSUCHHIT"},
            {"hitId": "../x"},
            {"o": bobs["o"]},
            {"k": bobs["k"]},
            {"k": ""},
            {"k": "💥"},
            {"assignmentId": bobs["assignmentId"], "hitId": bobs["hitId"]},
            {"assignmentId": "💥"},
        )
    ]


class TestMturk(PayingContract, ListingContract):
    reward = REWARD

    @pytest.fixture
    def bench(self, server: Server) -> Bench:
        server.any_worker = True  # the suite's accounts are spelt as none of MTurk's
        numbers = itertools.count()

        def taken(handle: Handle, account: str):
            return server.accept(account, server.hits[handle.reference])

        def visit(account, now):
            assert now == server.now
            made = open_at(server).publish(offer(f"v{next(numbers)}", account))
            return visit_of(server.link(taken(made, account)))

        def submit(handle, account):
            one = taken(handle, account)
            server.submit(one, o=visit_of(server.link(one)).parameters["o"])

        @contextmanager
        def answers_lost(*names):
            """It is done, and we never hear of it."""
            respond = server.receiver.respond

            def cut(request):
                told = respond(request)
                target = request.headers.get("x-amz-target", "")
                return None if target.endswith(names) else told

            server.receiver.respond = cut
            try:
                yield
            finally:
                server.receiver.respond = respond

        return Bench(
            open=lambda: open_at(server),
            seen=lambda _: server.held(),
            copies=lambda _: len(server.hits),
            visit=visit,
            crash_after_accept=lambda: answers_lost(".CreateHITWithHITType"),
            submit=submit,
            give_up=lambda handle, account: server.give_back(taken(handle, account)),
            payments=lambda account: [
                amount for _, who, amount in server.paid if who == account
            ],
            lose_the_answer=lambda: answers_lost(
                ".ApproveAssignment", ".SendBonus", ".GetAssignment"
            ),
        )
