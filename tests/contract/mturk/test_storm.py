"""The short form of the storm of pieces of work at the emulated MTurk."""

import connectors.mturk.api
from connectors.mturk import reviewing
from tests.markets.mturk_storm import run


def test_no_hit_and_no_bonus_is_doubled_whatever_fails(monkeypatch):
    monkeypatch.setattr(connectors.mturk.api, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(reviewing, "MOST_READ", 6)  # so that a look is not the last
    found = run(14, workers=5, share=0.1)
    assert not found["wrong"], found
    assert {"throttle", "lost", "fault before", "fault after"} <= set(
        found["faults_made"]
    )
