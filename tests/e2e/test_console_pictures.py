"""Every screen of the console, as it looks: with work under way and empty, light and dark.

By itself the suite only looks whether each can be taken; ``make pictures`` writes them to
``docs/pictures/console``, for people to look at.
"""

import os
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page

from connectors.base import Money
from dispatcher.access import OPERATIONS
from dispatcher.access.roles import scopes_of
from dispatcher.access.sessions import LINK_ROLES
from dispatcher.ledger.chains import seal
from dispatcher.operations import runs
from dispatcher.operations.sampling import Sampler
from dispatcher.operations.workspace import Workspace
from dispatcher.store import lease, settings, tasks
from dispatcher.store import pause as pauses
from dispatcher.surfaces.console.screens import SCREENS
from tests import builders
from tests.e2e.test_accessibility import fill
from tests.e2e.test_console_browser import Running, sign_in, sign_in_as
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_console import PLACES, RULES

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

KEPT = os.environ.get("SPARSI_PICTURES")
"""Folder that pictures are written to; without it, of each screen one is taken."""
LOOKS = (
    [("light", 1280), ("dark", 1280), ("light", 375), ("dark", 320)]
    if KEPT
    else [("dark", 375)]
)
ACTS = {
    "act-form": "/do/merge-workers?reason=one payout address&accounts="
    + (
        "inhouse/ann&accounts=mturk/A11X"
        if KEPT
        else "inhouse/worker-2&accounts=inhouse/worker-3"
    ),
}


FIELDS = """
a = { ask = "transcribe", question = "What does the label say?" }
b = { ask = "transcribe" }
c = { ask = "choose", choices = ["red", "blue", "green"] }
d = { ask = "transcribe" }
"""


def places(*, full: bool) -> dict[str, str]:
    """Where each screen is that a session by link may see, by the name of its picture."""
    found = {}
    for screen in SCREENS:
        place = PLACES.get(screen.path, screen.path)
        seen = OPERATIONS[screen.operation] in scopes_of(LINK_ROLES)
        if seen and place is not None and (full or screen.path == place):
            found[screen.name] = place.replace(
                "/x/ann", f"/inhouse/{'ann' if KEPT else 'worker-0'}"
            )
    return found | (ACTS if full else {})


def work(case: Case, clock) -> None:
    """Nine hours of work at two connectors, as the daemon would have kept them."""
    case.apply(policy(RULES, FIELDS))
    people = [f"inhouse/{name}" for name in ("ann", "bob", "cat", "dan", "eve", "fay")]
    people += [f"mturk/A{number}X" for number in range(11, 19)]
    case.add(*people)
    case.load(*((f"ry-{n}", f"other-{n}", n, "ac") for n in range(20)))
    case.load(*((f"rx-{n}", f"person-{n % 40}", n, "abcd") for n in range(80)))
    clock.now = case.now
    with case.store.write() as tx:
        epoch = lease.take(
            tx, lease.SHARD, "host-a/b/4121/9", clock(), clock() + 10**12
        )
    sampler = Sampler(case.store, clock)
    for step in range(36):
        clock.advance(15 * 60)
        case.now = clock.now
        for turn in range(1 + (step * 5) % 2):
            number = step * 2 + turn
            who = people[number % len(people)]
            seen = f"rx-{number}.a rx-{number}.c" + (
                f" rx-{number}.d" * (number % 9 == 0)
            )
            case.book((who, seen))
        with case.store.read() as tx:
            ids = [task.id for task in tasks.open_tasks(tx)]
        builders.answer_tasks(case.store, ids[:-2], at=clock())
        done = [case.entries[f"rx-{step * 2}.{name}"] for name in "ac"]
        builders.save_results(
            case.store, done, "conflict" if step % 11 == 5 else "answered"
        )
        sampler.tick(epoch)
    dispute(case, "inhouse/gil", "inhouse/hal", "inhouse/ida")
    builders.settle_messages(
        case.store, "dead", account=people[7], tries=12, error="token expired"
    )
    builders.block(case.store, people[2])
    with case.store.write() as tx:
        pauses.pause(tx, "connector:mturk", "token expired", clock() - 23 * 60 * 10**6)
        seal(tx, at=case.tick())


def dispute(case: Case, *people: str) -> None:
    """Three workers answer some fields, and do not always agree."""
    case.add(*people)
    colours = ("red", "red", "blue", "green")
    for number in range(24):
        field = f"ry-{number % 20}.{'c' if number < 20 else 'a'}"
        case.book(*((who, field) for who in people))
        texts = [colours[number % 4], colours[number % 4], colours[(number * 7) % 4]]
        if number >= 20:
            texts = ["Ibuprofen 400", "Ibuprofen 40", "Ibuprofen 400 mg"]
        builders.dispute(case.store, case.entries[field], *texts, at=case.now)
        if number < 17:
            builders.save_results(case.store, [case.entries[field]], value=b"red")
    rests = settings.CircuitRow(
        case.now - 4 * 10**8, case.now + 9 * 10**8, 4, "HTTP 429"
    )
    with case.store.write() as tx:
        settings.note_circuit(tx, "folder", rests)
        settings.note_balance(tx, "folder", "USD:214.10", case.now - 10**9)
    cap = runs.BudgetChange({"cap": Money.read("GBP:400")})
    runs.set_budget(
        Workspace(Path("/nonexistent"), clock=lambda: case.now, actor="eve"),
        case.store,
        "default",
        cap,
    )


def judge(page: Page, served: Running, picture: Path) -> None:
    """Take the page on which one conflict is judged, by letters."""
    page.goto(f"{served.base}/answers/judge")
    page.get_by_label("Why you judge").fill("compared with the scan")
    page.get_by_role("button", name="Begin").click()
    page.locator(".choices").wait_for()
    page.screenshot(path=picture, full_page=True)


@pytest.mark.parametrize("state", ["full", "empty"])
def test_every_screen_can_be_looked_at(state, sqlite_store, clock, open_page, tmp_path):
    case = Case(sqlite_store)
    full = state == "full"
    if full:
        (work if KEPT else lambda case, _: fill(case))(case, clock)
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
            if KEPT and full:
                sign_in_as(page, served, "operator", "reviewer")
                judge(page, served, folder / f"judge-open-{scheme}-{width}.png")
            page.close()
        for picture in folder.glob("*.png") if KEPT else ():
            with Image.open(picture) as image:
                image.convert("RGB").quantize(96).save(picture, optimize=True)
    finally:
        served.stop()
