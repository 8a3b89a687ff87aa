"""The short form of the run of check-ins to advertisers over real feeds."""

from benchmarks.paper_data import drawn_checkins
from tests.markets.checkins_run import Sizes, run


def test_advertisers_get_what_is_booked_and_can_link_no_friends(tmp_path):
    """500 entries to four: more for each webhook than one message holds."""
    data = drawn_checkins(7, users=100, entries=500, friendships=100)
    found = run(tmp_path / "run", data, Sizes(4, "both", seconds=1200, patience=240))
    assert not found["wrong"], found
    assert found["verified"], found
    assert min(found["received"].values()) > 100
    assert found["messages"] > 4
    assert found["placed"] == 500
    assert found["that_can_meet"] == 47
