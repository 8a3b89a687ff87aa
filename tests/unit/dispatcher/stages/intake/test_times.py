"""Moments: ISO 8601 to microseconds UTC, or refused without a repeat of the text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.stages.intake.times import microseconds

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01", 0),
        ("1970-01-02", DAY),
        (" 1970-01-01 00:01 ", 60_000_000),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T00:00:00.000001+00:00", 1),
        ("1970-01-01T00:00:00,5", 500_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 01:00+01", 0),
        ("1970-01-01T00:00:00-0030", 1_800_000_000),
        ("1970-01-01 00:00:00 UTC", 0),
        ("1970-01-01T00:00:00.1000000", 100_000),
        ("1969-12-31T23:59:59.999999", -1),
        ("0001-01-01", -62_135_596_800_000_000),
    ],
)
def test_read(text, moment):
    assert microseconds(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "31.02.2026",
        "2026-02-31",
        "2026-02-01T25:00",
        "2026-02-01T10:00:00+25:00",
        "20260201",
        "now",
        "1700000000",
        "1970-01-01T00:00:00.0000001",
        "٢٠٢٦-٠١-٠١",
    ],
)
def test_refused(text):
    with pytest.raises(ValueError, match=r"not an ISO|no such day|finer") as caught:
        microseconds(text)
    assert not text or text not in str(caught.value)


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=st.integers(-14 * 60, 14 * 60).map(
            lambda minutes: timezone(timedelta(minutes=minutes))
        ),
    )
)
def test_what_isoformat_writes_is_read_back(moment):
    got = microseconds(moment.isoformat())
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=got) == moment
