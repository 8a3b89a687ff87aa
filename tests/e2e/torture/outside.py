"""The outside of a walk: a market that remembers how often it was given what."""

from __future__ import annotations

from collections import Counter

from connectors.base import Handle, Offer
from connectors.testing.hostile import Memory


class Killed(BaseException):
    """The daemon is gone, in the midst of whatever it did."""


class Outside(Memory):
    """A market that may fail or see its caller die, before or after it accepts."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: Counter[str] = Counter()
        self.before: BaseException | None = None
        self.after: BaseException | None = None

    def publish(self, offer: Offer) -> Handle:
        if self.before is not None:
            raise self.before
        self.accepted[offer.key] += 1  # it would make another task each time
        handle = super().publish(offer)
        if self.after is not None:
            raise self.after
        return handle
