"""When a tick is due."""

from datetime import UTC, datetime, timedelta

from dispatcher.app.daemon import Every


def test_turns_that_were_missed_for_a_year_are_not_counted_one_by_one():
    """APScheduler asks for one time after another until one is later than now."""
    every = Every(seconds=2, timezone=UTC)
    last, now = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert every.get_next_fire_time(last, now) == now + timedelta(seconds=2)
    assert every.get_next_fire_time(now, now) == now + timedelta(seconds=2)
    late = now + timedelta(seconds=1.5)
    assert every.get_next_fire_time(now, late) == now + timedelta(seconds=2)
