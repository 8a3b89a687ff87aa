"""What one stranger could know, as a person looks at it: light and dark, wide and narrow.

``python -m tests.e2e.test_picture_page`` draws the pictures of docs/pictures anew.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from dispatcher.operations import pictures
from dispatcher.stages.intake.table import Options
from dispatcher.surfaces import picture as pages
from dispatcher.surfaces.demo.forms import FIELDS, invent
from policies.document import parse
from policies.document.samples import sample_text
from tests.e2e.conftest import CHROMIUM
from tests.e2e.test_accessibility import faults

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
STAMP = "Drawn from prescriptions.toml and invented prescriptions."
SHOTS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 320)]


def draw(folder: Path) -> Path:
    """Draw the demo's policy, measured on 600 invented prescriptions."""
    records = folder / "prescriptions.csv"
    with records.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["rx_id", "patient_id", *FIELDS])
        for one in invent(600, np.random.default_rng(7)):
            rows.writerow([one.rx_id, one.patient_id, *map(one.truth.get, FIELDS)])
    policy = parse(sample_text("prescriptions").encode(), "prescriptions.toml").policy
    found = pictures.of_file(policy, folder, records, Options(), seconds=200)
    page = folder / "picture.html"
    page.write_text(pages.page(found, STAMP))
    (folder / "frontier.html").write_text(pages.frontier_page(found.trade, STAMP))
    (folder / "frontier.svg").write_text(pages.frontier_svg(found.trade))
    return page


def shoot(page: Page, folder: Path) -> Iterator[Path]:
    """Take the page in every scheme and width, in few colours: small files.

    And of the light one the records as strangers see them, for the README.
    """
    for scheme, width in SHOTS:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 800})
        path = folder / f"stranger-{scheme}-{width}.png"
        page.screenshot(path=path, full_page=True)
        yield fewer_colours(path)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 800})
    path = folder / "one-stranger.png"
    page.locator(".records").screenshot(path=path)
    yield fewer_colours(path)


def fewer_colours(path: Path) -> Path:
    with Image.open(path) as whole:
        whole.convert("RGB").quantize(128).save(path, optimize=True)
    return path


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("picture"))


@pytest.mark.parametrize("name", ["picture.html", "frontier.html"])
def test_the_page_has_no_fault_in_any_size_light_or_dark(drawn, open_page, name):
    page = open_page(bypass_csp=True)
    page.goto(drawn.with_name(name).as_uri())
    assert faults(page) == []


def test_the_page_shows_itself_without_scripts_and_asks_for_nothing(drawn, open_page):
    page = open_page(java_script_enabled=False)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(drawn.as_uri())
    assert asked == [drawn.as_uri()]
    box = page.locator("article").first.bounding_box()
    assert box["width"] < 500  # its own style was let in
    assert page.get_by_text("One stranger can see").count() >= 1


def test_pictures_of_the_page_can_be_drawn(drawn, page, tmp_path):
    page.goto(drawn.as_uri())
    for path in shoot(page, tmp_path):
        assert path.stat().st_size < 200_000
        with Image.open(path) as shot:
            if path.stem == "one-stranger":  # fits a first screen
                assert shot.height < shot.width / 2
            else:
                assert shot.width in (320, 1280)
                assert shot.height > 1_000


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as here, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        opened = browser.new_page()
        opened.goto(draw(Path(here)).as_uri())
        sys.stdout.write("".join(f"{path}\n" for path in shoot(opened, PICTURES)))
        (PICTURES / "frontier.svg").write_text(
            (Path(here) / "frontier.svg").read_text()
        )
        browser.close()
