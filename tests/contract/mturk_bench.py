"""What tests of the mturk connector share: a server, markets opened at it, workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from urllib.parse import parse_qsl, urlsplit

from connectors.base import (
    Handle,
    Item,
    Money,
    Offer,
    Pay,
    PayKind,
    Settings,
    Submission,
    Visit,
)
from connectors.mturk import CONNECTOR, Mturk
from tests.contract.mturk_server import KEY, KEY_ID
from tests.contract.mturk_server import Mturk as Server
from tests.contract.mturk_states import Taking

PAGE = "https://tasks.example.test"
WORKER = "A1ANNWORKER"
SECRET = f"{KEY_ID}\n{KEY}\n{(b'k' * 32).hex()}\n".encode()
REWARD = Money(Decimal("1.20"), "USD")
OPENED: list[Mturk] = []


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


def accept(server: Server, handle: Handle, account: str = WORKER) -> Taking:
    return server.accept(account, server.hits[handle.reference])


def receipt(server: Server, taken: Taking) -> str:
    """What the form in the frame carries."""
    return visit_of(server.link(taken)).parameters["o"]


def hand_in(server: Server, taken: Taking) -> None:
    server.submit(taken, o=receipt(server, taken))


def pay_for(
    piece: Submission,
    kind: PayKind = PayKind.REWARD,
    money: Money = REWARD,
    key: str = "p1",
) -> Pay:
    return Pay(key, kind, piece.id, piece.reference, piece.account, money)


@contextmanager
def responding(server: Server, change) -> Iterator[None]:
    """Answer calls by `change(target, request, respond)` for a while."""
    respond = server.receiver.respond

    def changed(request):
        target = request.headers.get("x-amz-target", "").partition(".")[2]
        return change(target, request, respond)

    server.receiver.respond = changed
    try:
        yield
    finally:
        server.receiver.respond = respond
