"""A real Chromium goes through an OpenID provider of another site, and comes back."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, expect

from dispatcher.access import users
from dispatcher.app.servers import Swap
from dispatcher.surfaces.console import ConsoleSettings
from tests.conftest import counting_entropy
from tests.e2e.browsing import Served
from tests.integration.console_house import console_that_acts
from tests.integration.ledger_cases import Case, policy
from tests.integration.openid_provider import OpenidProvider
from tests.integration.test_console import RULES

pytestmark = [
    pytest.mark.browser,
    # Playwright's own event loop is still open when its thread's objects are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def case(sqlite_store) -> Case:
    made = Case(sqlite_store)
    made.apply(policy(RULES))
    made.add("x/ann", "x/bob")
    return made


@pytest.fixture
def idp(clock) -> Iterator[OpenidProvider]:
    served = OpenidProvider(clock, "localhost")  # another site than 127.0.0.1
    yield served
    served.stop()


@pytest.fixture
def console(case, clock, tmp_path, idp) -> Iterator[Served]:
    clock.now = case.now
    with ExitStack() as stack:
        swap = Swap(_nothing)
        reserved = Served(swap)  # its address is what the provider sends back to
        stack.callback(reserved.stop)
        provider = idp.provider(reserved.base)
        stack.callback(provider.close)
        swap.app = stack.enter_context(
            console_that_acts(
                case.store,
                clock,
                tmp_path,
                settings=ConsoleSettings(stale=0),
                provider=provider,
            )
        )
        yield reserved


async def _nothing(*_) -> None:
    raise AssertionError("not yet")


def enter(page: Page, user: str) -> None:
    expect(page).to_have_title("Example ID")
    page.get_by_label("User").fill(user)
    page.get_by_role("button", name="Enter").click()


def test_a_user_enrols_signs_in_and_proves_it_by_the_provider(
    console, idp, case, clock, open_page
):
    link = users.add_user(case.store, "ann", ["admin"], clock(), counting_entropy())
    page = open_page()
    page.goto(f"{console.base}/enrol#k={link}")
    page.get_by_role("button", name="Sign in with Example ID from now on").click()
    enter(page, "ann@idp")
    expect(page.locator("[data-page=overview]")).to_be_visible()
    cookies = {one["name"]: one for one in page.context.cookies()}
    assert cookies["console"]["sameSite"] == "Strict"
    assert "console-way" not in cookies
    page.get_by_role("button", name="Sign out").click()

    page.get_by_role("button", name="Sign in with Example ID").click()
    enter(page, "ann@idp")
    expect(page.locator("[data-page=overview]")).to_be_visible()
    assert page.url == f"{console.base}/", "no code is left in the address"

    clock.advance(600)
    page.goto(f"{console.base}/do/make-token")
    page.get_by_label("Name").fill("nightly")
    page.get_by_label("Scopes").fill("status:read")
    page.get_by_label("Days").fill("30")
    page.get_by_role("button", name="Preview").click()
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Sign in with Example ID once more").click()
    enter(opened.value, "ann@idp")
    expect(opened.value.get_by_role("heading")).to_have_text(
        "You have signed in once more"
    )
    opened.value.close()
    page.get_by_role("button", name="Make").click()
    expect(page.get_by_text("Shown this once")).to_be_visible()


@pytest.mark.long
def test_without_scripts_the_provider_signs_in_all_the_same(
    console, idp, case, clock, open_page
):
    link = users.add_user(case.store, "ann", ["viewer"], clock(), counting_entropy())
    page = open_page(java_script_enabled=False)
    page.goto(f"{console.base}/enrol")
    page.get_by_label("The link that you were given").fill(link)
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Sign in with Example ID from now on").click()
    enter(page, "ann@idp")
    expect(page.locator("[data-page=overview]")).to_be_visible()
