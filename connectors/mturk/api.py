"""Calls to MTurk through boto3's client, and the meaning of its errors.

Every call here may be repeated: it reads, sets something to its present value, or
carries a token that MTurk recognises. So a call that was throttled, or whose response
was lost, is repeated a few times before the caller gets an error.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NoReturn

from connectors.errors import ConnectorError, Misconfigured, Rejected, TryLater
from connectors.http.aws import AwsClient

LONG_AGO: Final = datetime(2015, 1, 1, tzinfo=UTC)
"""Expiry set on withdrawn HITs: so far in the past that no clock disagrees."""

_TRIES: Final = 5
_FIRST_WAIT: Final = 0.25
_PAGE: Final = 100
_MOST_PAGES: Final = 10_000
_EVENTS: Final = ("AssignmentAccepted", "AssignmentAbandoned", "AssignmentReturned",
                  "AssignmentSubmitted")  # fmt: skip
_BUSY: Final = ("ThrottlingException", "Throttling", "TooManyRequestsException",
                "RequestLimitExceeded", "ServiceFault", "InternalFailure")  # fmt: skip
_CREDENTIALS: Final = (
    "UnrecognizedClientException", "InvalidSignatureException", "AccessDeniedException",
    "SignatureDoesNotMatch", "InvalidClientTokenId", "ExpiredTokenException",
    "MissingAuthenticationTokenException", "IncompleteSignatureException",
)  # fmt: skip
_OVER: Final = ("HITDoesNotExist", "InvalidHITState")
_ID: Final = re.compile(r"\b[A-Z0-9]{20,64}\b")


class MTurkRefused(Rejected):
    """MTurk refuses a call.

    Attributes
    ----------
    code : str
        The last part of its ``TurkErrorCode``; empty if there is none.
    words : str
        Its message, which may contain ids: never shown.
    """

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"MTurk refuses: {code or 'no reason given'}")
        self.code = code
        self.words = words

    @property
    def repeated(self) -> bool:
        """Whether it reports that this very call was carried out before."""
        return "already been processed" in self.words


class Pace:
    """A rate limit over all threads.

    Parameters
    ----------
    per_second : float
        Calls per second, > 0.
    clock : callable
        () -> seconds, monotonic.
    sleep : callable
    """

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._apart = 1 / per_second
        self._clock = clock
        self._next = clock()
        self._lock = threading.Lock()
        self.sleep = sleep

    def wait(self) -> None:
        """Wait for the next turn."""
        with self._lock:
            now = self._clock()
            turn = max(self._next, now)
            self._next = turn + self._apart
        if turn > now:
            self.sleep(turn - now)


class Api:
    """Calls to MTurk.

    Parameters
    ----------
    client : object
        boto3's ``mturk`` client; it must not repeat calls itself.
    pace : Pace
    tries : int
        Attempts before the caller gets an error, >= 1.
    """

    def __init__(self, client: AwsClient, pace: Pace, tries: int = _TRIES) -> None:
        self._client = client
        self._pace = pace
        self._tries = tries
        self.now: datetime | None = None

    def hurried(self) -> Api:
        """Return the same interface with fewer attempts, for a visitor who waits."""
        return Api(self._client, self._pace, tries=2)

    def balance(self) -> str:
        """Return what the account may still spend, in dollars."""
        return str(
            self._call("get_account_balance", "AvailableBalance")["AvailableBalance"]
        )

    def qualification(self, name: str, description: str) -> str:
        """Find or create our qualification type with a name; return its id."""
        for _ in range(2):
            for found in self._pages("list_qualification_types", "QualificationTypes",
                                     Query=name, MustBeRequestable=False,
                                     MustBeOwnedByCaller=True):  # fmt: skip
                if found["Name"] == name:
                    return str(found["QualificationTypeId"])
            try:
                made = self._call("create_qualification_type", "QualificationType", Name=name,
                                  Description=description,
                                  QualificationTypeStatus="Active")  # fmt: skip
                return str(made["QualificationType"]["QualificationTypeId"])
            except MTurkRefused as error:
                if error.code != "QualificationTypeAlreadyExists":
                    raise
        raise TryLater("MTurk has our qualification type and does not list it yet")

    def give_score(self, kind: str, worker: str, score: int) -> None:
        """Set a worker's score without notifying them."""
        self._call("associate_qualification_with_worker", QualificationTypeId=kind,
                   WorkerId=worker, IntegerValue=score,
                   SendNotification=False)  # fmt: skip

    def score(self, kind: str, worker: str) -> int | None:
        """Return a worker's score; None if they have none (any more)."""
        try:
            qualification = self._call("get_qualification_score", "Qualification", QualificationTypeId=kind,
                              WorkerId=worker)["Qualification"]  # fmt: skip
        except MTurkRefused:
            return None
        return (
            int(qualification["IntegerValue"])
            if qualification["Status"] == "Granted"
            else None
        )

    def hit_type(self, **values: object) -> str:
        """Create a HIT type; MTurk returns the same id for the same values."""
        return str(self._call("create_hit_type", "HITTypeId", **values)["HITTypeId"])

    def notify(self, hit_type: str, queue: str) -> None:
        """Make MTurk send the events of a HIT type to a queue."""
        self._call("update_notification_settings", HITTypeId=hit_type, Active=True,
                   Notification={"Destination": queue, "Transport": "SQS",
                                 "Version": "2014-08-15",
                                 "EventTypes": list(_EVENTS)})  # fmt: skip

    def make_hit(self, **values: object) -> str:
        """Create a HIT under its token; return an earlier one if there is one."""
        try:
            return str(
                self._call("create_hit_with_hit_type", "HIT", **values)["HIT"]["HITId"]
            )
        except MTurkRefused as error:
            found = _ID.findall(error.words) if error.code == "HITAlreadyExists" else []
            if not found:
                raise
            return str(found[0])

    def hit(self, number: str) -> dict[str, Any] | None:
        """Return one HIT; None if it does not exist (any more)."""
        try:
            hit: dict[str, Any] = self._call("get_hit", "HIT", HITId=number)["HIT"]
        except MTurkRefused as error:
            if error.code in ("HITDoesNotExist", "ParameterValidationError"):
                return None
            raise
        return None if hit["HITStatus"] == "Disposed" else hit

    def hits(self) -> Iterator[dict[str, Any]]:
        """Yield all HITs of the account that are not deleted."""
        return self._pages("list_hits", "HITs")

    def hits_page(self, token: str) -> tuple[list[dict[str, Any]], str]:
        """Return one page of them and the next page's token; empty after the last."""
        more = {"NextToken": token} if token else {}
        response = self._call("list_hits", "HITs", MaxResults=_PAGE, **more)
        return response["HITs"], str(response.get("NextToken") or "") if response[
            "HITs"
        ] else ""

    def reviewable(self, status: str = "Reviewable") -> Iterator[dict[str, Any]]:
        """Yield HITs that nobody can work on any more."""
        return self._pages("list_reviewable_hits", "HITs", Status=status)

    def set_reviewing(self, number: str, *, revert: bool = False) -> None:
        """Move a HIT out of the reviewable ones, or back."""
        self._unless_over("update_hit_review_status", HITId=number, Revert=revert)

    def expire(self, number: str) -> None:
        """Stop a HIT from being accepted; whoever has accepted it may finish."""
        self._unless_over("update_expiration_for_hit", HITId=number,
                           ExpireAt=LONG_AGO)  # fmt: skip

    def delete(self, number: str) -> None:
        """Delete a HIT whose assignments are all reviewed."""
        self._unless_over("delete_hit", HITId=number)

    def assignments(self, hit: str) -> Iterator[dict[str, Any]]:
        """Yield the submitted assignments of a HIT, reviewed or not."""
        return self._pages("list_assignments_for_hit", "Assignments", HITId=hit)

    def assignment(self, number: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return a submitted assignment and its HIT; None if there is none."""
        try:
            response = self._call("get_assignment", "Assignment", AssignmentId=number)
        except MTurkRefused as error:
            if error.code in ("AssignmentDoesNotExist", "ParameterValidationError"):
                return None
            raise
        return response["Assignment"], response["HIT"]

    def approve(self, number: str) -> None:
        """Approve an assignment: MTurk pays the reward."""
        self._call("approve_assignment", AssignmentId=number)

    def bonus(self, **values: object) -> None:
        """Pay a bonus under its token, at most once."""
        try:
            self._call("send_bonus", "", **values)
        except MTurkRefused as error:
            if not error.repeated:
                raise

    def bonuses(self, assignment: str) -> Iterator[dict[str, Any]]:
        """Yield the bonuses paid for one assignment."""
        return self._pages("list_bonus_payments", "BonusPayments",
                           AssignmentId=assignment)  # fmt: skip

    def _unless_over(self, name: str, **arguments: object) -> None:
        """Change a HIT's state; no error if it is gone or changed already."""
        try:
            self._call(name, "", **arguments)
        except MTurkRefused as error:
            if error.code not in _OVER and not error.repeated:
                raise

    def _pages(
        self, name: str, key: str, **arguments: object
    ) -> Iterator[dict[str, Any]]:
        more: dict[str, object] = {}
        for _ in range(_MOST_PAGES):
            response = self._call(name, key, MaxResults=_PAGE, **arguments, **more)
            yield from response[key]
            # MTurk returns a token with the last page too: an empty one follows.
            if not response.get("NextToken") or not response[key]:
                return
            more = {"NextToken": response["NextToken"]}

    def _call(self, name: str, holds: str = "", **arguments: object) -> dict[str, Any]:
        """Call an operation; ``holds`` is a key that its response must have.

        Raises
        ------
        TryLater, Misconfigured, Rejected
            See :func:`raise_classed`.
        """
        for attempt in range(1, self._tries + 1):
            self._pace.wait()
            try:
                return self._once(name, holds, arguments)
            except TryLater:
                if attempt == self._tries:
                    raise
                self._pace.sleep(_FIRST_WAIT * 2 ** (attempt - 1))
        raise AssertionError("the last try returns or raises")

    def _once(
        self, name: str, holds: str, arguments: Mapping[str, object]
    ) -> dict[str, Any]:
        try:
            response: dict[str, Any] = getattr(self._client, name)(**arguments)
        except Exception as error:  # noqa: BLE001 (classed by raise_classed)
            raise_classed(error)
        if holds and holds not in response:
            raise TryLater("MTurk's answer is not whole", fix="it is asked again later")
        self._note_time(response)
        return response

    def _note_time(self, response: dict[str, Any]) -> None:
        """Remember MTurk's own clock, which ages there refer to."""
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        try:
            self.now = parsedate_to_datetime(headers["date"])
        except (LookupError, ValueError, TypeError):
            return


def raise_classed(error: Exception) -> NoReturn:
    """Translate boto3's error into the connector error that fits, without its message.

    Raises
    ------
    TryLater
        Throttled, an internal error, no response: it may have been done.
    Misconfigured
        Credentials, this machine's clock, or no money.
    Rejected
        Anything else.
    """
    if isinstance(error, ConnectorError):
        raise error
    said, name = getattr(error, "response", None), type(error).__name__
    if name == "ParamValidationError":
        raise Rejected("the library boto3 does not take this call") from None
    if not isinstance(said, dict):
        raise TryLater("there is no answer that can be read", why=name,
                       fix="it is asked again later") from None  # fmt: skip
    code = str(said.get("Error", {}).get("Code", ""))
    words = str(said.get("Error", {}).get("Message", ""))
    status = said.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    reason = str(said.get("TurkErrorCode", "")).rpartition(".")[2]
    if code in _BUSY or status == 429 or status >= 500:
        raise TryLater(f"Amazon answers {code or status}", after=30.0,
                       fix="it is asked again later") from None  # fmt: skip
    if code in _CREDENTIALS:
        late = "expired" in words or "not yet current" in words
        raise Misconfigured(
            "Amazon does not take the signature",
            why="this machine's clock is off" if late else f"it answers {code}",
            fix="set the clock"
            if late
            else "correct the access key in its secret_file",
        ) from None
    if reason == "InsufficientFunds":
        raise Misconfigured("the MTurk account has too little money",
                            fix="add money to it at MTurk") from None  # fmt: skip
    raise MTurkRefused(reason or code, words) from None
