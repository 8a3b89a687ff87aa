"""Token buckets of the task page."""

import pytest

from dispatcher.surfaces.pace import Pace, Rate

SECOND = 1_000_000


def test_a_burst_passes_and_then_the_rate_holds():
    pace = Pace(Rate(per_minute=60, burst=2))
    assert [pace.wait("ann", 0) for _ in range(3)] == [0, 0, 1]
    assert pace.wait("ann", SECOND) == 0
    assert pace.wait("ann", SECOND) == 1


def test_callers_do_not_wait_for_one_another():
    pace = Pace(Rate(per_minute=1, burst=1))
    assert pace.wait("ann", 0) == 0
    assert pace.wait("bob", 0) == 0
    assert pace.wait("ann", 0) == 60


def test_a_clock_that_goes_back_gives_nothing_away():
    pace = Pace(Rate(per_minute=60, burst=1))
    assert pace.wait("ann", 10 * SECOND) == 0
    assert pace.wait("ann", 5 * SECOND) == 1


def test_only_so_many_callers_are_remembered(monkeypatch):
    monkeypatch.setattr("dispatcher.surfaces.pace._REMEMBERED", 2)
    pace = Pace(Rate(per_minute=1, burst=1))
    for caller in ("ann", "bob", "cat"):
        assert pace.wait(caller, 0) == 0
    assert pace.wait("cat", 0) > 0
    assert pace.wait("ann", 0) == 0  # forgotten


@pytest.mark.parametrize("name", ["per_minute", "burst"])
def test_a_rate_below_one_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        Rate(**{"per_minute": 1, "burst": 1, name: 0})
