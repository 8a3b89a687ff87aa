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
from dispatcher.access import OPERATIONS, sessions, users
from dispatcher.access.roles import scopes_of
from dispatcher.access.sessions import LINK_ROLES
from dispatcher.core import keys
from dispatcher.ledger.chains import seal
from dispatcher.operations import notices, plans, runs
from dispatcher.operations import people as made_up
from dispatcher.operations.sampling import Sampler
from dispatcher.operations.workspace import Workspace
from dispatcher.store import lease, records, settings, tasks
from dispatcher.store import pause as pauses
from dispatcher.store import people as stored
from dispatcher.surfaces.console.screens import SCREENS
from tests import builders
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


POLICY = b"""version = 1
name = "prescriptions"

[budget]
t = 3

[entity.prescription]
key = "id"
subject = "person"
time = "when"

[entity.prescription.fields]
patient = { ask = "transcribe", question = "What does the label say?" }
disease = { ask = "transcribe" }
drug = { ask = "choose", choices = ["red", "blue", "green"] }
doctor = { ask = "transcribe" }

[property.who-what]
of = ["patient", "disease"]

[property.history]
scope = "subject"
of = ["drug", "doctor"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
tau = 0.75
"""
FEW, ALL = ("patient", "drug"), ("patient", "disease", "drug", "doctor")
TALLEST = 2_400
"""Pixels of a picture: a list on a phone goes on for long."""
OTHERS = {
    "ada": ("admin",),
    "pam": ("privacy-officer",),
    "eve": ("operator", "reviewer"),
}
"""People who see what a session by link does not."""


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
    case.apply(POLICY)
    with case.store.write() as tx:
        records.run(tx, "default", case.now)
    people = [f"inhouse/{name}" for name in ("ann", "bob", "cat", "dan", "eve", "fay")]
    people += [f"mturk/A{number}X" for number in range(11, 19)]
    case.add(*people)
    case.load(*((f"ry-{n}", f"other-{n}", n, FEW) for n in range(20)))
    case.load(*((f"rx-{n}", f"person-{n % 40}", n, ALL) for n in range(80)))
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
            seen = f"rx-{number}.patient rx-{number}.drug"
            seen += f" rx-{number}.doctor" * (number % 9 == 0)
            case.book((who, seen))
        with case.store.read() as tx:
            ids = [task.id for task in tasks.open_tasks(tx)]
        spent = 20_000_000 + 7_000_000 * (step % 5)
        builders.answer_tasks(case.store, ids[:-2], at=clock() + spent)
        done = [case.entries[f"rx-{step * 2}.{name}"] for name in FEW]
        builders.save_results(case.store, done)
        sampler.tick(epoch)
    dispute(case, "inhouse/gil", "inhouse/hal", "inhouse/ida")
    builders.settle_messages(
        case.store, "dead", account=people[7], tries=12, error="token expired"
    )
    builders.block(case.store, people[2])
    with case.store.write() as tx:
        pauses.pause(tx, "connector:mturk", "token expired", clock() - 23 * 60 * 10**6)
        seal(tx, at=case.tick())
    plan(case)
    settle(case)


def plan(case: Case) -> None:
    """Two plans of what is open, to be compared; the second is in force."""
    space = Workspace(Path("/nonexistent"), clock=case.tick, actor="eve")
    for seed in (1, 2):
        plans.draft(space, case.store, partial=True, seed=seed, time_limit=2)
    plans.apply(space, case.store, 2)


def settle(case: Case) -> None:
    """Users, tokens and a webhook, for the pages of settings."""
    space = Workspace(Path("/nonexistent"), clock=lambda: case.now, actor="ada")
    for name, roles in OTHERS.items():
        users.add_user(case.store, name, list(roles), case.now, os.urandom)
    scopes = ["records:write", "status:read"]
    made_up.make_token(space, case.store, "month-end", scopes, days=30)
    notices.add_webhook(space, case.store, "https://example.org/hooks/sparsi")


def dispute(case: Case, *people: str) -> None:
    """Three workers answer some fields, and do not always agree."""
    case.add(*people)
    colours = ("red", "red", "blue", "green")
    for number in range(24):
        field = f"ry-{number % 20}.{'drug' if number < 20 else 'patient'}"
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


def more(case: Case) -> dict[str, str]:
    """Pages of one thing, and of other people: who looks and its name, and where."""
    secret = case.store.key("pseudonym-key")
    record, person = (
        keys.pseudonym(secret, *one) for one in (("r", "rx-8"), ("s", "person-8"))
    )
    return {
        "eve plan": "/plans/2",
        "eve plans": "/plans/compare?one=1&other=2",
        "eve set": f"/rules/history/{person}",
        "eve record": f"/records/{record}",
        "eve error": "/workers/inhouse/nobody",
        "pam audit-log": "/audit",
        "pam events": "/audit/events",
        "pam person": f"/audit/people/{person}",
        "ada settings": "/settings",
        "ada webhook": "/settings/webhooks/1",
        "ada add-connector": "/do/add-connector",
    }


def become(page: Page, served: Running, name: str) -> None:
    """Give a browser the session of a user."""
    with served.case.store.write() as tx:
        (user,) = (one for one in stored.users(tx) if one.name == name)
        secret = sessions.open_session(tx, served.clock(), os.urandom, user)
    page.context.add_cookies([
        {"name": "console", "value": secret, "url": served.base}
    ])  # fmt: skip


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
        for scheme, width in LOOKS if full else LOOKS[::3]:
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
                ending, here = f"{scheme}-{width}.png", ""
                for name, place in more(case).items():
                    who, _, name = name.partition(" ")  # noqa: PLW2901
                    if who != here:
                        become(page, served, here := who)
                    page.goto(served.base + place)
                    page.screenshot(path=folder / f"{name}-{ending}", full_page=True)
                become(page, served, "eve")
                judge(page, served, folder / f"judge-open-{ending}")
            page.close()
        for picture in folder.glob("*.png") if KEPT else ():
            with Image.open(picture) as image:
                shown = image.crop((0, 0, image.width, min(image.height, TALLEST)))
                shown.convert("RGB").quantize(48).save(picture, optimize=True)
    finally:
        served.stop()
