"""The short form of the run of prescriptions through the emulated MTurk."""

import pytest

from tests.markets.mturk_run import run
from tests.markets.running import Sizes


@pytest.mark.markets
def test_all_comes_in_nothing_is_doubled_and_what_is_spent_is_booked(tmp_path):
    found = run(tmp_path / "run", Sizes(answers=1))
    assert not found["wrong"], found
    assert found["finished"], found
    assert found["hits"] > 0
    assert {"throttle", "lost", "fault before", "fault after"} <= set(
        found["faults_made"]
    )
