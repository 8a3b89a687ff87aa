"""The short form of the run of prescriptions through a real Turkle server."""

import pytest

from tests.markets.running import Sizes
from tests.markets.turkle_run import run


@pytest.mark.markets
def test_nobody_sees_at_turkle_or_by_us_what_was_not_booked(tmp_path):
    found = run(tmp_path / "run", Sizes())
    assert not found["wrong"], found
    assert found["finished"], found
    assert min(found["races"], found["market_returns"], found["market_submits"]) > 0
