"""The Segment feed: Segment's HTTP tracking API, which most data platforms support.

Settings: ``url`` (where the API is, required, without ``/v1/batch``), ``event`` (name of
the event, default ``Field Shared``), ``allow_private`` (hosts of the own network that may
be reached, separated by commas). Secret: the write key.

Each field is one ``track`` event; its ``anonymousId`` is the opaque token of the field,
so that nothing links two of them, and its ``messageId`` is the same for repeats: the
platform drops the second. It responds with 200 even to what it discards, and cannot be
searched.
"""

from connectors.base import Plugin
from connectors.segment.feed import MANIFEST, SegmentFeed, open_segment

__all__ = ["CONNECTOR", "SegmentFeed"]

CONNECTOR = Plugin(MANIFEST, open_segment)
"""The entry point."""
