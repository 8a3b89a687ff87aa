"""An emulated MTurk and its clock, for all tests of the connector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import connectors.mturk.api
from connectors.testing.suite import NOW
from tests.contract.mturk_bench import OPENED
from tests.contract.mturk_server import Mturk, mturk_server


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock, monkeypatch) -> Iterator[Mturk]:
    """Its markets wait for nothing, and are closed at the end."""
    monkeypatch.setattr(connectors.mturk.api, "_FIRST_WAIT", 0.001)
    with mturk_server(clock) as running:
        yield running
        while OPENED:
            OPENED.pop().close()
