"""The state of pieces of work at MTurk.

A HIT that nobody can work on any more is *reviewable*. Its results are reported until
they are final and acknowledged; then the HIT is moved to *reviewing*, out of the list
that is polled. After a month, when no decision can be changed any more, it is deleted.
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
"""How long a HIT is kept: a rejection can be reversed for 30 days."""

MOST_READ: Final = 200
"""HITs that one poll reads anew; the next poll follows at once."""

_PROGRESS: Final = {
    "Submitted": Progress.SUBMITTED,
    "Approved": Progress.APPROVED,
    "Rejected": Progress.REJECTED,
}


@dataclass(frozen=True)
class _Results:
    """The results of one HIT, as of when so many of its assignments were reviewed."""

    judged: int | None
    submissions: tuple[Submission, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    final: bool = False


class Reviewing:
    """Polls for submitted work.

    Parameters
    ----------
    api : Api
    events : Events
    secret : bytes
        Derives the words of offers.
    """

    def __init__(self, api: Api, events: Events, secret: bytes) -> None:
        self._api = api
        self._events = events
        self._secret = secret
        self._read: dict[str, _Results] = {}
        self._reported: tuple[str, tuple[str, ...], tuple[Quarantined, ...]] = (
            "",
            (),
            (),
        )
        self._cleaned: date | None = None

    def collect(self, cursor: str) -> Collected:
        """Return the results of every reviewable HIT of ours.

        The cursor counts the reports of results that need not be reported again.
        """
        self._events.look()
        self._acknowledge(cursor)
        found: dict[str, _Results] = {}
        fresh: dict[str, _Results] = {}
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
                known = self._results(hit, *note)
                self._read[number] = fresh[number] = known
            found[number] = known
        reported = (
            fresh if more else found
        )  # what was read before is reported at the end
        if not more:
            self._read = found
        final = tuple(number for number, one in reported.items() if one.final)
        strange = self._events.strange()
        if final or strange:
            count = int(cursor) if re.fullmatch(r"[0-9]{1,18}", cursor) else 0
            cursor = str(count + 1)
            self._reported = cursor, final, strange
        with suppress(ConnectorError):  # retried at the next poll
            self._clean()
        return Collected(
            cursor,
            quarantined=(
                *strange, *(q for one in reported.values() for q in one.quarantined),
            ),
            more=more,
            submissions=tuple(s for one in reported.values() for s in one.submissions),
        )  # fmt: skip

    def _acknowledge(self, cursor: str) -> None:
        """Put away what the acknowledged collection reported."""
        issued, numbers, strange = self._reported
        if cursor and cursor == issued:
            self._events.forget(strange)
            for number in numbers:
                self._api.set_reviewing(number)
            self._reported = "", (), ()

    def _results(self, hit: Mapping[str, Any], key: str, account: str) -> _Results:
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
        # one HIT that cannot be read blocks no other
        except (Rejected, LookupError, TypeError, AttributeError):
            fault = "what was handed in cannot be read"
            return _Results(judged, (), (Quarantined(number, f"HIT {number}", fault),))
        if not submissions and not strange:
            if not hit.get("NumberOfAssignmentsAvailable"):
                return _Results(None)  # accepted, but not listed by MTurk yet
            submissions.append(Submission(number, number, "", Progress.GONE, key))
        return _Results(judged, tuple(submissions), tuple(strange), not waiting)

    def _clean(self) -> None:
        """Delete HITs whose review is final, once a day."""
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
    """Return the id of one acceptance: MTurk reuses an assignment's id."""
    accepted = int(assignment["AcceptTime"].timestamp())
    return f"{assignment['AssignmentId']}~{accepted}"


def _fault(one: Mapping[str, Any], offer: str, account: str) -> str:
    """Return why submitted work is not ours to review; empty if it is."""
    if one["WorkerId"] != account:
        return "handed in by another worker than it was for"
    if one["AssignmentStatus"] != "Submitted":
        return ""  # reviewed by a person
    try:
        given = answers(str(one.get("Answer", ""))).get(OFFER)
    except ValueError as error:
        return str(error)
    return "" if given == offer else "its receipt is not of this HIT"
