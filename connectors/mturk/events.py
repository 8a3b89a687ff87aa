"""What MTurk tells a queue of Amazon's: who accepted which assignment, and when.

The queue is read with our own key, and only MTurk may write to it. What it says comes
twice, out of order, or never: so it is kept by what happened, and a fact that is missing
is asked of MTurk itself.
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
from connectors.http.aws import Client
from connectors.mturk.api import raise_classed

ACCEPTED: Final = "AssignmentAccepted"
_LEFT: Final = ("AssignmentReturned", "AssignmentAbandoned")
_BATCHES: Final = 20
_BATCH: Final = 10  # what the queue gives at once
_KEPT: Final = 20_000
_STRANGE: Final = 1000
_LONGEST: Final = 100  # characters of an id or a moment
_REST: Final = 30.0
_PARTS: Final = ("EventType", "EventTimestamp", "HITId", "AssignmentId", "WorkerId")


@dataclass
class _Held:
    """What was told of one assignment: moments by worker."""

    accepted: dict[str, set[str]] = field(default_factory=dict)
    left: dict[str, set[str]] = field(default_factory=dict)


class Events:
    """What was heard so far.

    Parameters
    ----------
    client : object or None
        boto3's client of ``sqs``; None where the operator has no queue.
    queue : str
        Its URL.
    clock : callable
        () -> seconds, monotonic.
    """

    def __init__(
        self,
        client: Client | None = None,
        queue: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue = queue
        self._client = client
        self._clock = clock
        self._rests_until = -1.0
        self._looking = threading.Lock()
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._strange: dict[str, Quarantined] = {}

    def look(self) -> None:
        """Take what lies in the queue; where somebody else is looking, do not wait.

        A queue that gives no answer has said nothing, and is left alone for a while.

        Raises
        ------
        Misconfigured, Rejected
            The queue cannot be read with this key.
        """
        if self._client is None or self._clock() < self._rests_until:
            return
        if not self._looking.acquire(blocking=False):
            return
        try:
            for _ in range(_BATCHES):
                if self._take(self._client) < _BATCH:
                    return
        except TryLater:
            self._rests_until = self._clock() + _REST
        finally:
            self._looking.release()

    def _take(self, client: Client) -> int:
        try:
            said = client.receive_message(
                QueueUrl=self.queue, MaxNumberOfMessages=_BATCH, WaitTimeSeconds=0
            )
            messages = said.get("Messages", [])
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
        """Keep what a message says; one that is not MTurk's own is set aside."""
        try:
            told = _happened(body)
        except (ValueError, LookupError, TypeError, RecursionError):
            number = sha256(body.encode("utf-8", "replace")).hexdigest()[:32]
            with self._lock:
                if len(self._strange) < _STRANGE:
                    self._strange[number] = Quarantined(
                        number, "the queue", "it is no event of MTurk's"
                    )
            return
        with self._lock:
            for what, moment, hit, assignment, worker in told:
                place = (hit, assignment)
                held = self._held.setdefault(place, _Held())
                self._held.move_to_end(place)
                kept = held.accepted if what == ACCEPTED else held.left
                kept.setdefault(worker, set()).add(moment)
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)

    def holder(self, hit: str, assignment: str) -> tuple[str, str] | None:
        """Who holds an assignment, and since when; None where nothing says so."""
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
        """Give what lay in the queue and is no event of MTurk's."""
        with self._lock:
            return tuple(self._strange.values())

    def forget(self, strange: Iterable[Quarantined]) -> None:
        """Give no more what was told."""
        with self._lock:
            for one in strange:
                self._strange.pop(one.id, None)


def _happened(body: str) -> list[list[str]]:
    """Read the parts of each event that we heed.

    Raises
    ------
    ValueError, LookupError, TypeError, RecursionError
        It is no message of MTurk's.
    """
    told = [
        [str(event[part]) for part in _PARTS]
        for event in json.loads(body)["Events"]
        if event["EventType"] in (ACCEPTED, *_LEFT)
    ]
    if any(len(part) > _LONGEST for parts in told for part in parts):
        raise ValueError("no id of MTurk's is so long")
    return told
