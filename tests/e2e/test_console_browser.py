"""The console in a real Chromium: signing in by link, looking, and nothing that leaks."""

import os
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from dispatcher import access
from dispatcher.access import OPERATIONS, sessions, users
from dispatcher.access.roles import scopes_of
from dispatcher.access.sessions import LINK_ROLES
from dispatcher.store import audit_log, people
from dispatcher.surfaces.console import ConsoleSettings
from dispatcher.surfaces.console.screens import SCREENS
from tests.e2e.browsing import Served
from tests.integration.console_house import make_console
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_console import RULES

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PAGES = ("/", "/workers", "/rules", "/queue?state=ready", "/records", "/audit")


class Running(Served):
    """The console on a port of its own, over a store that a test fills."""

    def __init__(self, case: Case, clock) -> None:
        self.case, self.clock = case, clock
        settings = ConsoleSettings(stale=0)
        super().__init__(make_console(case.store, clock, settings=settings))

    def link(self) -> str:
        return access.sign_in_link(
            self.base, access.make_link(self.case.store, self.clock())
        )


@pytest.fixture
def case(sqlite_store) -> Case:
    made = Case(sqlite_store)
    made.apply(policy(RULES))
    made.add(*(f"inhouse/worker-{n}" for n in range(12)))
    made.load(
        *((f"canary-key-{n}", "canary-person", n, "abcd") for n in range(60)),
        shown=b"canary-value",
    )
    for n in range(6):
        made.book((f"inhouse/worker-{n}", f"canary-key-{n}.a canary-key-{n}.c"))
    return made


@pytest.fixture
def running(case, clock) -> Iterator[Running]:
    clock.now = case.now
    served = Running(case, clock)
    yield served
    served.stop()


def sign_in(page: Page, running: Running) -> None:
    page.goto(running.link())
    expect(page.locator("[data-page=overview]")).to_be_visible()
    page.wait_for_load_state()  # its script has run


def test_a_link_signs_in_and_leaves_the_address_bar(running, page):
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url + str(sent.headers)))
    link = running.link()
    secret = link.partition("#k=")[2]
    page.goto(link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert page.url == f"{running.base}/"
    assert asked
    assert all(secret not in sent for sent in asked)
    page.go_back()
    assert secret not in page.url


def test_a_used_link_says_what_to_do(running, page):
    link = running.link()
    page.goto(link)
    expect(page.locator("[data-page=overview]")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("[data-page=login]")).to_be_visible()
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("works once")
    expect(page.get_by_text("dispatcher console link")).to_be_visible()


def test_every_page_is_reached_by_the_keyboard(running, page):
    sign_in(page, running)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    seen = scopes_of(LINK_ROLES)
    for screen in (*SCREENS[1:], SCREENS[0]):
        if screen.listed and OPERATIONS[screen.operation] in seen:
            page.get_by_role("navigation", name="Pages").get_by_role(
                "link", name=screen.title
            ).focus()
            page.keyboard.press("Enter")
            expect(page.locator(f"[data-page={screen.name}]")).to_be_visible()
            current = page.locator("nav a[aria-current=page]")
            expect(current).to_have_text(screen.title)


def test_the_page_lives_until_it_is_paused(running, case, page):
    page.clock.install()
    sign_in(page, running)
    expect(page.get_by_text("12 booked to 12 workers")).to_be_visible()
    case.book(("inhouse/worker-7", "canary-key-9.a"))
    page.clock.run_for(11_000)
    expect(page.get_by_text("13 booked to 12 workers")).to_be_visible()
    live = page.get_by_role("button", name="Live")
    live.click()
    expect(page.get_by_role("button", name="Paused")).to_have_attribute(
        "aria-pressed", "false"
    )
    case.book(("inhouse/worker-7", "canary-key-10.a"))
    page.clock.run_for(60_000)
    expect(page.get_by_text("13 booked to 12 workers")).to_be_visible()
    page.get_by_role("button", name="Paused").click()
    expect(page.get_by_text("14 booked to 12 workers")).to_be_visible()


def test_what_changed_is_spoken_in_one_sentence(running, case, page):
    page.clock.install()
    sign_in(page, running)
    expect(page.locator("#told")).to_have_text("")
    case.book(("inhouse/worker-0", "canary-key-9.c"))
    page.clock.run_for(11_000)
    expect(page.locator("#told")).to_contain_text("Worst share 0.67 of history")


def test_a_chart_is_shown_as_a_table_that_stays_open(running, case, page):
    page.clock.install()
    sign_in(page, running)
    page.goto(f"{running.base}/workers")
    chart = page.locator("#chart-exposure")
    expect(chart.get_by_role("img")).to_have_accessible_name("Nearest to a refusal")
    expect(chart.get_by_role("img")).to_have_accessible_description(
        re.compile("^6 workers, the nearest to a refusal first")
    )
    expect(chart.get_by_role("table")).to_be_hidden()
    chart.get_by_text("Show as table").click()
    rows = chart.get_by_role("row")
    expect(rows).to_have_count(7)
    case.book(("inhouse/worker-7", "canary-key-9.a"))
    page.clock.run_for(11_000)
    expect(rows).to_have_count(8)
    expect(chart.get_by_role("table")).to_be_visible()


def test_it_goes_on_while_somebody_reads_a_table(running, case, page):
    """By keyboard, or with a text selected to copy it: neither is taken away."""
    page.clock.install()
    sign_in(page, running)
    page.get_by_role("region", name="Rules and the worst").focus()
    page.evaluate(
        "getSelection().selectAllChildren(document.querySelector('.listing tbody th'))"
    )
    case.book(("inhouse/worker-7", "canary-key-9.a"))
    page.clock.run_for(11_000)
    expect(page.get_by_text("13 booked to 12 workers")).to_be_visible()
    expect(page.get_by_role("region", name="Rules and the worst")).to_be_focused()
    assert page.evaluate("String(getSelection())") == "who-what"
    expect(page.get_by_role("button", name="Live")).to_be_visible()


def test_what_is_live_no_more_says_so(running, page):
    page.clock.install()
    sign_in(page, running)
    page.route("**/*", lambda route: route.fulfill(status=503))
    page.clock.run_for(21_000)
    expect(page.get_by_role("button", name="Not updated")).to_be_visible()
    page.unroute("**/*")
    page.clock.run_for(11_000)
    expect(page.get_by_role("button", name="Live")).to_be_visible()


@pytest.fixture
def wide(case) -> Case:
    """Twenty-two rules, and more workers than two pages hold."""
    case.apply(
        policy("\n".join(f'[property.rule-{n}]\nof = ["a", "b"]' for n in range(22)))
    )
    case.add(*(f"inhouse/more-{n}" for n in range(120)))
    return case


def test_a_wide_table_keeps_header_and_name_in_view(wide, running, page):
    sign_in(page, running)
    page.goto(f"{running.base}/workers")
    table = page.get_by_role("region", name="Workers and their shares")
    table.evaluate("node => node.scrollTo(node.scrollWidth, 600)")
    frame = table.bounding_box()
    header = page.get_by_role("columnheader", name="Groups").bounding_box()
    name = page.locator("tbody th").nth(20).bounding_box()
    assert 0 <= header["y"] - frame["y"] < 3
    assert header["x"] + header["width"] <= frame["x"] + frame["width"]
    assert 0 <= name["x"] - frame["x"] < 3
    assert frame["y"] < name["y"] < frame["y"] + frame["height"]


def test_a_worker_is_one_jump_away(wide, running, page):
    sign_in(page, running)
    page.goto(f"{running.base}/workers")
    page.keyboard.press("/")
    page.keyboard.type("inhouse/more-117")
    page.keyboard.press("Enter")
    row = page.locator(".listing tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("inhouse/more-117")
    page.get_by_role("link", name="All").click()
    page.get_by_label("Go to page").fill("2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Page 2 of 3")).to_be_visible()


def test_paper_has_every_column(wide, running, page):
    page.set_viewport_size(
        {"width": 1046, "height": 700}
    )  # A4 across, less the margins
    sign_in(page, running)
    page.emulate_media(media="print")
    columns = []
    for path in PAGES:
        page.goto(running.base + path)
        columns.append(page.locator(".listing thead th").count())
        edges = page.locator("th, td").evaluate_all(
            "all => all.map((cell) => cell.getBoundingClientRect().right)"
        )
        assert max(edges) <= 1046, path
        for table in page.locator(".scroll").all():
            assert table.evaluate("n => n.scrollWidth <= n.clientWidth"), path
    assert max(columns) == 28


def test_a_session_that_is_over_asks_to_sign_in(running, clock, page):
    page.clock.install()
    sign_in(page, running)
    clock.advance(31 * 60)
    page.clock.run_for(21_000)
    expect(page.locator("[data-page=login]")).to_be_visible()


def test_without_scripts_it_is_read_and_acts_all_the_same(running, open_page):
    page = open_page(java_script_enabled=False)
    page.goto(running.base)
    page.get_by_label("Sign-in link or code").fill(running.link())
    page.get_by_role("button", name="Use the link").click()
    expect(page.locator("[data-page=overview]")).to_be_visible()
    page.locator("#pages").get_by_role("link", name="Workers").click()
    expect(page.locator("td.cell").first).to_be_visible()
    page.get_by_role("link", name="a1", exact=True).click()
    page.get_by_role("link", name="Block").click()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Block a worker").click()
    page.get_by_role("link", name="Go on").click()
    expect(page.get_by_text("blocked", exact=True).first).to_be_visible()


def test_the_theme_follows_the_system_and_then_the_button(running, open_page):
    page = open_page(color_scheme="dark")
    sign_in(page, running)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light").click()
    light = page.evaluate(ground)
    assert dark != light
    page.goto(f"{running.base}/records")
    expect(page.get_by_role("button", name="Dark")).to_be_visible()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("width", [320, 1280])
def test_no_page_scrolls_sideways_and_targets_are_big_enough(running, open_page, width):
    page = open_page(viewport={"width": width, "height": 700}, has_touch=True)
    sign_in(page, running)
    for path in (*PAGES, "/workers/inhouse/worker-1", "/do/merge-workers"):
        page.goto(running.base + path)
        sizes = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert sizes[0] <= sizes[1], path
        for box in page.locator("button, #pages a, .tabs a").evaluate_all(
            "all => all.filter(e => e.offsetParent).map(e => e.offsetHeight)"
        ):
            assert box >= 44, path


def test_safety_12_values_and_keys_leave_no_trace(running, page):
    seen: list[str] = []
    page.on("response", lambda reply: seen.append(reply.url))
    sign_in(page, running)
    for path in PAGES:
        page.goto(running.base + path)
        kept = page.content() + page.title() + page.url
        kept += page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}])"
        )
        assert "canary" not in kept
    assert not any("canary" in url for url in seen)
    assert page.evaluate("document.cookie") == ""


def test_keys_go_to_pages_move_through_rows_and_can_be_switched_off(running, page):
    sign_in(page, running)
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(page.locator("[data-page=workers]")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tbody tr").nth(1)).to_have_class("here")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=worker]")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.get_by_label("Single letters act as keys").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.keyboard.press("?")
    expect(page.locator("[data-page=worker]")).to_be_visible()
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def sign_in_as(page: Page, running: Running, *roles: str) -> None:
    """Give a browser the session of a user of these roles."""
    case, now = running.case, running.clock()
    with case.store.read() as tx:
        known = people.users(tx)
    if not known:
        users.add_user(case.store, "eve", list(roles), now, os.urandom)
    with case.store.write() as tx:
        secret = sessions.open_session(tx, now, os.urandom, people.users(tx)[0])
    page.context.add_cookies([
        {"name": "console", "value": secret, "url": running.base}
    ])  # fmt: skip


def test_a_pressed_twice_act_is_done_once(running, case, page):
    sign_in(page, running)
    page.goto(f"{running.base}/do/pause")
    page.get_by_label("Reason").fill("token expired")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Pause", exact=True).dblclick()
    expect(page.get_by_role("heading", name="Pause")).to_contain_text("done")
    page.reload()
    expect(page.get_by_role("heading", name="Pause")).to_contain_text("done")
    with case.store.read() as tx:
        assert len(audit_log.newest(tx, operation="pause")) == 1
