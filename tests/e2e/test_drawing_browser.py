"""Boxes are drawn in a real browser: by mouse, by keys, and by touch."""

import io
import os
from pathlib import Path

import httpx2
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from dispatcher.operations.layouts import Drawing, scans_in
from dispatcher.surfaces.drawing import drawing_app
from policies.document import parse
from tests.e2e.browsing import Served
from tests.e2e.test_accessibility import faults
from tests.unit.dispatcher.stages.intake.test_scan_geometry import form, letter

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
POLICY = """\
version = 1
name = "form" # ours

[entity.rx]
key = "id"

[entity.rx.fields]
name = { ask = "transcribe", image = "scan#name" } # of the person
disease = { ask = "transcribe" }

[entity.rx.layout]
name = { page = 1, box = [0.095, 0.182, 0.81, 0.058] }

[property.pair]
of = ["name", "disease"]
"""


class Site:
    """The page, served for three scans: the template, one askew, another form."""

    def __init__(self, folder: Path) -> None:
        form(1).save(folder / "0.png")
        form(2).rotate(3, Image.Resampling.BICUBIC, fillcolor=250).save(
            folder / "1.png"
        )
        letter(1).save(folder / "2.png")
        self.policy = folder / "policy.toml"
        self.policy.write_text(POLICY)
        drawing = Drawing(self.policy, scans_in([folder]), "scan", aligned=True)
        self.finished: list[bool] = []
        app = drawing_app(
            drawing, "c0de", clock=lambda: 1, finish=lambda: self.finished.append(True)
        )
        self.served = Served(app)
        self.link = f"{self.served.base}/#k=c0de"

    def open(self, page: Page) -> None:
        page.goto(self.link)
        expect(page.locator("html[data-ready]")).to_be_attached()
        expect(page.locator("#scan")).to_have_js_property("complete", True)

    def box(self, name: str) -> list[float]:
        """Left, upper, right and lower of a saved box."""
        found = parse(self.policy.read_bytes()).policy
        assert found is not None
        box = found.entity.layout[name]
        return [*map(float, (box.x, box.y, box.x + box.width, box.y + box.height))]


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.served.stop()


def point(page: Page, x: float, y: float) -> tuple[float, float]:
    page.locator("#sheet").scroll_into_view_if_needed()
    at = page.locator("#sheet").bounding_box()
    return at["x"] + x * at["width"], at["y"] + y * at["height"]


def drag(page: Page, start, end) -> None:
    page.mouse.move(*point(page, *start))
    page.mouse.down()
    page.mouse.move(*point(page, *end), steps=4)
    page.mouse.up()


def picture(page: Page, name: str) -> None:
    """Keep a picture of the page where one is asked for."""
    folder = os.environ.get("SPARSI_PICTURES")
    if folder:
        page.screenshot(path=f"{folder}/drawing-{name}.png", full_page=True)


FIELD = [0.0968, 0.3193, 0.9032, 0.3763]  # the second ruled field of the form


def test_a_box_drawn_by_mouse_snaps_to_the_lines_and_is_saved(site, page):
    site.open(page)
    drag(page, (0.103, 0.323), (0.897, 0.372))
    expect(page.locator("#name-1")).to_be_focused()
    page.keyboard.type("disease")
    page.keyboard.press("Enter")
    expect(page.locator("#sheet")).to_be_focused()
    page.get_by_role("button", name="Save boxes").click()
    expect(page.locator("#said")).to_have_text("Saved: 2 boxes in policy.toml")
    assert site.box("disease") == pytest.approx(FIELD, abs=0.004)
    text = site.policy.read_text()
    assert "# of the person" in text
    assert "# ours" in text
    assert 'image = "scan#disease"' in text
    page.get_by_role("button", name="Finish").click()
    expect(page.get_by_text("Finished.")).to_be_visible()
    assert site.finished == [True]


def test_boxes_that_overlap_are_red_with_the_rule_and_are_not_saved(site, page):
    site.open(page)
    page.locator("#snap").uncheck()
    drag(page, (0.2, 0.3), (0.6, 0.2))
    page.keyboard.type("disease")
    expect(page.locator(".box.over")).to_have_count(2)
    expect(page.locator("#findings .error")).to_contain_text("rule `pair` names both")
    picture(page, "overlap")
    page.get_by_role("button", name="Save boxes").click()
    expect(page.locator("#said")).to_contain_text("Not saved. POL214")
    assert site.policy.read_text() == POLICY


def test_a_box_is_drawn_moved_and_resized_by_keys_alone(site, page):
    site.open(page)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "sheet":
            break
    page.keyboard.press("n")
    expect(page.locator(".box")).to_have_count(2)
    start = (0.095, 0.25, 0.905, 0.29)  # below the box that is there
    for key in ("ArrowDown", "ArrowRight", "Shift+ArrowDown", "Shift+ArrowLeft",
                "Control+ArrowUp"):  # fmt: skip
        page.keyboard.press(key)
    expect(page.locator("#said")).to_contain_text("left 10.0")
    page.keyboard.press("Enter")
    page.keyboard.type("disease")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Save boxes").press("Enter")
    expect(page.locator("#said")).to_contain_text("Saved")
    left, upper, right, lower = start
    moved = [left + 0.005, upper + 0.0045, right, lower + 0.0095]
    assert site.box("disease") == pytest.approx(moved, abs=0.0002)
    page.locator("#sheet").focus()
    page.keyboard.press("Delete")
    expect(page.locator(".box")).to_have_count(1)


def test_a_box_is_drawn_by_touch(site, open_page):
    page = open_page(viewport={"width": 375, "height": 700}, has_touch=True)
    site.open(page)
    touch = page.context.new_cdp_session(page)

    def send(kind, *points):
        touch.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]},
        )

    send("touchStart", point(page, 0.12, 0.33))
    send("touchMove", point(page, 0.5, 0.35))
    send("touchMove", point(page, 0.88, 0.37))
    send("touchEnd")
    expect(page.locator("#name-1")).to_be_focused()
    page.keyboard.type("disease")
    page.get_by_role("button", name="Save boxes").tap()
    expect(page.locator("#said")).to_contain_text("Saved")
    assert site.box("disease") == pytest.approx(FIELD, abs=0.02)


def test_other_scans_are_stepped_through_aligned_or_set_aside(site, page):
    site.open(page)
    page.get_by_role("button", name="Next scan").click()
    expect(page.locator("#which")).to_have_text("1 of 2: 1.png")
    expect(page.locator("#aside")).to_be_hidden()
    page.get_by_role("button", name="Next scan").click()
    expect(page.locator("#aside")).to_contain_text("does not look like the template")
    expect(page.locator("#scan")).to_have_js_property("naturalWidth", 0)
    picture(page, "aside")
    page.get_by_role("button", name="Check all 3 scans").click()
    expect(page.locator("#said")).to_have_text(
        "3 scans: 1 set aside, 0 with ink at the border of a box"
    )
    expect(page.locator("#fits tbody tr")).to_have_count(3)


def test_the_link_works_once_and_no_other_way_leads_in(site, page, open_page):
    site.open(page)
    assert page.url == site.served.base + "/"
    second = open_page()
    second.goto(site.link)
    expect(second.get_by_role("alert")).to_contain_text("does not work")
    base = site.served.base
    cookies = {one["name"]: one["value"] for one in page.context.cookies()}
    with httpx2.Client(cookies=cookies) as known, httpx2.Client() as other:
        assert other.get(f"{base}/scans/0/1.png").status_code == 404
        assert known.get(f"{base}/scans/0/1.png").status_code == 200
        assert known.get(base, headers={"host": "evil.example"}).status_code == 421
        for headers in ({}, {"sec-fetch-site": "cross-site"}, {"x-form-token": "x"}):
            sent = known.post(f"{base}/save", json={"boxes": []}, headers=headers)
            assert sent.status_code == 403
        ours = {"sec-fetch-site": "same-origin"}
        for wrong in (b"[", b"[]", b'{"boxes": [{}]}', b"{}", b'{"boxes": 7}'):
            sent = known.post(f"{base}/check", content=wrong, headers=ours)
            assert sent.status_code == 400
        reply = known.get(base)
        assert "unsafe-inline" not in reply.headers["content-security-policy"]
        assert reply.headers["cache-control"] == "no-store"
    assert site.policy.read_text() == POLICY


def test_axe_finds_nothing_on_the_page_at_any_size(site, page):
    site.open(page)
    drag(page, (0.2, 0.3), (0.6, 0.2))
    page.keyboard.type("disease")
    expect(page.locator("#findings .error")).to_be_visible()
    assert faults(page) == []


def test_axe_finds_nothing_where_the_link_is_asked_for(site, page):
    page.goto(site.served.base)
    assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_the_page_can_be_seen_at_every_width(site, open_page, scheme, width):
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    site.open(page)
    drag(page, (0.103, 0.323), (0.897, 0.372))
    page.keyboard.type("disease")
    expect(page.locator("#findings")).to_contain_text("No errors")
    sheet = page.locator("#sheet").bounding_box()
    assert sheet["width"] > 0.6 * min(width, 900)
    picture(page, f"{scheme}-{width}")


def test_nothing_of_a_scan_is_in_the_page_itself(site, page):
    """The picture alone shows values; it is fetched with the session."""
    site.open(page)
    assert "data:image" not in page.content()
    body = page.request.get(f"{site.served.base}/scans/0/1.png").body()
    assert io.BytesIO(body).read(8) == b"\x89PNG\r\n\x1a\n"
