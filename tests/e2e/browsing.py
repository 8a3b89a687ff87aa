"""An application on a port of its own, and a browser on its task page."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from playwright.sync_api import Page, expect

from tests.patience import until


def late_script(app, seconds: float):
    """The same application, whose script arrives so many seconds after its page."""

    async def served(scope, receive, send) -> None:
        if scope.get("path", "").endswith(".js"):
            await asyncio.sleep(seconds)
        await app(scope, receive, send)

    return served


class Served:
    """An ASGI application on a free port of this machine."""

    def __init__(self, app) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(
            target=self.server.run, args=([self.listener],), daemon=True
        )
        self.thread.start()
        until(lambda: self.server.started, "the server has started", pause=0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.listener.close()


def keys_work(page: Page) -> None:
    """Wait until a task's script has run: a focus may be there before it, by HTML."""
    expect(page.locator("#keys-open")).to_be_visible()


@contextmanager
def moved_on(page: Page) -> Iterator[None]:
    """Wait until the task that is on the screen before is not there any more."""
    token = page.locator("#task").get_attribute("data-token")
    yield
    expect(page.locator(f'#task[data-token="{token}"]')).to_have_count(0)


def ready(page: Page) -> None:
    """Wait until a task's script has run, and keys go to the box."""
    keys_work(page)
    expect(page.locator("#answer")).to_be_focused()
