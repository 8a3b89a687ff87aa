"""HITs and assignments of the emulated MTurk, and what it refuses."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

_FAR = datetime.max.replace(tzinfo=UTC)


class Refusal(Exception):
    """A ``RequestError``: the last part of its code, and words."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"{code}: {words}")
        self.code = code
        self.words = words


@dataclass
class Taking:
    """One worker's one taking of an assignment; ids come again."""

    id: str
    hit: Hit
    worker: str
    accepted: datetime
    status: str = "Accepted"
    submitted: datetime = _FAR
    judged: datetime = _FAR
    answer: str = ""

    def told(self) -> dict[str, Any]:
        """As ListAssignmentsForHIT tells it."""
        kind = self.hit.kind
        told = {
            "AssignmentId": self.id, "WorkerId": self.worker, "HITId": self.hit.id,
            "AssignmentStatus": self.status, "AcceptTime": self.accepted,
            "Answer": self.answer,
        }  # fmt: skip
        if self.submitted is not _FAR:
            delay = timedelta(seconds=kind["AutoApprovalDelayInSeconds"])
            told |= {"SubmitTime": self.submitted,
                     "AutoApprovalTime": self.submitted + delay}  # fmt: skip
        if self.status == "Approved":
            told["ApprovalTime"] = self.judged
        if self.status == "Rejected":
            told["RejectionTime"] = self.judged
        return told


@dataclass
class Hit:
    """One HIT."""

    id: str
    type: str
    kind: dict[str, Any]
    question: str
    note: str
    made: datetime
    expires: datetime
    most: int = 1
    takings: list[Taking] = field(default_factory=list)
    reviewing: bool = False
    deleted: bool = False

    def count(self, *states: str) -> int:
        return sum(one.status in states for one in self.takings)

    @property
    def available(self) -> int:
        return self.most - self.count("Accepted", "Submitted", "Approved", "Rejected")

    @property
    def guard(self) -> str:
        wanted = self.kind.get("QualificationRequirements", ())
        return max((one.get("ActionsGuarded", "Accept") for one in wanted),
                   key=len, default="Accept")  # fmt: skip

    @property
    def hides(self) -> bool:
        return self.guard == "DiscoverPreviewAndAccept"

    def status(self, now: datetime) -> str:
        if self.deleted:
            return "Disposed"
        if self.available > 0 and now < self.expires:
            return "Assignable"
        if self.count("Accepted"):
            return "Unassignable"
        return "Reviewing" if self.reviewing else "Reviewable"

    def told(self, now: datetime | None = None) -> dict[str, Any]:
        """As GetHIT tells it."""
        return {
            "HITId": self.id, "HITTypeId": self.type, "HITGroupId": self.type,
            "CreationTime": self.made, "Expiration": self.expires,
            "HITStatus": self.status(now or self.made), "MaxAssignments": self.most,
            "Question": self.question, "RequesterAnnotation": self.note,
            "HITReviewStatus": "NotReviewed",
            "NumberOfAssignmentsPending": self.count("Accepted"),
            "NumberOfAssignmentsAvailable": max(0, self.available),
            "NumberOfAssignmentsCompleted": self.count("Approved", "Rejected"),
            **self.kind,
            "QualificationRequirements": [
                {**one, "RequiredToPreview": "Preview" in one.get("ActionsGuarded", "")}
                for one in self.kind.get("QualificationRequirements", ())
            ],
        }  # fmt: skip

    def address(self, **more: str) -> str:
        """The URL of an external question, with what MTurk appends."""
        root = ET.fromstring(self.question)
        url = next(one.text for one in root if one.tag.endswith("ExternalURL"))
        assert url
        return f"{url}{'&' if '?' in url else '?'}{urlencode(more)}"
