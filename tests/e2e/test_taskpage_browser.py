"""The task page in a real Chromium: keys, drafts, the clock, and nothing that leaks."""

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, Request, expect

from dispatcher.identity import invite_link
from dispatcher.stages.serving import ServingTerms
from dispatcher.store import Store
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests.e2e.browsing import Served, keys_work, late_script, moved_on, ready
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
            terms=ServingTerms(**{"apart": 0, **terms}),
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
    page.locator("[data-page=ready] button.main").click()
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


@pytest.mark.parametrize("tab", ["the same tab", "another tab"])
def test_a_second_persons_link_asks_who_goes_on(running, house, page, tab):
    fill(house, name="Ada")
    house.account("bob")
    start(page, running)
    if tab == "another tab":
        page.goto("about:blank")
    page.goto(running.link("bob"))  # in the same tab another fragment only
    expect(page.locator("[data-page=whose]")).to_be_visible()
    assert page.url == running.base + "/whose"
    assert page.title() == "Who is working?"
    page.get_by_role("button", name="Sign out and continue as bob").click()
    expect(page.locator("[data-page=ready]")).to_be_visible()
    assert page.url == running.base + "/"
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-page=nothing]")).to_be_visible()


def test_a_link_put_into_the_tab_that_asks_for_one_arrives(running, house, page):
    fill(house, name="Ada")
    page.goto(running.base)
    page.goto(running.link("ann"))  # another fragment only: nothing is loaded
    expect(page.locator("[data-page=ready]")).to_be_visible()


def test_choosing_by_digit_and_submitting_with_enter(running, house, page):
    fill(house, disease="flu")
    start(page, running)
    for typed, name in (("10", "d10"), ("11", "d11"), ("2", "gout")):
        page.keyboard.type(typed)
        expect(page.get_by_role("radio", name=f"{name} ")).to_be_checked()
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
    page.locator("#answer").fill("")
    page.keyboard.press("Escape")
    page.keyboard.press(key)
    expect(page.locator("#told")).to_contain_text("or Enter, does it")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == raw


ENDS = ["i", "n", "Control+Space"]


@pytest.mark.parametrize("key", ENDS)
def test_no_key_ends_a_task_by_itself_and_any_other_takes_it_back(
    running, house, page, key
):
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.type("Ad")
    page.keyboard.press("Escape")
    page.keyboard.press(key)
    expect(page.locator("#told")).to_contain_text("What you typed would be lost")
    expect(page.locator("#task .asked")).to_have_count(1)
    page.keyboard.press(key)  # held or pressed again it means no more than once
    page.keyboard.press("Shift")
    expect(page.locator("#told")).to_have_text("")
    page.locator("#answer").focus()
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"


def test_a_button_that_would_throw_away_what_was_typed_asks_once(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.type("Ad")
    page.get_by_role("button", name="Skip").click()
    expect(page.locator("#told")).to_contain_text("What you typed would be lost")
    expect(page.locator("#answer")).to_have_value("Ad")
    page.get_by_role("button", name="Skip").click()
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert house.ask("SELECT state FROM task") == "returned"


def test_keys_without_ctrl_can_be_switched_off_for_good(running, house, page):
    fill(house, name="Ada", age="36")
    start(page, running)
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("checkbox", name="Single keys").uncheck()
    page.keyboard.press("Escape")
    for _ in range(2):  # on the next task too
        shortcuts = page.locator("[value=illegible]")
        expect(shortcuts).to_have_attribute("aria-keyshortcuts", "Alt+I")  # no bare i
        for key in ("i", "n", "?"):
            page.locator("#submit").focus()
            page.keyboard.press(key)
        expect(page.locator("#told")).to_have_text("")
        expect(page.get_by_role("dialog")).to_be_hidden()
        with moved_on(page):
            page.locator("[value=illegible]").click()


def test_a_marked_passage_becomes_a_line_and_then_a_range(running, house, page):
    fill(house, parts="aspirin and zinc")
    start(page, running)
    page.locator("#text").dblclick(position={"x": 30, "y": 30})  # the first word
    page.get_by_role("button", name="Add what is marked above").click()
    expect(page.locator("#answer")).to_have_value("aspirin\n")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"[[0, 7]]"


def test_enter_in_a_table_goes_to_the_next_cell(running, house, page):
    fill(house, lines="zinc 2")
    start(page, running)
    page.keyboard.type("zinc")
    page.keyboard.press("Enter")
    page.keyboard.type("2")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b'[["zinc", "2"]]'


def test_the_instruction_and_the_made_up_example_stand_by_the_box(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    expect(
        page.get_by_label("Name: type exactly what you see")
    ).to_have_accessible_description("Ada As it is written")
    shown = page.get_by_text("Dr Jo Doe")
    expect(shown).to_be_hidden()
    page.get_by_text("Example, made up").click()
    expect(shown).to_be_visible()
    expect(page.get_by_text("You answer")).to_be_visible()
    page.keyboard.press("i")  # still a key of the page
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()


def test_skipping_by_key_hands_the_task_back(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.press("Control+Space")
    page.keyboard.press("Enter")
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
    expect(page.locator("#told")).to_have_text("You have more time.")
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


@pytest.fixture
def held(page):
    """Requests for what a test names, on their way until it lets them go.

    A test names them before it opens its page: a page that is open already may handle a
    key before it learns that its requests are held, and what the key sends passes.
    """
    requests = []

    def hold(what: str, times: int | None = None):
        page.route(what, lambda route: requests.append(route), times=times)  # noqa: PLW0108
        return requests

    return hold


def test_an_answer_on_its_way_is_told_and_takes_no_more_edits(
    running, house, page, held
):
    fill(house, disease="flu", name="Ada")
    answers = held("**/answer")
    start(page, running)
    for _ in range(2):
        choice = page.locator("#choices").count() == 1
        if choice:
            page.keyboard.press("2")
        else:
            page.keyboard.type("Ada")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#told")).to_contain_text("Sending")
        page.keyboard.type("1")  # a choice, or a letter
        page.keyboard.press("i")
        page.keyboard.press("Enter")
        if choice:
            expect(page.get_by_role("radio", name="gout")).to_be_checked()
        else:
            expect(page.locator("#answer")).to_have_value("Ada")
        assert len(answers) == 1
        with moved_on(page):
            answers.pop().continue_()
    told = house.ask("SELECT group_concat(CAST(raw AS TEXT)) FROM answer")
    assert set(told.split(",")) == {"gout", "Ada"}


def test_an_answer_that_is_stopped_leaves_a_page_that_works(running, house, page, held):
    fill(house, name="Ada")
    answers = held("**/answer", times=1)  # for good: it never reaches the server
    start(page, running)
    page.keyboard.type("Ad")
    with page.expect_request("**/answer"):
        page.keyboard.press("Enter")
    expect(page.locator("#told")).to_contain_text("Sending")
    page.keyboard.press("Escape")
    expect(page.locator("#told")).to_contain_text("Not sent: stopped")
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"
    assert answers


def test_an_answer_without_a_connection_stays_on_the_page(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.context.set_offline(True)
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    expect(page.locator("#told")).to_contain_text("Not sent: no connection")
    expect(page.locator("#answer")).to_have_value("Ada")
    page.context.set_offline(False)
    drafted(page, house, b"Ada")
    expect(page.locator("#told")).to_contain_text("Not sent")  # saved is not sent
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"


def test_who_was_signed_out_is_told_so_and_goes_on_after_the_link(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.context.clear_cookies()
    page.keyboard.type("Ad")
    expect(page.locator("#saved")).to_contain_text("Not saved: you are signed out")
    page.keyboard.press("Enter")
    expect(page.locator("#told")).to_contain_text("Not sent: you are signed out")
    expect(page.locator("#answer")).to_have_value("Ad")
    assert house.ask("SELECT draft FROM task") is None
    other = page.context.new_page()
    other.goto(running.link("ann"))
    expect(other.locator("[data-page=ready]")).to_be_visible()
    page.keyboard.type("a")
    drafted(page, house, b"Ada")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"


def test_two_windows_do_not_write_over_each_other(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    other = page.context.new_page()
    other.goto(running.base)
    other.get_by_role("button", name="Continue").click()
    ready(other)
    page.keyboard.type("Ada")
    drafted(page, house, b"Ada")
    other.keyboard.type("Eve")
    expect(other.locator("#saved")).to_contain_text("Not saved: another window")
    page.keyboard.type("!")
    drafted(page, house, b"Ada!")
    other.keyboard.press("Enter")  # what stands here counts
    expect(other.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Eve"
    page.keyboard.type("!")
    expect(page.locator("#saved")).to_contain_text("finished in another window")


def test_who_leaves_with_something_unsaved_is_asked(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.route("**/draft", lambda route: route.abort())
    page.keyboard.type("Ad")
    expect(page.locator("#saved")).to_contain_text("Not saved")
    with page.expect_event("dialog") as asked:
        page.evaluate("void setTimeout(() => location.reload())")
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    expect(page.locator("#answer")).to_have_value("Ad")


def test_what_is_too_long_is_said_to_be_so(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.locator("#answer").fill("x" * 300_000)
    expect(page.locator("#saved")).to_contain_text("Not saved: That is more than")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#told")).to_contain_text("Not sent: That is more than")
    expect(page.locator("#answer")).to_have_value("x" * 300_000)


def test_the_clock_talks_once_and_leaves_what_is_said_of_the_draft(
    running, house, page
):
    page.clock.install()
    fill(house, name="Ada")
    start(page, running)
    page.evaluate("""() => {
      window.changes = 0;
      const count = (found) => { window.changes += found.length; };
      const seen = {childList: true, characterData: true, subtree: true};
      for (const region of document.querySelectorAll("[role=status], [aria-live]"))
        new MutationObserver(count).observe(region, seen);
    }""")
    page.route("**/draft", lambda route: route.abort())
    page.keyboard.type("Ad")
    page.clock.run_for(1_000)
    expect(page.locator("#saved")).to_contain_text("Not saved")
    page.evaluate("window.changes = 0")
    page.route("**/draft", lambda route: None)  # no answer at all: nothing new to say
    page.clock.run_for(640_000)
    expect(page.locator("#told")).to_have_text(
        "The time is over. You may still submit."
    )
    expect(page.locator("#saved")).to_contain_text("Not saved")
    assert page.evaluate("window.changes") == 2  # nearly over, over


HIDDEN = """() => {
  const node = document.activeElement, box = node.getBoundingClientRect();
  if (node.matches("main, body") || !box.height) return null;
  const top = document.elementFromPoint(box.x + box.width / 2, box.y + Math.min(box.height / 2, 20));
  const seen = top && (node.contains(top) || top.contains(node) && !top.matches(".shown, .shown *"));
  return seen ? null : node.outerHTML.slice(0, 80);
}"""


@pytest.mark.parametrize(("width", "height"), [(320, 256), (320, 568), (1280, 500)])
def test_what_has_the_focus_is_never_hidden(running, house, page, width, height):
    fill(house, parts="aspirin and zinc " * 60)
    page.set_viewport_size({"width": width, "height": height})
    start(page, running)
    for key in ("Tab", "Shift+Tab"):
        for _ in range(14):
            page.keyboard.press(key)
            assert page.evaluate(HIDDEN) is None


def test_the_names_of_buttons_hold_no_keys(running, house, page):
    fill(house, disease="flu")
    start(page, running)
    for name in ("Submit", "Cannot read it", "Nothing there", "Skip", "Keys"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    expect(page.get_by_role("radio", name="gout", exact=True)).to_have_accessible_name(
        "gout"
    )


def test_the_time_is_told_in_the_language_of_the_page(running, house, open_page):
    fill(house, name="Ada")
    page = open_page(locale="ar-EG")
    start(page, running)
    page.keyboard.type("Ad")
    until(lambda: house.ask("SELECT draft FROM task") == b"Ad", "the draft is saved")
    expect(page.locator("#saved")).not_to_be_empty()
    text = page.locator("#saved").inner_text()
    assert re.match(r"حُفظ [0-9٠-٩]{1,2}:", text)


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
    assert page.locator("#task kbd, [aria-keyshortcuts]").count() == 0
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
        with moved_on(page):
            page.locator("[value=illegible]").click()
    assert kind(page) == "nothing"


def test_safety_12_twenty_secrets_leave_no_trace_but_on_the_screen(
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
        with moved_on(page):
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
