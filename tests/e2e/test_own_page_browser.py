"""Tests, gold and the worker's own page in a real Chromium."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from dispatcher.store import Store
from tests.e2e.browsing import moved_on, ready
from tests.e2e.test_taskpage_browser import Running, kind
from tests.integration.serving_house import House

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def house(sqlite_store: Store, clock) -> House:
    return House(sqlite_store, clock)


@pytest.fixture
def running(house) -> Iterator[Running]:
    served = Running(house, gold=0.5)
    yield served
    served.stop()


def planned(house: House, records: int) -> None:
    entries = [house.record(n, name=f"Real {n}")["name"] for n in range(1, records + 1)]
    house.plan((house.account("ann"), entries))


def arrive(page: Page, running: Running) -> None:
    page.goto(running.link("ann"))
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-page=task]")).to_be_visible()


def type_answer(page: Page, text: str) -> None:
    ready(page)
    with moved_on(page):
        page.keyboard.type(text)
        page.keyboard.press("Enter")


def test_a_test_says_that_it_is_one_and_the_real_field_follows(running, house, page):
    planned(house, 1)
    house.test_of(1.0, ("Jo Doe", "Jo Doe"), ("Al Roe", "Al Roe"))
    arrive(page, running)
    for text in ("Jo Doe", "Al Roe"):
        expect(page.locator("#notice")).to_contain_text("question of a test")
        expect(page.locator("#text")).to_have_text(text)
        type_answer(page, text)
    expect(page.locator("#notice")).to_have_count(0)
    expect(page.locator("#text")).to_have_text("Real 1")
    assert house.exposures() == 1


def test_nothing_on_the_page_tells_gold_from_a_real_field(running, house, page):
    """The whole document, but for what is shown, opaque names, nonce and clocks.

    How many tasks were done grows by one for each task, whatever it was.
    """
    planned(house, 12)
    house.made_up("gold", *((f"Gold {n}", f"Gold {n}") for n in range(12)))
    arrive(page, running)
    documents, paces = {}, []
    for _ in range(8):
        ready(page)
        pace = page.locator("ul.pace")
        paces.append(pace.all_inner_texts()[0] if pace.count() else "")
        shown = page.locator("#text").inner_text()
        documents.setdefault(shown.split()[0], set()).add(
            page.evaluate(
                """() => {
                  const copy = document.documentElement.cloneNode(true);
                  const task = copy.querySelector("#task");
                  const token = task.dataset.token;
                  task.dataset.draft = "x".repeat(task.dataset.draft.length);
                  copy.querySelector("#text").textContent = "";
                  for (const part of copy.querySelectorAll("#clock, #saved, .pace, #undo")) part.remove();
                  for (const part of copy.querySelectorAll("[nonce]")) part.removeAttribute("nonce");
                  const text = copy.outerHTML.replaceAll(token, "x".repeat(token.length));
                  return text.replaceAll(/\\s*\\n\\s*/g, "\\n");
                }"""
            )
        )
        type_answer(page, "x")
    assert set(documents) == {"Gold", "Real"}
    assert len(set.union(*documents.values())) == 1
    done = [int(found[0]) if (found := re.findall(r"\d+", one)) else 0 for one in paces]
    assert done == list(range(8))


def test_the_own_page_shows_counts_and_leaving_ends_it(running, house, page):
    planned(house, 1)
    arrive(page, running)
    ready(page)
    page.keyboard.type("Ada Lovelace")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    page.get_by_role("link", name="Your work").click()
    expect(page.locator("[data-page=me]")).to_be_visible()
    assert page.url == running.base + "/me"
    assert page.title() == "Your work"
    expect(page.locator("#done tbody tr")).to_have_count(1)
    expect(page.locator("#done")).to_contain_text("texts")
    assert "Ada Lovelace" not in page.content()
    assert "Real 1" not in page.content()

    page.get_by_role("button", name="Leave", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    expect(page).to_have_url(running.base + "/me")
    page.get_by_label("I want to leave for good").check()
    page.get_by_role("button", name="Leave", exact=True).click()
    expect(page.get_by_role("heading", name="You have left")).to_be_visible()
    assert house.ask("SELECT state FROM account") == "left"
    page.goto(running.base)
    assert kind(page) == "arrive"


@pytest.mark.parametrize("width", [320, 1280])
def test_the_own_page_fits_any_width_and_keys_reach_all_of_it(
    running, house, page, width
):
    planned(house, 1)
    page.set_viewport_size({"width": width, "height": 640})
    page.goto(running.link("ann"))
    page.get_by_role("link", name="Your work").click()
    expect(page.locator("[data-page=me]")).to_be_visible()
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0
    page.locator("#waiting a").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_label("I want to leave for good")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.get_by_label("I want to leave for good")).to_be_checked()
    page.keyboard.press("Tab")
    expect(page.locator("#leave-for-good")).to_be_focused()
