"""The console over a store of a test, with what its actions need beside it."""

from contextlib import contextmanager
from pathlib import Path

from dispatcher.core.private_files import ScratchFolder
from dispatcher.operations.status import status
from dispatcher.operations.workspace import Workspace
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.api.events import Stream
from dispatcher.surfaces.api.requests import Requests
from dispatcher.surfaces.console import console_app

HOST = "http://127.0.0.1:8420"
SAME = {"sec-fetch-site": "same-origin"}
"""What a browser says of a request that comes from our own page."""


def make_console(
    store,
    clock,
    directory: Path = Path("/nonexistent"),
    requests: Requests | None = None,
    **options,
):
    """Make the application; a test that acts gives a directory with settings."""
    workspace = Workspace(directory, clock=clock, actor="daemon")
    shared = Shared(
        requests or Requests(store, clock),
        Stream(store),
        lambda: status(store, clock()),
        ScratchFolder(directory / "api-files"),
    )
    return console_app(workspace, store, shared=shared, **options)


@contextmanager
def console_that_acts(store, clock, directory: Path, **options):
    """The application; at the end what it began is waited for, and its files are closed."""
    requests = Requests(store, clock)
    yield make_console(store, clock, directory, requests, **options)
    requests.wait()
    requests.close()
