"""A worker of Mechanical Turk in a real Chromium: the frame, the window, the way back."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from connectors.base import Item, Money, Offer, Settings
from connectors.mturk import CONNECTOR
from dispatcher.stages.serving import ServingTerms
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests.contract.mturk_bench import SECRET
from tests.contract.mturk_server import mturk_server
from tests.e2e.browsing import Served, ready
from tests.integration.serving_house import House

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ANN = "A1ANNWORKER"
SANDBOX = (
    "allow-same-origin allow-scripts allow-forms allow-modals allow-popups "
    "allow-popups-to-escape-sandbox"
)


class Elsewhere:
    """An application that is put in when its address is known."""

    def __init__(self) -> None:
        self.app = None

    async def __call__(self, scope, receive, send) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)


@pytest.fixture
def server(clock):
    with mturk_server(lambda: datetime.fromtimestamp(clock() / 1e6, UTC)) as running:
        respond = running.receiver.respond

        def framing(request):
            """MTurk's own page, which frames what the address says."""
            if not request.path.startswith("/frame?"):
                return respond(request)
            src = parse_qs(urlsplit(request.path).query)["src"][0]
            page = f'<iframe sandbox="{SANDBOX}" src="{escape(src)}"></iframe>'
            headers = {"content-type": "text/html", "set-cookie": f"worker={ANN}"}
            return 200, headers, page.encode()

        running.receiver.respond = framing
        yield running


@pytest.fixture
def house(sqlite_store, clock):
    house = House(sqlite_store, clock)
    house.plan(
        (house.account(ANN, "mturk"), [house.record(1, name="Ada Lovelace")["name"]])
    )
    return house


@pytest.fixture
def market(house, server):
    place = Elsewhere()
    served = Served(place)
    values = {"url": server.url, "page": f"{served.base}/from/mturk",
              "allow_private": "127.0.0.1"}  # fmt: skip
    opened = CONNECTOR.open(Settings(values, secret=SECRET))
    place.app = task_app(
        house.store,
        {"mturk": opened},
        clock=house.clock,
        rng=np.random.default_rng(5),
        terms=ServingTerms(apart=0),
        settings=PageSettings(neutral=0),
    )
    reward = Money(Decimal("0.50"), "USD")
    opened.publish(Offer("k1", account=ANN, items=(Item("t"),), link=served.base,
                         reward=reward))  # fmt: skip
    yield opened
    served.stop()
    opened.close()


def framed(page, server, address: str):
    """Open MTurk's page with an address in its frame."""
    page.goto(f"{server.url}/frame?src={address.replace('&', '%26')}")
    return page.frame_locator("iframe")


def test_from_the_frame_to_a_window_and_back_to_hand_in(house, market, server, page):
    (hit,) = server.visible(ANN)
    taken = server.accept(ANN, hit)
    frame = framed(page, server, server.link(taken))
    expect(frame.locator("[data-page=notice]")).to_be_visible()
    with page.expect_popup() as opened:
        frame.get_by_role("link", name="Open the task page").click()
    window = opened.value
    window.get_by_role("button", name="Start").click()
    expect(window.locator("#text")).to_contain_text("Ada Lovelace")
    ready(window)
    window.keyboard.type("Ada Lovelace")
    window.keyboard.press("Enter")
    expect(window.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada Lovelace"
    assert "Ada Lovelace" not in page.content()
    with page.expect_response("**/mturk/externalSubmit") as told:
        frame.get_by_role("button", name="I am done").click()
    assert told.value.status == 200
    assert taken.status == "Submitted"
    assert "Ada Lovelace" not in taken.answer


def test_a_preview_in_the_frame_leads_nowhere(market, server, page):
    (hit,) = server.visible(ANN)
    frame = framed(page, server, server.preview(ANN, hit))
    expect(frame.locator("[data-page=notice]")).to_contain_text("preview")
    expect(frame.locator("a, button")).to_have_count(1)  # the way past the heading


def test_who_waits_is_let_in_without_a_press(market, server, page):
    (hit,) = server.visible(ANN)
    taken = server.accept(ANN, hit)
    taken.status = "Returned"  # as before MTurk's own servers agree
    page.goto(server.link(taken).replace("/notice?", "?"))
    expect(page.locator("[data-page=wait]")).to_be_visible()
    taken.status = "Accepted"
    expect(page.locator("[data-page=ready]")).to_be_visible()


def test_nothing_but_the_notice_can_be_framed(market, server, open_page):
    (hit,) = server.visible(ANN)
    address = server.link(server.accept(ANN, hit)).replace("/notice?", "?")
    page = open_page()
    reasons = re.compile("frame-ancestors|X-Frame-Options")
    with page.expect_console_message(lambda told: bool(reasons.search(told.text))):
        framed(page, server, address)
