"""How pieces of work stand at MTurk.

A HIT that nobody can work on any more is *reviewable*. What came of it is told until it
is final and was acknowledged; then the HIT is moved to *reviewing*, out of the list that
is looked at, and after a month, when no judgement can be changed any more, it is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from connectors.base import (
    Collected,
    ConnectorError,
    Progress,
    Quarantined,
    Rejected,
    Submission,
)
from connectors.mturk.api import Api
from connectors.mturk.arrivals import OFFER, read_own, word
from connectors.mturk.documents import answers
from connectors.mturk.events import Events

KEPT: Final = timedelta(days=31)
"""How long a HIT is kept: a rejection can be taken back for 30 days."""

MOST_READ: Final = 200
"""HITs that one look reads anew; the next look follows at once."""

_PROGRESS: Final = {
    "Submitted": Progress.SUBMITTED,
    "Approved": Progress.APPROVED,
    "Rejected": Progress.REJECTED,
}


@dataclass(frozen=True)
class _Standing:
    """What came of one HIT, read when so many of its assignments were judged."""

    judged: int | None
    submissions: tuple[Submission, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    final: bool = False


class Reviewing:
    """The look at what was handed in.

    Parameters
    ----------
    api : Api
    events : Events
    secret : bytes
        Makes the words of offers.
    """

    def __init__(self, api: Api, events: Events, secret: bytes) -> None:
        self._api = api
        self._events = events
        self._secret = secret
        self._read: dict[str, _Standing] = {}
        self._told: tuple[str, tuple[str, ...], tuple[Quarantined, ...]] = ("", (), ())
        self._cleaned: date | None = None

    def collect(self, cursor: str) -> Collected:
        """Tell what came of every reviewable HIT of ours.

        The cursor counts the times that something was told which need not be told again.
        """
        self._events.look()
        self._acknowledge(cursor)
        found: dict[str, _Standing] = {}
        fresh: dict[str, _Standing] = {}
        more = False
        for hit in self._api.reviewable():
            note, number = read_own(self._secret, hit), str(hit["HITId"])
            if note is None:
                continue
            judged = hit.get("NumberOfAssignmentsCompleted")
            known = self._read.get(number)
            if known is None or judged is None or known.judged != judged:
                more = len(fresh) == MOST_READ
                if more:
                    break
                known = self._standing(hit, *note)
                self._read[number] = fresh[number] = known
            found[number] = known
        told = fresh if more else found  # what was read before is told at the end
        if not more:
            self._read = found
        final = tuple(number for number, one in told.items() if one.final)
        strange = self._events.strange()
        if final or strange:
            count = int(cursor) if re.fullmatch(r"[0-9]{1,18}", cursor) else 0
            cursor = str(count + 1)
            self._told = cursor, final, strange
        with suppress(ConnectorError):  # it is tried again at the next look
            self._clean()
        return Collected(
            cursor,
            quarantined=(
                *strange, *(q for one in told.values() for q in one.quarantined),
            ),
            more=more,
            submissions=tuple(s for one in told.values() for s in one.submissions),
        )  # fmt: skip

    def _acknowledge(self, cursor: str) -> None:
        """Put away what was told by the collection whose cursor comes back."""
        issued, numbers, strange = self._told
        if cursor and cursor == issued:
            self._events.forget(strange)
            for number in numbers:
                self._api.set_reviewing(number)
            self._told = "", (), ()

    def _standing(self, hit: Mapping[str, Any], key: str, account: str) -> _Standing:
        number, judged = str(hit["HITId"]), hit.get("NumberOfAssignmentsCompleted")
        offer = word(self._secret, key)
        submissions: list[Submission] = []
        strange: list[Quarantined] = []
        waiting = False
        try:
            for one in self._api.assignments(number):
                waiting = waiting or one["AssignmentStatus"] == "Submitted"
                piece = submission_id(one)
                fault = _fault(one, offer, account)
                if fault:
                    strange.append(Quarantined(piece, f"HIT {number}", fault,
                                               str(one["WorkerId"])))  # fmt: skip
                else:
                    submissions.append(Submission(
                        piece, number, account, _PROGRESS[one["AssignmentStatus"]], key
                    ))  # fmt: skip
        # one HIT that cannot be read holds up no other
        except (Rejected, LookupError, TypeError, AttributeError):
            fault = "what was handed in cannot be read"
            return _Standing(judged, (), (Quarantined(number, f"HIT {number}", fault),))
        if not submissions and not strange:
            if not hit.get("NumberOfAssignmentsAvailable"):
                return _Standing(None)  # it was taken: MTurk does not list it yet
            submissions.append(Submission(number, number, "", Progress.GONE, key))
        return _Standing(judged, tuple(submissions), tuple(strange), not waiting)

    def _clean(self) -> None:
        """Delete what is too old to be judged anew; looked for once a day."""
        now = self._api.now
        if now is None or now.date() == self._cleaned:
            return
        old = [
            str(hit["HITId"])
            for hit in self._api.reviewable("Reviewing")
            if read_own(self._secret, hit) and hit.get("CreationTime", now) + KEPT < now
        ]
        for number in old:
            self._api.set_reviewing(number, revert=True)
            self._api.delete(number)
        self._cleaned = now.date()


def submission_id(assignment: Mapping[str, Any]) -> str:
    """Name one taking of an assignment: MTurk gives its id to the next one too."""
    accepted = int(assignment["AcceptTime"].timestamp())
    return f"{assignment['AssignmentId']}~{accepted}"


def _fault(one: Mapping[str, Any], offer: str, account: str) -> str:
    """Say why something that was handed in is not ours to judge; empty if it is."""
    if one["WorkerId"] != account:
        return "handed in by another worker than it was for"
    if one["AssignmentStatus"] != "Submitted":
        return ""  # a person has judged it
    try:
        given = answers(str(one.get("Answer", ""))).get(OFFER)
    except ValueError as error:
        return str(error)
    return "" if given == offer else "its receipt is not of this HIT"
