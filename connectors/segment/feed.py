"""Send items as events of Segment's HTTP tracking API, in batches as its SDK sends them."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from connectors.base import (
    Handle,
    Identity,
    Item,
    Limits,
    Manifest,
    Misconfigured,
    Offer,
    Settings,
    feed_manifest,
)
from connectors.http.client import Http, expect_done, within

MANIFEST = feed_manifest(
    name="segment",
    identity=Identity.LOGIN,
    finds=False,
    # A byte of content becomes six in JSON at worst: below the 32 KiB of an event.
    limits=Limits(items=500, content_bytes=4_000, per_minute=600),
    tested_against="real HTTP and the bytes of the official SDK",
)

LONGEST_NAME: Final = 100
"""Most characters of an event's name."""
BATCH_BYTES: Final = 500_000
LIBRARY: Final = {"name": "sparsi-dispatcher", "version": "1"}


class SegmentFeed:
    """One source of a data platform.

    Parameters
    ----------
    url : str
        Base URL of the API; ``/v1/batch`` is added.
    write_key : str
    http : Http
    clock : callable
        () -> seconds since 1970.
    event : str
        Name of the events.

    Raises
    ------
    Misconfigured
        If the URL must not be called, or there is no write key.
    """

    def __init__(
        self,
        url: str,
        write_key: str,
        http: Http,
        clock: Callable[[], float],
        event: str = "Field Shared",
    ) -> None:
        self._host = http.check(url).hostname or ""
        self._url = url.rstrip("/") + "/v1/batch"
        if not write_key or not write_key.isascii() or not write_key.isalnum():
            raise Misconfigured(
                "the write key is none",
                why="it is one word of letters and digits",
                fix="write the key of the source into the secret_file",
            )
        self._key = write_key
        self._http = http
        self._clock = clock
        self._event = event

    @property
    def manifest(self) -> Manifest:
        """A feed that is deduplicated by its receiver and cannot be searched."""
        return MANIFEST

    def send(self, offer: Offer) -> Handle:
        """Post the items; the receiver drops those posted before."""
        MANIFEST.check(offer)
        at = datetime.fromtimestamp(self._clock(), UTC)
        events = [event(offer.key, item, self._event, at) for item in offer.items]
        login = base64.b64encode(f"{self._key}:".encode()).decode("ascii")
        headers = {
            "content-type": "application/json",
            "authorization": f"Basic {login}",
        }
        for batch in batches(events):
            body = encoded(
                {"batch": batch, "sentAt": at.isoformat(), "writeKey": self._key}
            )
            answered = self._http.call("POST", self._url, headers=headers, body=body)
            expect_done(answered, self._host, at.timestamp())
        return Handle(offer.key, message_id(offer.key, ""))

    def find(self, key: str) -> Handle | None:  # noqa: ARG002
        """Return None: there is no search, so it is sent again under the same ids."""
        return None


def event(key: str, item: Item, name: str, at: datetime) -> dict[str, Any]:
    """Return the event of one field, with the official SDK's members in its order."""
    properties = {"field": item.label, "media_type": item.media_type} | item.spelt()
    return {
        "integrations": {},
        "anonymousId": item.token,
        "properties": properties,
        "timestamp": at.isoformat(timespec="milliseconds"),
        "context": {"library": LIBRARY},
        "userId": None,
        "type": "track",
        "event": name,
        "messageId": message_id(key, item.token),
    }


def message_id(key: str, token: str) -> str:
    """Return a message's id, the same for a repeat."""
    digest = hashlib.sha256(f"{len(key)}:{key}:{token}".encode()).hexdigest()
    return f"dsp-{digest[:40]}"


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return JSON as the official SDK writes it."""
    return json.dumps(document).encode("ascii")


def batches(events: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Split events into batches that the API accepts."""
    room = BATCH_BYTES - 1000  # for what surrounds the events
    return within(events, lambda one: len(encoded(one)) + 2, room)


def open_segment(settings: Settings) -> SegmentFeed:
    """Open the source in the settings."""
    values = settings.of("segment", ("url", "event", "allow_private"), ("url",))
    http = Http(private=settings.private)
    key = settings.secret.decode("ascii", "replace").strip()
    event_name = values.get("event", "Field Shared")
    if not 0 < len(event_name) <= LONGEST_NAME:
        raise Misconfigured(
            f"event of segment is not 1 to {LONGEST_NAME} characters",
            fix="leave it out for Field Shared",
        )
    return SegmentFeed(values["url"], key, http, time.time, event_name)  # noqa: TID251
