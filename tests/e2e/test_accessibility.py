"""axe-core finds nothing to mend on any page, in any state, at any size, light or dark.

Each size is judged in light or dark, by turns; ``make laws`` judges each in both.

``axe-core-*.min.js`` is Deque's checker as it is published (MPL-2.0), kept beside this
file so that the same rules judge on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.routing import Route

from connectors.base import WorkNotice
from dispatcher.access import users
from dispatcher.app.guard import Guard
from dispatcher.ledger.chains import seal
from dispatcher.model import Budget
from dispatcher.store import audit_log, money
from dispatcher.surfaces.taskpage.pages import TOO_LATE, TaskPages
from dispatcher.surfaces.web import static
from tests import builders, edits
from tests.e2e.browsing import Served, keys_work
from tests.e2e.test_console_browser import Running as Console
from tests.e2e.test_console_browser import sign_in, sign_in_as
from tests.e2e.test_taskpage_browser import Running
from tests.integration.ledger_cases import Case, policy
from tests.integration.serving_house import House, png
from tests.integration.test_console import RULES

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

(AXE,) = (path.read_text() for path in Path(__file__).parent.glob("axe-core-*.min.js"))
SIZES = ((1280, 800), (375, 667), (320, 568), (320, 256))
"""The last is a window of 1280 x 1024 at 400 % zoom."""

SCHEMES = ("light", "dark")
BOTH = os.environ.get("SPARSI_LAWS") == "full"
JUDGED = [
    (scheme, size)
    for number, size in enumerate(SIZES)
    for scheme in (SCHEMES if BOTH else SCHEMES[number % 2 :][:1])
]

CONTRAST = ("color-contrast", "color-contrast-enhanced")
"""Three quarters of axe's time. No colour depends on the height of a window: that of 320
pixels is judged at one height, where not all is judged in both schemes."""

MORE = ("target-size", "label-content-name-mismatch", "focus-order-semantics",
        "td-has-header", "p-as-heading", "table-fake-caption")  # fmt: skip
"""Rules that axe leaves out by default, beside those of level AAA."""

# Rows of a table are alike: five of them are judged.
FAULTS = """([more, less]) => axe.run({exclude: ["tbody tr:nth-child(n + 6)"]}, {
  resultTypes: ["violations"],
  rules: Object.fromEntries([...more.map((id) => [id, {enabled: true}]),
    ...less.map((id) => [id, {enabled: false}])]),
}).then((found) =>
  found.violations.flatMap((one) => one.nodes.map((node) =>
    `${one.id} at ${node.target.join(" ")}: ${node.failureSummary.split("\\n")[1].trim()}`)))
"""


def faults(page: Page) -> list[str]:
    """What axe finds in any size; no size needs scrolling sideways."""
    found = []
    page.evaluate(AXE)
    for scheme, (width, height) in JUDGED:
        # without motion: a colour on its way to another is judged by neither
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": height})
        less = CONTRAST if (width, height) == SIZES[-1] and not BOTH else ()
        told = page.evaluate(FAULTS, [MORE, less])
        if page.evaluate("document.documentElement.scrollWidth") > width:
            told.append("the page scrolls sideways")
        found += [f"{scheme}, {width} x {height}: {one}" for one in told]
    return found


# -- the task page ---------------------------------------------------------------------


class Site:
    """A task page with a worker, and a browser in front of it."""

    def __init__(self, page: Page, house: House, running: Running) -> None:
        self.page, self.house, self.running = page, house, running

    def arrive(self, *entries: int) -> None:
        """Come by one's link; so many fields wait."""
        self.house.plan((self.house.account("ann"), list(entries)))
        self.page.goto(self.running.link("ann"))
        self.shows("ready")

    def begin(self, **values: object) -> None:
        """Have the first field of a record on the screen."""
        self.arrive(*self.house.record(1, **values).values())
        self.page.get_by_role("button", name="Start").click()
        self.shows("task")
        keys_work(self.page)

    def shows(self, kind: str) -> None:
        expect(self.page.locator(f"[data-page={kind}]")).to_be_visible()


def invited(site: Site) -> None:
    site.page.goto(site.running.base)
    site.shows("arrive")


def refused(site: Site) -> None:
    site.page.goto(site.running.base + "/#k=wrong")
    expect(site.page.get_by_role("alert")).to_be_visible()


def ready(site: Site) -> None:
    site.arrive()


def continuing(site: Site) -> None:
    site.begin(name="Ada")
    site.page.goto(site.running.base)
    site.shows("ready")


def transcribing(site: Site) -> None:
    site.begin(name="Ada Lovelace")
    site.page.get_by_text("Example, made up").click()


def choosing(site: Site) -> None:
    site.begin(disease="flu")
    site.page.get_by_role("radio", name="gout").check()


def numbering(site: Site) -> None:
    site.begin(age="36")


def dating(site: Site) -> None:
    site.begin(born="1971-01-01")


def agreeing(site: Site) -> None:
    site.begin(ok="Jo Doe")


def marking(site: Site) -> None:
    site.begin(parts="aspirin and zinc " * 60)


def tabulating(site: Site) -> None:
    site.begin(lines="zinc 2")


def looking(site: Site) -> None:
    site.begin(scan=png(1, (2400, 60)))
    site.page.keyboard.press("Escape")
    site.page.keyboard.press("+")


def tested(site: Site) -> None:
    site.house.test_of(1.0, ("Jo Doe", "Jo Doe"))
    site.begin(name="Ada")
    expect(site.page.locator("#notice")).to_be_visible()


def wrong(site: Site) -> None:
    site.begin(age="36")
    site.page.keyboard.type("999")
    site.page.keyboard.press("Control+Enter")
    expect(site.page.get_by_role("alert")).to_be_visible()


def keys_listed(site: Site) -> None:
    site.begin(scan=png(1))
    site.page.get_by_role("button", name="Keys").click()
    expect(site.page.get_by_role("dialog")).to_be_visible()


def nearly_over(site: Site) -> None:
    site.page.clock.install()
    site.begin(name="Ada")
    site.page.clock.run_for(570_000)
    expect(site.page.locator("#clock.low")).to_be_visible()


def over(site: Site) -> None:
    site.page.clock.install()
    site.begin(name="Ada")
    site.page.clock.run_for(610_000)
    expect(site.page.get_by_text("The time is over")).to_be_visible()


def not_saved(site: Site) -> None:
    site.begin(name="Ada")
    site.page.route("**/draft", lambda route: route.abort())
    site.page.keyboard.type("Ad")
    expect(site.page.locator("#saved")).to_contain_text("Not saved")


def asked_about(site: Site) -> None:
    site.begin(name="Ada")
    site.page.keyboard.type("Ad")
    site.page.get_by_role("button", name="Skip").click()
    expect(site.page.locator(".asked")).to_be_visible()


def sending(site: Site) -> None:
    site.page.route("**/answer", lambda route: None)  # before a key could send one
    site.begin(name="Ada")
    site.page.keyboard.type("Ada")
    site.page.keyboard.press("Enter")
    expect(site.page.locator("#told")).to_contain_text("Sending")


def known(site: Site) -> None:
    site.begin(name="Ada")
    site.page.get_by_role("button", name="I know this person").click()
    expect(site.page.get_by_text("Nothing of this person")).to_be_visible()


def practising(site: Site) -> None:
    site.arrive()
    site.page.goto(site.running.base + "/practice")
    site.shows("task")
    keys_work(site.page)
    site.page.keyboard.press("Enter")
    expect(site.page.get_by_role("alert")).to_be_visible()


def taken_back(site: Site) -> None:
    site.begin(name="Ada")
    site.page.keyboard.type("Ada")
    site.page.keyboard.press("Enter")
    expect(site.page.locator("#undo")).to_be_visible()
    site.page.keyboard.press("Alt+z")
    expect(site.page.locator("#note")).to_be_visible()


def undoable(site: Site) -> None:
    site.page.clock.install()  # its time does not pass
    site.begin(name="Ada")
    site.page.keyboard.type("Ada")
    site.page.keyboard.press("Enter")
    expect(site.page.locator("#undo")).to_be_visible()


def offline(site: Site) -> None:
    site.begin(scan=png(1, (2400, 60)))
    site.page.context.set_offline(True)
    expect(site.page.locator("#offline")).to_be_visible()


def turned(site: Site) -> None:
    site.begin(scan=png(1, (2400, 60)))
    for key in ("Alt+r", "Alt+c", "Alt+x", "Alt++"):
        site.page.keyboard.press(key)


def in_arabic(site: Site) -> None:
    site.begin(lines="zinc 2")
    site.page.get_by_role("button", name="العربية").click()
    site.shows("ready")
    site.page.locator("[data-page=ready] button.main").click()
    site.shows("task")
    keys_work(site.page)
    site.page.keyboard.press("Alt+?")
    expect(site.page.get_by_role("dialog")).to_be_visible()


def kinds_offered(site: Site) -> None:
    site.running.stop()
    site.running = Running(site.house, choose=3)
    with site.house.store.write() as tx:
        money.put_budget(tx, Budget(run_id=1, currency="EUR", cap=10**6, bonus=50_000))
    site.arrive(*site.house.record(1, name="Ada", disease="flu", age=36).values())
    expect(site.page.locator(".kinds button")).to_have_count(3)


def kind_chosen(site: Site) -> None:
    kinds_offered(site)
    site.page.keyboard.press("Tab")  # from Start
    site.page.keyboard.press("Enter")
    site.shows("task")
    keys_work(site.page)
    site.page.get_by_label("Then let me choose another kind").check()


def nothing(site: Site) -> None:
    site.arrive()
    site.page.get_by_role("button", name="Start").click()
    site.shows("nothing")


def own_work_before(site: Site) -> None:
    site.arrive()
    site.page.get_by_role("link", name="Your work").click()
    site.shows("me")


def own_work(site: Site) -> None:
    site.house.test_of(1.0, ("Jo", "Jo"))
    site.begin(name="Ada")
    site.page.keyboard.type("Jo")
    site.page.keyboard.press("Enter")
    expect(site.page.locator("#notice")).to_have_count(0)
    site.page.keyboard.type("Ada")
    site.page.keyboard.press("Enter")
    site.shows("nothing")
    site.page.get_by_role("link", name="Your work").click()
    expect(site.page.locator("#done")).to_be_visible()


def unsure(site: Site) -> None:
    own_work_before(site)
    site.page.get_by_role("button", name="Leave", exact=True).click()
    expect(site.page.get_by_role("alert")).to_be_visible()


def left(site: Site) -> None:
    own_work_before(site)
    site.page.get_by_label("I want to leave for good").check()
    site.page.get_by_role("button", name="Leave", exact=True).click()
    site.shows("message")


def missing(site: Site) -> None:
    site.page.goto(site.running.base + "/nowhere")
    site.shows("message")


@pytest.fixture
def site(sqlite_store, clock, page):
    house = House(sqlite_store, clock)
    made = Site(page, house, Running(house))
    yield made
    made.running.stop()


@pytest.mark.parametrize(
    "reach",
    [invited, refused, ready, continuing, transcribing, choosing, numbering, dating,
     agreeing, marking, tabulating, looking, tested, wrong, keys_listed, nearly_over,
     over, not_saved, asked_about, sending, kinds_offered, kind_chosen,
     known, practising, taken_back, undoable,
     offline, turned, in_arabic, nothing, own_work_before, own_work, unsure, left, missing],
)  # fmt: skip
def test_no_state_of_the_task_page_has_a_fault(site, reach: Callable[[Site], None]):
    reach(site)
    assert faults(site.page) == []


RARE_PAGES = {
    "bring": lambda pages, asked: pages.bring(asked, "t", "mturk", {"workerId": "A1"}),
    "wait": lambda pages, asked: pages.bring(asked, "t", "mturk", {}, waits=True),
    "work": lambda pages, asked: pages.notice(
        asked,
        "mturk",
        WorkNotice(("https://market.example",), "https://m.example/in", {}),
    ),
    "preview": lambda pages, asked: pages.notice(
        asked, "mturk", WorkNotice(("https://market.example",))
    ),
    "way-out": lambda pages, asked: pages.nothing(asked, "t", "https://m.example/done"),
    "busy": lambda pages, asked: pages.message(asked, 503, "One moment", "Try again."),
    "same": lambda pages, asked: pages.same(asked, "t", "ann", "identified"),
    "whose": lambda pages, asked: pages.whose(asked, "t", "ann", "bob"),
    "late": lambda pages, asked: pages.ready(
        asked, "t", continues=False, saved=TOO_LATE, stopped=False
    ),
    "stopped": lambda pages, asked: pages.ready(
        asked, "t", continues=True, saved="", stopped=True
    ),
}


@pytest.fixture
def rendered():
    """Pages that few workers reach, by themselves: without the script that goes on."""
    pages = TaskPages(contact="Jo Doe, jo@example.org", lease=600)

    def show(request):
        return RARE_PAGES[request.path_params["name"]](pages, request)

    package = "dispatcher.surfaces.taskpage"
    style = static(package, {"task.css": "text/css", "icon.svg": "image/svg+xml"})
    app = Starlette(routes=[style, Route("/{name}", show)])
    served = Served(Guard(app, "taskpage", https=False))
    yield served
    served.stop()


@pytest.mark.parametrize("name", RARE_PAGES)
def test_no_page_that_few_workers_reach_has_a_fault(rendered, open_page, name):
    page = open_page()
    page.goto(f"{rendered.base}/{name}")
    assert faults(page) == []


# -- the console -----------------------------------------------------------------------


@pytest.fixture
def console(sqlite_store, clock):
    served = Console(Case(sqlite_store), clock)
    yield served
    served.stop()


def fill(case: Case) -> None:
    """Something in every table, more workers than a page holds, a limit reached."""
    case.apply(policy(RULES))
    case.add(*(f"inhouse/worker-{n}" for n in range(60)))
    case.load(*((f"key-{n}", "person", n, "abcd") for n in range(60)))
    for n in range(6):
        case.book((f"inhouse/worker-{n}", f"key-{n}.a key-{n}.c"))
    builders.block(case.store, "inhouse/worker-1")
    builders.settle_messages(case.store, "dead", [1, 2], error="token expired")
    with case.store.write() as tx:
        edits.miscount(tx, 9, adversary_id=1)
        seal(tx, at=case.tick())


EMPTY = (
    "/",
    "/workers",
    "/rules",
    "/queue",
    "/records",
    "/ledger",
    "/runs",
    "/policy",
    "/policy/draft",
    "/audit",
    "/answers",
    "/answers/judge",
    "/fields",
    "/connectors",
    "/do/merge-workers",
)
FILLED = (*EMPTY, "/workers?page=2", "/workers/inhouse/worker-0", "/rules/stranger",
          "/runs/default", "/rules/history", "/policy/1", "/policy/playground",
          "/do/draft-plan",
          "/queue?state=ready", "/queue?state=lost", "/records?after=5",
          "/workers/inhouse/nobody", "/nowhere")  # fmt: skip


@pytest.mark.parametrize("paths", [EMPTY, FILLED], ids=["empty", "filled"])
def test_no_page_of_the_console_has_a_fault(console, page, clock, paths):
    if paths is FILLED:
        fill(console.case)
    clock.now = console.case.now
    sign_in(page, console)
    for path in paths:
        page.goto(console.base + path)
        assert faults(page) == [], path


def test_five_conflicts_are_judged_by_keyboard(console, page, clock):
    """One key a conflict, and the next opens: no hand leaves the keys, no value stays."""
    case = console.case
    fill(case)
    clock.now = case.now
    for number in range(20, 25):
        field = f"key-{number}.a"
        case.book(*((f"inhouse/worker-{worker}", field) for worker in (7, 8)))
        builders.dispute(case.store, case.entries[field], "canary-one", "canary-two")
    sign_in_as(page, console, "operator", "reviewer")
    page.goto(f"{console.base}/answers/judge")
    page.get_by_label("Why you judge").fill("looked at the scans")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="canary-one")).to_be_visible()
    expect(page.locator(".seen")).to_have_text("shown")
    assert faults(page) == []
    for key, left in (("1", 4), ("2", 3), ("u", 2), ("s", 2)):
        page.keyboard.press(key)
        expect(page.get_by_text(f"{left} left")).to_be_visible()
    page.keyboard.press("e")
    page.keyboard.type("canary three")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 was skipped")).to_be_visible()
    assert "canary three" not in page.content()
    with case.store.read() as tx:
        judged = audit_log.newest(tx, operation="answers.judge")
        assert {line.reason for line in judged} == {"looked at the scans"}
        assert len(judged) == 4
        assert len(audit_log.newest(tx, operation="answers.show")) == 5


@pytest.mark.parametrize("hash_part", ["", "#k=wrong"], ids=["first", "refused"])
def test_the_way_into_the_console_has_no_fault(console, page, hash_part):
    page.goto(f"{console.base}/login{hash_part}")
    expect(page.get_by_role("alert")).to_have_count(1 if hash_part else 0)
    assert faults(page) == []


def test_the_page_where_a_password_is_chosen_has_no_fault(console, page, clock):
    link = users.make_first_admin_link(console.case.store, clock(), os.urandom)
    for secret, shown in (("", "enrol"), ("wrong", "enrol"), (link, "choose")):
        page.goto("about:blank")
        page.goto(f"{console.base}/enrol#k={secret}")
        expect(page.locator(f"[data-page={shown}]")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(1 if secret == "wrong" else 0)
        assert link not in page.url
        assert faults(page) == []
