"""The task page for everybody: keys in a box, images, undo, practice, other languages."""

import io

import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Page, expect

from tests.e2e.browsing import moved_on, ready
from tests.e2e.programs import until
from tests.e2e.test_taskpage_browser import Running, drafted, fill, start
from tests.integration.serving_house import House

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def house(sqlite_store, clock) -> House:
    return House(sqlite_store, clock)


@pytest.fixture
def running(house):
    served = Running(house, gold=0)
    yield served
    served.stop()


def receipt_line() -> bytes:
    """A line of print, small in much white paper."""
    paper = Image.new("L", (1600, 500), 252)
    ImageDraw.Draw(paper).text((90, 40), "TOTAL 12.50", fill=30, font_size=34)
    target = io.BytesIO()
    paper.save(target, "PNG")
    return target.getvalue()


# -- keys --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "raw"), [("Alt+i", b"[illegible]"), ("Alt+n", b"[not_present]")]
)
def test_marks_by_a_key_while_the_box_has_the_focus(running, house, page, key, raw):
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.type("i")
    page.keyboard.press(key)
    expect(page.locator("#answer")).to_have_value("i")
    expect(page.locator("#told")).to_contain_text("or Enter, does it")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == raw


def test_the_keys_show_themselves_where_they_work(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    for name, key in (("Cannot read it", "Alt I"), ("Need more time", "Alt M")):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button.locator("kbd")).to_have_text(key)
    page.keyboard.press("Alt+?")
    expect(page.get_by_role("dialog")).to_contain_text("Alt Z")


def test_on_a_keyboard_of_another_alphabet_the_place_of_the_key_counts(
    running, house, page
):
    fill(house, name="Ada")
    start(page, running)
    page.evaluate("""document.activeElement.dispatchEvent(new KeyboardEvent("keydown",
      {key: "ه", code: "KeyI", altKey: true, bubbles: true, cancelable: true}))""")
    expect(page.locator("[value=illegible].asked")).to_be_visible()


# -- images ------------------------------------------------------------------------------

VIEW = """() => {
  const view = document.querySelector("#view"), crop = document.querySelector("#crop");
  const [box, image] = [view.getBoundingClientRect(), crop.getBoundingClientRect()];
  return {width: view.clientWidth, height: view.clientHeight, left: view.scrollLeft,
          top: view.scrollTop, scale: crop.clientWidth / crop.naturalWidth,
          wide: image.width, high: image.height, filter: getComputedStyle(crop).filter};
}"""


def test_a_line_that_is_small_in_white_paper_fills_the_width(running, house, page):
    fill(house, scan=receipt_line())
    start(page, running)
    expect(page.locator("#crop")).to_have_js_property("naturalWidth", 1600)
    until(lambda: page.evaluate(VIEW)["scale"] > 1, "it is fitted")
    seen = page.evaluate(VIEW)
    first, last = 90 * seen["scale"] - seen["left"], 290 * seen["scale"] - seen["left"]
    assert first >= 0
    assert last <= seen["width"]
    assert last - first > 0.6 * seen["width"]
    assert seen["height"] < 300, "the paper below it is cut off"


def test_an_image_is_turned_cleared_and_moved_while_the_box_has_the_focus(
    running, house, page
):
    fill(house, scan=receipt_line())
    start(page, running)
    until(lambda: page.evaluate(VIEW)["scale"] > 1, "it is fitted")
    page.keyboard.press("Alt+c")
    page.keyboard.press("Alt+x")
    assert "contrast" in page.evaluate(VIEW)["filter"]
    assert "invert" in page.evaluate(VIEW)["filter"]
    for name in ("More contrast", "Invert the colours"):
        button = page.get_by_role("button", name=name)
        expect(button).to_have_attribute("aria-pressed", "true")
    for _ in range(3):
        page.keyboard.press("Alt++")
    expect(page.locator("#zoom")).to_have_text("250 %")
    before = page.evaluate(VIEW)
    page.keyboard.press("Alt+ArrowRight")
    page.keyboard.press("Alt+ArrowDown")
    after = page.evaluate(VIEW)
    assert after["left"] > before["left"]
    assert after["top"] > before["top"]
    page.keyboard.press("Alt+0")
    page.keyboard.press("Alt+r")
    turned = page.evaluate(VIEW)
    assert turned["high"] > turned["wide"]
    expect(page.locator("#answer")).to_be_focused()
    expect(page.locator("#answer")).to_have_value("")


# -- undo --------------------------------------------------------------------------------


def test_an_answer_is_taken_back_with_what_was_typed(running, house, page):
    fill(house, name="Ada", disease="flu")
    start(page, running)
    first = page.locator("#task").get_attribute("data-token")
    choosing = page.locator("#choices").count() == 1
    page.keyboard.press("2") if choosing else page.keyboard.type("Adda")
    with moved_on(page):
        page.keyboard.press("Enter")
    expect(page.locator("#undo")).to_be_visible()
    page.keyboard.press("Alt+z")
    expect(page.locator(f'#task[data-token="{first}"]')).to_be_visible()
    expect(page.locator("#note")).to_contain_text("taken your answer back")
    assert house.count("answer") == 0
    if choosing:
        expect(page.get_by_role("radio", name="gout")).to_be_checked()
    else:
        expect(page.locator("#answer")).to_have_value("Adda")
    with moved_on(page):
        page.keyboard.press("Enter")
    assert house.count("answer") == 1
    assert house.exposures() == 2


def test_undo_goes_when_its_time_is_over(running, house, page):
    page.clock.install()
    fill(house, name="Ada")
    start(page, running)
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=nothing] , #undo").first).to_be_visible()
    expect(page.locator("#undo")).to_be_visible()
    page.clock.run_for(10_500)
    expect(page.locator("#undo")).to_have_count(0)
    assert house.count("answer") == 1


def test_undo_works_without_scripts(running, house, open_page):
    fill(house, name="Ada")
    page = open_page(java_script_enabled=False)
    page.goto(running.base)
    page.get_by_label("Invitation link or code").fill(running.link("ann"))
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").click()
    page.locator("#answer").fill("Adda")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("button", name="Undo").click()
    page.locator("#answer").fill("Ada")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-page=nothing]")).to_be_visible()
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"


# -- a slow or lost line -------------------------------------------------------------------


def test_a_lost_line_is_told_above_the_task_until_it_is_back(running, house, page):
    fill(house, name="Ada")
    start(page, running)
    page.context.set_offline(True)
    expect(page.locator("#offline")).to_contain_text("You are offline")
    page.keyboard.type("Ada")
    page.context.set_offline(False)
    expect(page.locator("#offline")).to_be_hidden()
    drafted(page, house, b"Ada")


# -- practice ----------------------------------------------------------------------------


def test_the_practice_round_teaches_the_keys_and_leaves_nothing_behind(
    running, house, page
):
    house.account("ann")
    page.goto(running.link("ann"))
    page.get_by_role("link", name="Practise first").click()
    ready(page)
    expect(page.locator("#lesson")).to_contain_text("With keys: type, then Enter")
    page.keyboard.type("Mapel")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("That is not it yet")
    page.locator("#answer").fill("Maple Street 12")
    for keys in ("", "2", "31/01/2026"):
        with moved_on(page):
            if keys:
                page.keyboard.type(keys)
            page.keyboard.press("Enter")
    expect(page.locator("#lesson")).to_contain_text("Alt R turns it")
    page.keyboard.press("Alt+r")
    page.keyboard.type("lantern")
    with moved_on(page):
        page.keyboard.press("Enter")
    page.keyboard.press("Alt+i")
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=ready]")).to_contain_text(
        "Nothing of it was counted"
    )
    for table in ("task", "answer", "gold_task", "payment"):
        assert house.count(table) == 0
    assert house.exposures() == 0


# -- languages ---------------------------------------------------------------------------


def test_the_page_speaks_what_the_browser_asks_for(running, house, open_page):
    fill(house, age="36")
    page = open_page(locale="de-AT")
    start(page, running)
    assert page.locator("html").get_attribute("lang") == "de"
    expect(page.locator("#submit")).to_contain_text("Absenden")
    label = "Age: Tippen Sie die Zahl, die Sie sehen"
    expect(page.get_by_label(label)).to_be_focused()
    page.keyboard.type("999")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text(
        "Über dem größten Wert, der hier möglich ist."
    )
    page.keyboard.press("Alt+i")
    expect(page.locator("#told")).to_contain_text("Nicht lesbar")


def test_a_chosen_language_stays_with_the_account(running, house, open_page):
    fill(house, name="Ada")
    page = open_page(locale="en-GB")
    page.goto(running.link("ann"))
    page.get_by_role("button", name="Español").click()
    expect(page.get_by_role("button", name="Empezar")).to_be_visible()
    other = open_page(locale="de-DE")
    other.goto(running.link("ann"))
    expect(other.get_by_role("button", name="Empezar")).to_be_visible()


def test_arabic_runs_from_right_to_left_and_what_is_read_as_it_is_written(
    running, house, open_page
):
    fill(house, name="Ada Lovelace")
    page = open_page(locale="ar-EG", viewport={"width": 1280, "height": 800})
    start(page, running)
    assert page.locator("html").get_attribute("dir") == "rtl"
    brand, clock = (page.locator(part).bounding_box() for part in (".brand", "#clock"))
    assert brand["x"] > clock["x"]
    direction = "(node) => getComputedStyle(node).direction"
    assert page.locator("#text").evaluate(direction) == "ltr"
    assert page.locator("#submit").evaluate(direction) == "rtl"


# -- a screen reader -----------------------------------------------------------------------


def tree(page: Page) -> list[str]:
    """What a screen reader is told, in order: role, name and description."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    wanted = {"heading", "note", "figure", "blockquote", "textbox", "radio", "button",
              "group", "alert", "region", "image", "banner", "main", "contentinfo"}  # fmt: skip
    by_id = {node["nodeId"]: node for node in nodes}
    told, waiting = [], [nodes[0]]
    while waiting:
        node = waiting.pop()
        waiting += [by_id[n] for n in reversed(node.get("childIds", [])) if n in by_id]
        role = node.get("role", {}).get("value", "").lower()
        if not node.get("ignored") and role in wanted:
            said = [
                node.get(part, {}).get("value", "") for part in ("name", "description")
            ]
            told.append(" | ".join(filter(None, (role, *said))))
    session.detach()
    return told


def test_a_screen_reader_is_told_what_to_read_what_is_asked_and_what_can_be_done(
    running, house, page
):
    fill(house, name="Ada")
    start(page, running)
    assert tree(page) == [
        "banner",
        "main",
        "heading | Task",
        "figure | What to read",
        "blockquote",
        "textbox | Name: type exactly what you see | Ada As it is written",
        "group",
        "button | Submit",
        "button | Cannot read it",
        "button | Nothing there",
        "button | Skip",
        "button | Need more time",
        "button | I know this person",
        "button | Keys",
        "contentinfo",
        "button | Deutsch",
        "button | English",
        "button | Español",
        "button | العربية",
    ]


def test_a_screen_reader_is_told_of_an_image_and_its_tools(running, house, page):
    fill(house, scan=receipt_line())
    start(page, running)
    told = tree(page)
    first = told.index("figure | What to read")
    assert [one.removesuffix(")").partition(" (")[0] for one in told[first + 1 :]][
        :10
    ] == [
        "region | Image, scroll with the arrow keys",
        "image | The part to read",
        "group | How the image is shown",
        "button | Smaller | Smaller",
        "button | Fit to the width",
        "button | Larger | Larger",
        "button | Rotate | Rotate",
        "button | More contrast | More contrast",
        "button | Invert the colours | Invert the colours",
        "textbox | Scan: type exactly what you see",
    ]
