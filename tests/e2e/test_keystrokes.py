"""A session of tasks by keyboard alone takes no more keys than a bare HTML form.

``SPARSI_TASKS=50 pytest -s tests/e2e/test_keystrokes.py`` is the long form.
"""

import html
import os
import time

import pytest
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests.e2e.browsing import Served, keys_work, moved_on
from tests.e2e.test_taskpage_browser import Running
from tests.integration.serving_house import House

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TASKS = int(os.environ.get("SPARSI_TASKS", "10"))
CHOICES = ("flu", "gout", "mumps")
SHOWN = {
    "name": [f"Person {n} of {n + 3}" for n in range(9)],
    "disease": list(CHOICES),
    "age": [str(n) for n in range(20, 80, 7)],
    "born": [f"{n:02}.03.1971" for n in range(1, 28)],
    "ok": ["yes", "no"],
}


def drawn(count: int) -> list[tuple[str, str]]:
    """Field and value of so many tasks, the fields in turn."""
    fields = list(SHOWN)
    kinds = [fields[n % len(fields)] for n in range(count)]
    return [(kind, SHOWN[kind][n % len(SHOWN[kind])]) for n, kind in enumerate(kinds)]


class Hand:
    """A hand at the keyboard that counts."""

    def __init__(self, page: Page) -> None:
        self.page, self.keys = page, 0

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.keys += len(text)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.keys += key.count("+") + 1


def bare_form(tasks: list[tuple[str, str]]) -> Starlette:
    """Ask the same in a form as HTML has it: a box or a list, and a button."""

    async def ask(request: Request) -> HTMLResponse:
        number = int(request.path_params.get("number", 0))
        if number == len(tasks):
            return HTMLResponse("<title>done</title>")
        field, shown = tasks[number]
        options = {"disease": CHOICES, "ok": ("yes", "no")}.get(field, ())
        boxes = "".join(
            f"<label><input type=radio name=a value={option}{' autofocus' * (not n)}>{option}</label>"
            for n, option in enumerate(options)
        )
        box = boxes or "<input name=a autofocus>"
        return HTMLResponse(
            f"<!doctype html><title>{number}</title><p>{html.escape(shown)}</p>"
            f"<form method=post action=/{number + 1}>{box}<button>Submit</button></form>"
        )

    return Starlette(
        routes=[
            Route("/", ask, methods=["GET"]),
            Route("/{number:int}", ask, methods=["POST"]),
        ]
    )


def by_the_form(page: Page, tasks: list[tuple[str, str]]) -> int:
    served = Served(bare_form(tasks))
    try:
        page.goto(served.base)
        hand = Hand(page)
        for number, (field, shown) in enumerate(tasks):
            expect(page).to_have_title(str(number))
            expect(page.locator("input").first).to_be_focused()
            options = {"disease": CHOICES, "ok": ("yes", "no")}.get(field, ())
            if options:
                place = options.index(shown)
                hand.press(*(["ArrowDown"] * place or ["Space"]))
            else:
                hand.type(shown)
            hand.press("Enter")
        expect(page).to_have_title("done")
    finally:
        served.stop()
    return hand.keys


def by_the_page(page: Page, house: House, tasks: list[tuple[str, str]]) -> int:
    entries = [
        house.record(number, **{field: shown})[field]
        for number, (field, shown) in enumerate(tasks, start=1)
    ]
    house.plan((house.account("ann"), entries))
    running = Running(house, gold=0)
    try:
        page.goto(running.link("ann"))
        page.locator("[data-page=ready] button.main").click()
        hand = Hand(page)
        for _ in tasks:
            keys_work(page)
            expect(page.locator(".answer:focus, .answer :focus")).to_have_count(1)
            shown = page.locator("#text").inner_text()
            if page.locator("#choices").count():
                labels = page.locator(".choice input").evaluate_all(
                    "(boxes) => boxes.map((box) => box.value)"
                )
                hand.press(str(labels.index(shown) + 1))
            else:
                hand.type(shown)
            with moved_on(page):
                hand.press("Enter")
        expect(page.locator("[data-page=nothing]")).to_be_visible()
    finally:
        running.stop()
    return hand.keys


def test_a_session_takes_at_most_one_key_a_task_more_than_a_bare_form(
    sqlite_store, clock, open_page
):
    tasks, counted = drawn(TASKS), {}
    house = House(sqlite_store, clock)
    ways = {
        "form": lambda page: by_the_form(page, tasks),
        "page": lambda page: by_the_page(page, house, tasks),
    }
    for name, work in ways.items():
        began = time.perf_counter()
        counted[name] = work(open_page())
        seconds = time.perf_counter() - began
        print(f"{name}: {TASKS} tasks, {counted[name]} keys, {seconds:.1f} s")
    assert house.count("answer") == TASKS
    assert counted["page"] <= counted["form"] + TASKS
