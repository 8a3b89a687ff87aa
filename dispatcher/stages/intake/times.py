"""Moments in a column of times, to microseconds UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)\s?"
    r"(Z|z|UTC|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


def microseconds(text: str) -> int:
    """Return the moment that the text names.

    Parameters
    ----------
    text : str
        ISO 8601: a date, or a date and a time of day, with at most microseconds. A
        missing time of day is midnight, a missing zone UTC.

    Returns
    -------
    int
        Microseconds since 1970-01-01 UTC.

    Raises
    ------
    ValueError
        The text is nothing of the kind; the message does not repeat it.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError("not an ISO 8601 date or time")
    day, clock, zone = found.groups()
    clock = (clock or "00:00").replace(",", ".")
    fraction = clock.partition(".")[2]
    if len(fraction) > 6 and fraction[6:].strip("0"):
        raise ValueError("a time finer than microseconds")
    if fraction:
        clock = f"{clock.partition('.')[0]}.{fraction[:6]:0<6}"
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{_offset(zone)}")
        return (moment - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise ValueError("no such day or time of day") from None


def _offset(zone: str | None) -> str:
    if zone is None or zone in ("Z", "z", "UTC"):
        return "+00:00"
    digits = zone[1:].replace(":", "")
    return f"{zone[0]}{digits[:2]}:{digits[2:] or '00'}"
