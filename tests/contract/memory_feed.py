"""A feed of dictionaries, to prove the feed half of the suite."""

from __future__ import annotations

from dataclasses import replace

from connectors.base import Handle, Manifest, Offer, Role
from connectors.testing.hostile import MEMORY

FEED = replace(MEMORY, name="memory-feed", role=Role.FEED)


class MemoryFeed:
    def __init__(self) -> None:
        self.sent: dict[str, Offer] = {}

    @property
    def manifest(self) -> Manifest:
        return FEED

    def send(self, offer: Offer) -> Handle:
        FEED.check(offer)
        self.sent.setdefault(offer.key, offer)
        return Handle(offer.key, f"feed:{offer.key}")

    def find(self, key: str) -> Handle | None:
        return Handle(key, f"feed:{key}") if key in self.sent else None
