"""Arrivals from MTurk: the browser's claims, checked against what MTurk knows.

MTurk's link is not signed, so a worker can write another's id into it. Three things must
match before anybody is let in: the word that we put into this worker's HIT and nowhere
else; the HIT itself, which only the worker with our number can find; and MTurk's own
confirmation that it was accepted (an event, or the state of the HIT). Until then the
visitor waits.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

from connectors.base import Arrival, ConnectorError, Identity, Rejected, TryLater, Visit
from connectors.mturk.api import Api
from connectors.mturk.events import Events
from connectors.tickets import opaque

PREVIEW: Final = "ASSIGNMENT_ID_NOT_AVAILABLE"
OFFER: Final = "o"
MARK: Final = "k"
_ID: Final = re.compile(r"[A-Z0-9]{1,64}")
_NOTE: Final = re.compile(r"offer-(\S+) (\S+)(?: ([0-9a-f]+))?")
_SHORT: Final = 16  # digits of an offer's word in a note, which has 255 characters
_SOON: Final = 3.0


def word(secret: bytes, key: str) -> str:
    """Return the word of an offer, for its HIT's address, its token and its receipt."""
    return opaque(secret, "offer", key)


def mark(secret: bytes, offer: str, account: str) -> str:
    """Return the word that only the HIT of this offer for this worker contains."""
    return opaque(secret, "arrival", offer, account)


def note_of(secret: bytes, key: str, account: str) -> str:
    """Return a HIT's private annotation: the offer's key, the worker, and our word."""
    own = word(secret, key)[:_SHORT]
    return f"offer-{quote(key, safe='')} {quote(account, safe='')} {own}"


def read_note(hit: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return key and account of a HIT; None if no dispatcher made it."""
    found = _NOTE.fullmatch(str(hit.get("RequesterAnnotation", "")))
    return None if found is None else (unquote(found[1]), unquote(found[2]))


def read_own(secret: bytes, hit: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return key and account of a HIT; None unless this dispatcher made it."""
    note = read_note(hit)
    kept = str(hit.get("RequesterAnnotation", ""))
    return note if note is not None and kept == note_of(secret, *note) else None


def is_preview(visit: Visit) -> bool:
    """Whether the visitor only previews the work."""
    return visit.parameters.get("assignmentId") == PREVIEW


class ArrivalChecks:
    """The identity check of arriving workers.

    Parameters
    ----------
    api : Api
    events : Events
    key : bytes
    guard : callable
        (api, account) -> the qualification requirement of the account's HITs, or None
        if MTurk does not have the account's number.
    lifetime : timedelta
        How long a HIT can be accepted.
    """

    def __init__(
        self,
        api: Api,
        events: Events,
        key: bytes,
        guard: Callable[[Api, str], Mapping[str, Any] | None],
        lifetime: timedelta,
    ) -> None:
        self._api = api
        self._events = events
        self._key = key
        self._guard = guard
        self._lifetime = lifetime

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Identify a visitor; the network is used only for one who knows our word.

        Raises
        ------
        Rejected
            If the claims do not match what MTurk knows, or the work is over.
        TryLater
            If MTurk has not confirmed yet that the work was accepted.
        """
        if is_preview(visit):
            return Arrival("", Identity.LOGIN, preview=True)
        said = visit.parameters
        account, offer = said.get("workerId", ""), said.get(OFFER, "")
        number, assignment = said.get("hitId", ""), said.get("assignmentId", "")
        wanted = mark(self._key, offer, account)
        known = hmac.compare_digest(
            wanted.encode(), said.get(MARK, "").encode("utf-8", "replace")
        )
        if not (account and known and _ID.fullmatch(number)):
            raise _edited()
        if not _ID.fullmatch(assignment):
            raise _edited()
        hit = self._api.hit(number)
        note = None if hit is None else read_note(hit)
        if hit is None or note is None or note[1] != account:
            raise _edited()
        if word(self._key, note[0]) != offer:
            raise _edited()
        ends = _check_open(hit, self._lifetime, now)
        if not _guarded(hit, self._guard(self._api, account)):
            raise Rejected(
                "MTurk does not keep whom this work is for",
                why="the qualification of the HIT or of the worker was changed",
                fix="see who else changes qualifications of this account",
            )
        since = self._accepted(hit, assignment, account)
        return Arrival(account, Identity.LOGIN, ticket=f"{assignment}~{since}",
                       expires=ends)  # fmt: skip

    def _accepted(self, hit: Mapping[str, Any], assignment: str, account: str) -> str:
        """Confirm that the worker has accepted; return when, if known."""
        with suppress(ConnectorError):  # a failing queue keeps nobody out
            self._events.look()
        holder = self._events.holder(str(hit["HITId"]), assignment)
        if holder is not None:
            worker, moment = holder
            if worker != account:
                raise _edited()
            return moment
        # An event can get lost. Nobody but this worker can accept this HIT.
        if hit["NumberOfAssignmentsPending"] or hit["HITStatus"] == "Unassignable":
            return ""
        raise TryLater(
            "MTurk has not confirmed yet that this work was accepted",
            after=_SOON,
            fix="accept the HIT at MTurk, then try again",
        )


def _guarded(hit: Mapping[str, Any], guard: Mapping[str, Any] | None) -> bool:
    """Whether a HIT has our requirement and no other; MTurk returns further keys."""
    kept = hit.get("QualificationRequirements") or []
    return guard is not None and len(kept) == 1 and guard.items() <= kept[0].items()


def _check_open(hit: Mapping[str, Any], lifetime: timedelta, now: datetime) -> datetime:
    """Return when the work is over at the latest; raise if it is over.

    That depends on the creation time: a withdrawn HIT expired long ago, and whoever has
    accepted it before may finish.

    Raises
    ------
    Rejected
    """
    allowed = timedelta(seconds=hit["AssignmentDurationInSeconds"])
    ends: datetime = hit["CreationTime"] + lifetime + allowed
    if hit["HITStatus"] in ("Reviewable", "Reviewing") or now >= ends:
        raise Rejected("this work is over", fix="look at MTurk for new work")
    return ends


def _edited() -> Rejected:
    return Rejected(
        "this is no work of ours for this worker",
        why="MTurk says something else than the address",
        fix="open the HIT again from MTurk",
    )
