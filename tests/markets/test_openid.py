"""Operators sign in by a real, certified OpenID provider, in a real Chromium."""

from contextlib import ExitStack, closing

import pytest
from playwright.sync_api import Page, expect

from dispatcher.access import sessions, users
from dispatcher.access.oidc import CALLBACK, Provider
from dispatcher.app.servers import Swap
from dispatcher.core.config import OidcSettings
from dispatcher.operations.workspace import wall_clock
from dispatcher.surfaces.console import ConsoleSettings
from tests import edits
from tests.conftest import counting_entropy
from tests.e2e.browsing import Served
from tests.e2e.conftest import chromium, open_page  # noqa: F401 - fixtures
from tests.integration.console_house import console_that_acts
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_console import RULES
from tests.markets.openid_server import openid_server

pytestmark = [
    pytest.mark.markets,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SECRET = "a secret/with +signs"


async def _nothing(*_) -> None:
    raise AssertionError("not yet")


def enter(page: Page, user: str) -> None:
    """Go through its pages of sign-in and consent, as far as they are shown."""
    page.get_by_placeholder("Enter any login").fill(user)
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    if page.get_by_role("button", name="Continue").count():
        page.get_by_role("button", name="Continue").click()


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_certified_provider_signs_in_proves_and_signs_out(
    sqlite_store,
    tmp_path,
    open_page,  # noqa: F811
    method,
):
    case = Case(sqlite_store, wall_clock())
    case.apply(policy(RULES))
    with ExitStack() as stack:
        swap = Swap(_nothing)
        console = Served(swap)
        stack.callback(console.stop)
        client = {
            "client_id": "dispatcher",
            "client_secret": SECRET,
            "redirect_uris": [console.base + CALLBACK],
            "token_endpoint_auth_method": method,
            "backchannel_logout_uri": f"{console.base}{CALLBACK}/logout",
            "backchannel_logout_session_required": False,
        }
        issuer = stack.enter_context(openid_server(tmp_path, client))
        settings = OidcSettings(
            issuer=issuer,
            client_id="dispatcher",
            name="Example ID",
            allow_private=["localhost"],
        )
        provider = stack.enter_context(
            closing(Provider(settings, console.base, SECRET))
        )
        swap.app = stack.enter_context(
            console_that_acts(
                case.store,
                wall_clock,
                tmp_path,
                settings=ConsoleSettings(stale=0),
                provider=provider,
            )
        )
        link = users.add_user(
            case.store, "ann", ["admin"], wall_clock(), counting_entropy()
        )
        page = open_page()
        page.goto(f"{console.base}/enrol#k={link}")
        page.get_by_role("button", name="Sign in with Example ID").click()
        enter(page, "ann")
        expect(page.locator("[data-page=overview]")).to_be_visible()

        other = open_page()  # of nobody who may come in
        other.goto(f"{console.base}/login")
        other.get_by_role("button", name="Sign in with Example ID").click()
        enter(other, "eve")
        expect(other.get_by_role("heading")).to_have_text("You may not come in here")

        with case.store.write() as tx:  # asked who they are, though just signed in
            edits.age_sign_ins(tx)
        page.goto(f"{console.base}/do/make-token")
        page.get_by_label("Name").fill("nightly")
        page.get_by_label("Scopes").fill("status:read")
        page.get_by_label("Days").fill("30")
        page.get_by_role("button", name="Preview").click()
        with page.context.expect_page() as opened:
            page.get_by_role("button", name="Sign in with Example ID once").click()
        enter(opened.value, "ann")
        expect(opened.value.get_by_role("heading")).to_have_text(
            "You have signed in once more"
        )
        opened.value.close()
        page.get_by_role("button", name="Make").click()
        expect(page.get_by_text("Shown this once")).to_be_visible()

        page.goto(f"{issuer}/session/end")
        page.get_by_role("button", name="Yes, sign me out").click()
        expect(page.get_by_text("Sign-out Success")).to_be_visible()
        assert sessions.list_sessions(case.store, wall_clock()) == []
