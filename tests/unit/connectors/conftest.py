"""What tests of connectors speak to."""

import pytest

from tests.contract.receiver import receiving


@pytest.fixture
def outside():
    """A real HTTP server on the loopback that notes what it got."""
    with receiving() as receiver:
        yield receiver
