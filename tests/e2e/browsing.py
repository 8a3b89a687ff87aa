"""An application on a port of its own, and a browser on its task page."""

import socket
import threading

import uvicorn
from playwright.sync_api import Page, expect

from tests.patience import until


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


def ready(page: Page) -> None:
    """Wait until the task page's script has run, and keys go to the box."""
    expect(page.locator("#keys-open")).to_be_visible()
    expect(page.locator("#answer")).to_be_focused()
