"""What becomes of tasks under way when a change makes them unsafe."""

from __future__ import annotations

from enum import StrEnum


class InFlight(StrEnum):
    """What becomes of tasks under way that a change made unsafe.

    ``recall`` takes them back, ``drain`` only those that have not left yet, ``keep``
    none.
    """

    RECALL = "recall"
    DRAIN = "drain"
    KEEP = "keep"
