"""Every screen of the console, as it looks: with work under way and empty, light and dark.

By itself the suite only looks whether each can be taken; ``make pictures`` writes them to
``docs/pictures/console``, for people to look at.
"""

import os
from pathlib import Path

import pytest

from dispatcher.surfaces.console.screens import SCREENS
from tests.e2e.test_accessibility import fill
from tests.e2e.test_console_browser import Running, sign_in
from tests.integration.ledger_cases import Case
from tests.integration.test_console import PLACES

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

KEPT = os.environ.get("SPARSI_PICTURES")
"""Folder that pictures are written to; without it, of each screen one is taken."""
LOOKS = (
    [(scheme, width) for scheme in ("light", "dark") for width in (1280, 375, 320)]
    if KEPT
    else [("dark", 375)]
)
ACTS = {
    "act-form": "/do/merge-workers?accounts=inhouse/worker-2&accounts=inhouse/worker-3"
    "&reason=one payout address",
}


def places(*, full: bool) -> dict[str, str]:
    """Where each screen is, by the name of its picture."""
    found = {}
    for screen in SCREENS:
        place = PLACES.get(screen.path, screen.path)
        if place is not None and (full or screen.path == place):
            found[screen.name] = place.replace("/x/ann", "/inhouse/worker-0")
    return found | (ACTS if full else {})


@pytest.mark.parametrize("state", ["full", "empty"])
def test_every_screen_can_be_looked_at(state, sqlite_store, clock, open_page, tmp_path):
    case = Case(sqlite_store)
    full = state == "full"
    if full:
        fill(case)
    clock.now = case.now
    served = Running(case, clock)
    folder = Path(KEPT) if KEPT else tmp_path
    try:
        for scheme, width in LOOKS:
            page = open_page(
                color_scheme=scheme, viewport={"width": width, "height": 800}
            )
            page.clock.set_fixed_time(case.now / 1_000_000)
            sign_in(page, served)
            for name, place in places(full=full).items():
                page.goto(served.base + place)
                ending = "" if full else "-empty"
                picture = folder / f"{name}{ending}-{scheme}-{width}.png"
                page.screenshot(path=picture, full_page=True)
                assert picture.stat().st_size > 5_000, name
                if name == "act-form":
                    page.get_by_role("button", name="Preview").click()
                    page.locator("#would").wait_for()
                    after = folder / f"act-preview-{scheme}-{width}.png"
                    page.screenshot(path=after, full_page=True)
            page.close()
    finally:
        served.stop()
