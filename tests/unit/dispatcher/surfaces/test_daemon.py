"""What the daemon reads from the settings, and what it says as it stops."""

import pytest

from dispatcher.core.config import SurfaceSettings
from dispatcher.surfaces.applications import page_settings
from dispatcher.surfaces.daemon import stopping


@pytest.mark.parametrize(
    ("in_hand", "waits"),
    [
        (0, "waiting for what is under way"),
        (1, "waiting for 1 task in workers' hands, at most 30 s, then for what is under way"),
        (None, "waiting for some tasks in workers' hands, at most 30 s, then for what"),
    ],
)  # fmt: skip
def test_a_daemon_that_stops_says_what_it_waits_for(in_hand, waits):
    assert waits in stopping(in_hand, 30.0)


def test_workers_are_shown_whom_they_may_ask():
    found = page_settings(
        SurfaceSettings(contact="ann@example.org", worker_url="https://w/")
    )
    assert (found.contact, found.https) == ("ann@example.org", True)
