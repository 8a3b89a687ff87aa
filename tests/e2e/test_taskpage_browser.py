"""The task page in a real Chromium: keys, drafts, the clock, and nothing that leaks."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, Request, expect

from dispatcher.identity import invite_link
from dispatcher.stages.serving import Terms
from dispatcher.store import Store
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests.e2e.browsing import Served, keys_work, late_script, ready
from tests.e2e.programs import until
from tests.integration.serving_house import House, png

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Running(Served):
    """The page on a port of its own, over a store that a test fills."""

    def __init__(self, house: House, *, late: float = 0, **terms: float) -> None:
        self.house = house
        app = task_app(
            house.store,
            {"inhouse": house.market()},
            clock=house.clock,
            rng=np.random.default_rng(5),
            terms=Terms(**{"apart": 0, **terms}),
            settings=PageSettings(neutral=0),
        )
        super().__init__(late_script(app, late) if late else app)

    def link(self, name: str) -> str:
        return invite_link(self.base, self.house.invite(name))


@pytest.fixture
def house(sqlite_store: Store, clock) -> House:
    return House(sqlite_store, clock)


@pytest.fixture
def running(house) -> Iterator[Running]:
    served = Running(house)
    yield served
    served.stop()


def fill(house: House, **values: object) -> None:
    """One record for each value, all planned for ann."""
    entries = [
        house.record(number, **{name: value})[name]
        for number, (name, value) in enumerate(values.items(), start=1)
    ]
    house.plan((house.account("ann"), entries))


def kind(page: Page) -> str:
    return page.locator("[data-page]").get_attribute("data-page")


def start(page: Page, running: Running) -> None:
    """Arrive and press Start; the task is there, and keys go to it."""
    page.goto(running.link("ann"))
    page.get_by_role("button", name="Start").click()
    keys_work(page)
    expect(page.locator(".answer:focus, .answer :focus")).to_have_count(1)


def drafted(page: Page, house: House, text: bytes) -> None:
    """Wait until all that was typed is saved, not only its first letters."""
    until(lambda: house.ask("SELECT draft FROM task") == text, "the draft is saved")
    expect(page.locator("#saved")).to_contain_text("Saved")


def test_a_whole_task_by_keyboard_alone(running, house, page):
    fill(house, scan=png(1))
    page.goto(running.link("ann"))
    expect(page.locator("[data-page=ready]")).to_be_visible()
    assert page.url == running.base + "/"
    expect(page.get_by_role("button", name="Start")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=task]")).to_be_visible()
    ready(page)
    assert page.title() == "Task"
    assert page.url == running.base + "/"
    expect(page.locator("#crop")).to_have_js_property("naturalWidth", 240)

    page.keyboard.type("Ada")
    drafted(page, house, b"Ada")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"


def test_a_link_put_into_the_tab_that_asks_for_one_arrives(running, house, page):
    fill(house, name="Ada")
    page.goto(running.base)
    page.goto(running.link("ann"))  # another fragment only: nothing is loaded
    expect(page.locator("[data-page=ready]")).to_be_visible()


def test_choosing_by_digit_and_submitting_with_enter(running, house, page):
    fill(house, disease="flu")
    start(page, running)
    page.keyboard.press("2")
    expect(page.get_by_role("radio", name="gout")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"gout"


@pytest.fixture
def slow(house) -> Iterator[Running]:
    served = Running(house, late=1.5)
    yield served
    served.stop()


def test_keys_are_pressed_when_a_script_that_comes_late_has_come(slow, house, page):
    """Else every test that presses one is red now and then, where the machine is slow."""
    fill(house, disease="flu")
    start(page, slow)
    page.keyboard.press("2")
    expect(page.get_by_role("radio", name="gout")).to_be_checked()


@pytest.mark.parametrize(
    ("key", "raw"), [("i", b"[illegible]"), ("n", b"[not_present]")]
)
def test_marks_by_one_key_outside_the_box(running, house, page, key, raw):
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.press(key)  # in the box it is a letter
    expect(page.locator("#answer")).to_have_value(key)
    page.keyboard.press("Escape")
    page.keyboard.press(key)
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == raw


def test_a_marked_passage_becomes_a_line_and_then_a_range(running, house, page):
    fill(house, parts="aspirin and zinc")
    start(page, running)
    page.locator("#text").dblclick(position={"x": 30, "y": 30})  # the first word
    page.get_by_role("button", name="Add what is marked above").click()
    expect(page.locator("#answer")).to_have_value("aspirin\n")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT normal FROM answer")) == b"[[0, 7]]"


def test_enter_in_a_table_goes_to_the_next_cell(running, house, page):
    fill(house, lines="zinc 2")
    start(page, running)
    page.keyboard.type("zinc")
    page.keyboard.press("Enter")
    page.keyboard.type("2")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT normal FROM answer")) == b'[["zinc", "2"]]'


def test_the_instruction_and_the_made_up_example_stand_by_the_box(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    expect(
        page.get_by_label("Type exactly what you see")
    ).to_have_accessible_description("As it is written")
    shown = page.get_by_text("Dr Jo Doe")
    expect(shown).to_be_hidden()
    page.get_by_text("Example, made up").click()
    expect(shown).to_be_visible()
    expect(page.get_by_text("You answer")).to_be_visible()
    page.keyboard.press("i")  # still a key of the page
    expect(page.locator("[data-page=nothing]")).to_be_visible()


def test_skipping_by_key_hands_the_task_back(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.press("Control+Space")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert house.ask("SELECT state FROM task") == "returned"


def test_zoom_and_the_list_of_keys(running, house, page):
    fill(house, scan=png(1))
    start(page, running)
    expect(page.locator("#crop")).to_have_js_property("naturalWidth", 240)
    page.keyboard.press("Escape")
    page.keyboard.press("+")
    page.keyboard.press("+")
    expect(page.locator("#zoom")).to_have_text("200 %")
    wide = page.evaluate("document.querySelector('#crop').clientWidth")
    assert wide >= 2 * page.evaluate("document.querySelector('#view').clientWidth") - 8
    page.keyboard.press("0")
    expect(page.locator("#zoom")).to_have_text("100 %")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("i")  # means nothing while the list is open
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    assert house.count("answer") == 0


def test_a_reload_shows_nothing_until_continue_and_then_the_draft(running, house, page):
    fill(house, name="Ada Lovelace")
    start(page, running)
    page.keyboard.type("Ad")
    drafted(page, house, b"Ad")
    page.reload()
    assert kind(page) == "ready"
    assert "Ada Lovelace" not in page.content()
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#answer")).to_have_value("Ad")
    assert house.exposures() == 1


def test_more_time_by_a_button_that_does_not_leave_the_page(
    running, house, page, clock
):
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.type("Ad")
    drafted(page, house, b"Ad")
    clock.advance(300)
    page.get_by_role("button", name="Need more time").click()
    expect(page.locator("#saved")).to_have_text("You have more time.")
    expect(page.locator("#answer")).to_have_value("Ad")
    left = house.ask("SELECT leased_until FROM task") - clock()
    assert left == 600_000_000


def test_lost_connections_are_told_and_the_draft_is_tried_again(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.route("**/draft", lambda route: route.fulfill(status=503))
    page.keyboard.type("Ad")
    expect(page.locator("#saved")).to_contain_text("Not saved")
    page.unroute("**/draft")
    drafted(page, house, b"Ad")


def test_a_wrong_answer_is_announced_and_the_box_keeps_it(running, house, page):
    fill(house, age="36")
    start(page, running)
    page.keyboard.type("999")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("#answer")).to_have_value("999")
    assert page.locator("#answer").get_attribute("aria-invalid") == "true"


def test_without_scripts_the_flow_works(running, house, open_page):
    fill(house, name="Ada")
    page = open_page(java_script_enabled=False)
    page.goto(running.base)
    page.get_by_label("Invitation link or code").fill(running.link("ann"))
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").click()
    assert page.locator("#text").inner_text() == "Ada"
    assert page.locator("#keys-open").is_hidden()
    page.locator("#answer").fill("Ada")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert house.count("answer") == 1


@pytest.mark.parametrize("width", [320, 1280])
def test_no_width_needs_sideways_scrolling_and_targets_are_big_enough(
    running, house, open_page, width
):
    fill(house, name="W" * 300, disease="flu", lines="x", scan=png(1, (2400, 60)))
    page = open_page(viewport={"width": width, "height": 700})
    start(page, running)
    for _ in range(4):
        over = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert over <= 0
        small = page.evaluate(
            """[...document.querySelectorAll('button, textarea, .choice, .grid input')]
            .filter((node) => node.checkVisibility() && !node.closest('dialog'))
            .map((node) => [node.outerHTML.slice(0, 80), node.getBoundingClientRect()])
            .filter(([, box]) => box.height < 44 || box.width < 44)
            .map(([text]) => text)"""
        )
        assert small == []
        with page.expect_navigation():
            page.locator("[value=illegible]").click()
    assert kind(page) == "nothing"


def test_twenty_secrets_leave_no_trace_but_on_the_screen(
    running, house, page, capsys, caplog
):
    secrets = [f"canary-{number:02}-zebra" for number in range(20)]
    entries = [
        house.record(number, name=secret)["name"]
        for number, secret in enumerate(secrets, start=1)
    ]
    house.plan((house.account("ann"), entries))
    told: list[str] = []
    shown: list[str] = []
    exchanges: list[Request] = []
    # The library takes Python functions only.
    page.on("requestfinished", lambda sent: exchanges.append(sent))  # noqa: PLW0108
    start(page, running)
    for _ in secrets:
        text = page.locator("#text").inner_text()
        shown.append(text)
        told += [page.title(), page.url]
        told.append(
            page.evaluate(
                """async () => JSON.stringify([
                    {...localStorage}, {...sessionStorage}, document.cookie,
                    await indexedDB.databases(), history.state, location.href])"""
            )
        )
        page.locator("#answer").fill(text)
        with page.expect_navigation():
            page.keyboard.press("Enter")
    assert sorted(shown) == secrets
    assert len(exchanges) > len(secrets)
    for sent in exchanges:
        told += [sent.url, json.dumps(sent.all_headers())]
        told.append(json.dumps(sent.response().all_headers()))
    out = capsys.readouterr()
    everything = "".join(told) + out.out + out.err + caplog.text
    assert "zebra" not in everything
    assert house.count("answer") == 20
    page.go_back()
    assert "zebra" not in page.content()


def test_the_dark_page_keeps_the_colours_of_the_scan(running, house, open_page):
    fill(house, scan=png(1))
    page = open_page(color_scheme="dark")
    start(page, running)
    style = "getComputedStyle(document.querySelector('%s')).%s"
    assert page.evaluate(style % ("#crop", "filter")) == "none"
    assert page.evaluate(style % ("#view", "backgroundColor")) == "rgb(247, 247, 245)"
    assert page.evaluate(style % ("body", "backgroundColor")) == "rgb(20, 25, 24)"
