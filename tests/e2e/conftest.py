"""Fixtures for tests that drive a real browser."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

PATIENCE = 120_000  # milliseconds; what is waited for comes much sooner
expect.set_options(timeout=PATIENCE)

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE
        )
        yield browser
        browser.close()


def complaints(message: ConsoleMessage) -> list[str]:
    """What the browser complains of; a reply that is meant to refuse is no fault."""
    refused = message.text.startswith("Failed to load resource")
    return [message.text] if message.type == "error" and not refused else []


@pytest.fixture
def open_page(chromium) -> Iterator[Callable[..., Page]]:
    """Opens a page in a context of its own, made with the options given.

    A context that a test makes by itself would wait for half a minute only.
    """
    contexts: list[BrowserContext] = []

    def made(**options) -> Page:
        context = chromium.new_context(**options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        return context.new_page()

    yield made
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page) -> Iterator[Page]:
    """A page that may not have complained of anything when the test is over."""
    opened = open_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.extend(complaints(message)))
    yield opened
    opened.context.close()
    assert faults == []
