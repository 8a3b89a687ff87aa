"""MTurk's notifications in an Amazon queue: who accepted which assignment, and when.

The queue is read with our own key, and only MTurk may write to it. Notifications come
twice, out of order, or never: so they are stored by event, and a missing fact is asked
of MTurk itself.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from connectors.base import Quarantined, TryLater
from connectors.http.aws import AwsClient
from connectors.mturk.api import raise_classed

ACCEPTED: Final = "AssignmentAccepted"
_LEFT: Final = ("AssignmentReturned", "AssignmentAbandoned")
_BATCHES: Final = 20
_BATCH: Final = 10  # messages per call of the queue
_KEPT: Final = 20_000
_STRANGE: Final = 1000
_LONGEST: Final = 100  # characters of an id or a moment
_PAUSE: Final = 30.0
_PARTS: Final = ("EventType", "EventTimestamp", "HITId", "AssignmentId", "WorkerId")


@dataclass
class _Held:
    """The known events of one assignment: moments by worker."""

    accepted: dict[str, set[str]] = field(default_factory=dict)
    left: dict[str, set[str]] = field(default_factory=dict)


class Events:
    """The notifications received so far.

    Parameters
    ----------
    client : object or None
        boto3's ``sqs`` client; None if the operator has no queue.
    queue : str
        Its URL.
    clock : callable
        () -> seconds, monotonic.
    """

    def __init__(
        self,
        client: AwsClient | None = None,
        queue: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue = queue
        self._client = client
        self._clock = clock
        self._retry_at = -1.0
        self._looking = threading.Lock()
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._strange: dict[str, Quarantined] = {}

    def look(self) -> None:
        """Read the queue, unless another thread is reading it.

        A queue that does not respond is skipped, and left alone for a while.

        Raises
        ------
        Misconfigured, Rejected
            If the queue cannot be read with this key.
        """
        if self._client is None or self._clock() < self._retry_at:
            return
        if not self._looking.acquire(blocking=False):
            return
        try:
            for _ in range(_BATCHES):
                if self._take(self._client) < _BATCH:
                    return
        except TryLater:
            self._retry_at = self._clock() + _PAUSE
        finally:
            self._looking.release()

    def _take(self, client: AwsClient) -> int:
        try:
            response = client.receive_message(
                QueueUrl=self.queue, MaxNumberOfMessages=_BATCH, WaitTimeSeconds=0
            )
            messages = response.get("Messages", [])
            for message in messages:
                self._note(str(message.get("Body", "")))
            if messages:
                client.delete_message_batch(QueueUrl=self.queue, Entries=[
                    {"Id": str(place), "ReceiptHandle": message["ReceiptHandle"]}
                    for place, message in enumerate(messages)
                ])  # fmt: skip
        except Exception as error:  # noqa: BLE001 (classed by raise_classed)
            raise_classed(error)
        return len(messages)

    def _note(self, body: str) -> None:
        """Store the events of a message; quarantine one that is not MTurk's."""
        try:
            happened = _happened(body)
        except (ValueError, LookupError, TypeError, RecursionError):
            number = sha256(body.encode("utf-8", "replace")).hexdigest()[:32]
            with self._lock:
                if len(self._strange) < _STRANGE:
                    self._strange[number] = Quarantined(
                        number, "the queue", "it is no event of MTurk's"
                    )
            return
        with self._lock:
            for what, moment, hit, assignment, worker in happened:
                place = (hit, assignment)
                held = self._held.setdefault(place, _Held())
                self._held.move_to_end(place)
                kept = held.accepted if what == ACCEPTED else held.left
                kept.setdefault(worker, set()).add(moment)
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)

    def holder(self, hit: str, assignment: str) -> tuple[str, str] | None:
        """Return who has accepted an assignment, and when; None if unknown."""
        with self._lock:
            held = self._held.get((hit, assignment), _Held())
            latest = max(
                ((max(moments), worker) for worker, moments in held.accepted.items()),
                default=None,
            )
            if latest is None:
                return None
            moment, worker = latest
            left = max(held.left.get(worker, ()), default="")
            return None if left >= moment else (worker, moment)

    def strange(self) -> tuple[Quarantined, ...]:
        """Return the messages in the queue that are not events of MTurk."""
        with self._lock:
            return tuple(self._strange.values())

    def forget(self, strange: Iterable[Quarantined]) -> None:
        """Drop messages that were reported."""
        with self._lock:
            for one in strange:
                self._strange.pop(one.id, None)


def _happened(body: str) -> list[list[str]]:
    """Return the parts of each event that we use.

    Raises
    ------
    ValueError, LookupError, TypeError, RecursionError
        If it is not a message of MTurk.
    """
    events = [
        [str(event[part]) for part in _PARTS]
        for event in json.loads(body)["Events"]
        if event["EventType"] in (ACCEPTED, *_LEFT)
    ]
    if any(len(part) > _LONGEST for parts in events for part in parts):
        raise ValueError("no id of MTurk's is so long")
    return events
