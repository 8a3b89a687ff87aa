"""What each operation of the emulated MTurk does."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.contract.mturk_states import Hit, Refusal, Taking

if TYPE_CHECKING:
    from tests.contract.mturk_server import Mturk

Told = Mapping[str, Any]
DAY = timedelta(days=1)
_RANGES = {
    "AssignmentDurationInSeconds": (30, 31_536_000),
    "LifetimeInSeconds": (30, 31_536_000),
    "AutoApprovalDelayInSeconds": (0, 2_592_000),
    "MaxAssignments": (1, 1_000_000_000),
}
_LONGEST = {"Title": 128, "Description": 2000, "RequesterAnnotation": 255}
_KIND = ("Title", "Description", "Reward", "AssignmentDurationInSeconds",
         "AutoApprovalDelayInSeconds", "QualificationRequirements", "Keywords")  # fmt: skip


def check_ranges(told: Told) -> None:
    for name, (least, most) in _RANGES.items():
        if name in told and not least <= told[name] <= most:
            raise Refusal("ParameterValidationError", f"{name} is out of range")
    for name, longest in _LONGEST.items():
        if len(told.get(name, "")) > longest:
            raise Refusal("ParameterValidationError", f"{name} is too long")


def check_question(text: str) -> None:
    """An external question whose address is one of https (here: or of this machine)."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError:
        raise Refusal(
            "ParameterValidationError", "The XML is not well formed"
        ) from None
    urls = [one.text or "" for one in root if one.tag.endswith("ExternalURL")]
    parts = urlsplit(urls[0] if urls else "")
    if parts.scheme != "https" and parts.hostname != "127.0.0.1":
        raise Refusal("ParameterValidationError", "ExternalURL is not one of https")


def hit_of(server: Mturk, told: Told) -> Hit:
    hit = server.hits.get(told["HITId"])
    if hit is None or hit.deleted:
        raise Refusal("HITDoesNotExist", f"Hit {told['HITId']} does not exist.")
    return hit


def page(server: Mturk, told: Told, every: list[Any], name: str) -> dict[str, Any]:
    """One page; the last one has a token too, behind which lies an empty one."""
    size = min(told.get("MaxResults", 10), server.page_size)
    first = int(told.get("NextToken", "p0")[1:])
    found = every[first : first + size]
    said: dict[str, Any] = {name: found, "NumResults": len(found)}
    if found:
        said["NextToken"] = f"p{first + len(found)}"
    return said


def known_token(server: Mturk, operation: str, told: Told) -> str | None:
    made, number = server.tokens.get(
        (operation, told.get("UniqueRequestToken", "")), (None, "")
    )
    return number if made is not None and server.now < made + DAY else None


def keep_token(server: Mturk, operation: str, told: Told, number: str) -> None:
    if "UniqueRequestToken" in told:
        server.tokens[operation, told["UniqueRequestToken"]] = server.now, number


def used(token: str) -> Refusal:
    words = f'The idempotency token "{token}" has already been processed.'
    return Refusal("RequestError", words)


def create_qualification_type(server: Mturk, told: Told) -> dict[str, Any]:
    if any(one["Name"] == told["Name"] for one in server.kinds.values()):
        raise Refusal("QualificationTypeAlreadyExists", "You have created it already.")
    number = server.new_id()
    server.kinds[number] = {**told, "QualificationTypeId": number,
                            "IsRequestable": True, "CreationTime": server.now}  # fmt: skip
    return {"QualificationType": server.kinds[number]}


def list_qualification_types(server: Mturk, told: Told) -> dict[str, Any]:
    found = [
        one for one in server.kinds.values() if told.get("Query", "") in one["Name"]
    ]
    return page(server, told, found, "QualificationTypes")


def associate(server: Mturk, told: Told) -> None:
    if told["QualificationTypeId"] not in server.kinds:
        raise Refusal("QualificationTypeDoesNotExist", "There is no such type.")
    if told.get("SendNotification", True):
        raise Refusal("RequestError", "This emulator writes no letters.")
    place = told["QualificationTypeId"], told["WorkerId"]
    server.scores[place] = told.get("IntegerValue", 1)


def score(server: Mturk, told: Told) -> dict[str, Any]:
    place = told["QualificationTypeId"], told["WorkerId"]
    if place not in server.scores:
        raise Refusal("QualificationDoesNotExist", "The worker does not have it.")
    return {"Qualification": {
        "QualificationTypeId": place[0], "WorkerId": place[1], "Status": "Granted",
        "IntegerValue": server.scores[place], "GrantTime": server.now,
    }}  # fmt: skip


def create_hit_type(server: Mturk, told: Told) -> dict[str, Any]:
    check_ranges(told)
    if Decimal(told["Reward"]) <= 0:
        raise Refusal("ParameterValidationError", "Reward must be above 0")
    kind = {name: told[name] for name in _KIND if name in told}
    kind.setdefault("AutoApprovalDelayInSeconds", 2_592_000)
    for number, other in server.types.items():
        if other == kind:
            return {"HITTypeId": number}
    number = server.new_id()
    server.types[number] = kind
    return {"HITTypeId": number}


def notify(server: Mturk, told: Told) -> None:
    if told["Notification"]["Version"] not in ("2014-08-15", "2006-05-05"):
        raise Refusal("ParameterValidationError", "unknown version")
    server.told[told["HITTypeId"]] = told["Notification"]["Destination"]


def create_hit(server: Mturk, told: Told) -> dict[str, Any]:
    check_ranges(told)
    check_question(told["Question"])
    known = known_token(server, "CreateHIT", told)
    if known is not None:
        raise Refusal("HITAlreadyExists", f"HIT {known} already exists for this token.")
    kind = server.types.get(told["HITTypeId"])
    if kind is None:
        raise Refusal("HITTypeDoesNotExist", "There is no such HIT type.")
    hit = Hit(
        server.new_id(), told["HITTypeId"], kind, told["Question"],
        told.get("RequesterAnnotation", ""), server.now,
        server.now + timedelta(seconds=told["LifetimeInSeconds"]),
        told.get("MaxAssignments", 1),
    )  # fmt: skip
    server.hits[hit.id] = hit
    keep_token(server, "CreateHIT", told, hit.id)
    return {"HIT": hit.told(server.now)}


def more_assignments(server: Mturk, told: Told) -> None:
    hit = hit_of(server, told)
    if hit.most < 10 <= hit.most + told["NumberOfAdditionalAssignments"]:
        raise Refusal(
            "InvalidMaximumAssignmentsIncrease", "From below 10 to 10 or more."
        )
    hit.most += told["NumberOfAdditionalAssignments"]


def get_hit(server: Mturk, told: Told) -> dict[str, Any]:
    return {"HIT": hit_of(server, told).told(server.now)}


def list_hits(server: Mturk, told: Told) -> dict[str, Any]:
    every = [hit.told(server.now) for hit in server.hits.values() if not hit.deleted]
    return page(server, told, every, "HITs")


def list_reviewable(server: Mturk, told: Told) -> dict[str, Any]:
    wanted = told.get("Status", "Reviewable")
    every = [hit.told(server.now) for hit in server.hits.values()
             if hit.status(server.now) == wanted]  # fmt: skip
    return page(server, told, every, "HITs")


def review(server: Mturk, told: Told) -> None:
    hit = hit_of(server, told)
    if hit.status(server.now) != ("Reviewing" if told.get("Revert") else "Reviewable"):
        raise Refusal("InvalidHITState", "This HIT is in another state.")
    hit.reviewing = not told.get("Revert", False)


def expire(server: Mturk, told: Told) -> None:
    """Set when a HIT expires: a moment just past is refused, and the same again."""
    hit = hit_of(server, told)
    at = datetime.fromtimestamp(told["ExpireAt"], UTC)
    if abs(at - server.now) < timedelta(minutes=10):
        words = "ExpirationIncrementInSeconds must be from 60 to 31536000"
        raise Refusal("ParameterValidationError", words)
    token = {"UniqueRequestToken": f"{hit.id}{at:%c}"}
    if known_token(server, "Expire", token) is not None:
        raise used(token["UniqueRequestToken"])
    hit.expires = at
    keep_token(server, "Expire", token, hit.id)


def delete(server: Mturk, told: Told) -> None:
    hit = hit_of(server, told)
    if hit.status(server.now) != "Reviewable" or hit.count("Submitted"):
        raise Refusal("InvalidHITState", "It is not reviewable and judged.")
    hit.deleted = True


def list_assignments(server: Mturk, told: Told) -> dict[str, Any]:
    wanted = told.get("AssignmentStatuses", ["Submitted", "Approved", "Rejected"])
    every = [one.told() for one in hit_of(server, told).takings if one.status in wanted]
    return page(server, told, every, "Assignments")


def handed_in(server: Mturk, told: Told) -> Taking:
    one = server.taking(told["AssignmentId"])
    if one.status == "Accepted":  # only what was handed in is there
        raise Refusal("AssignmentDoesNotExist", "Assignment does not exist.")
    return one


def get_assignment(server: Mturk, told: Told) -> dict[str, Any]:
    one = handed_in(server, told)
    return {"Assignment": one.told(), "HIT": one.hit.told(server.now)}


def approve(server: Mturk, told: Told) -> None:
    one = handed_in(server, told)
    if one.status != "Submitted":
        words = f"This operation can be called with a status of: Submitted, not {one.status}"
        raise Refusal("InvalidAssignmentState", words)
    server.approve(one)


def reject(server: Mturk, told: Told) -> None:
    one = handed_in(server, told)
    if one.status != "Submitted":
        raise Refusal("InvalidAssignmentState", "It is judged already.")
    one.status, one.judged = "Rejected", server.now


def send_bonus(server: Mturk, told: Told) -> None:
    one = handed_in(server, told)
    if one.worker != told["WorkerId"]:
        raise Refusal("RequestError", "The worker has not done this assignment.")
    if known_token(server, "SendBonus", told) is not None:
        raise used(told["UniqueRequestToken"])
    amount = Decimal(told["BonusAmount"])
    if not Decimal("0.01") <= amount <= 10_000:
        raise Refusal("ParameterValidationError", "BonusAmount is out of range")
    server.bonuses.append({
        "WorkerId": one.worker, "BonusAmount": told["BonusAmount"],
        "AssignmentId": one.id, "Reason": told["Reason"], "GrantTime": server.now,
    })  # fmt: skip
    server.paid.append(("bonus", one.worker, amount))
    keep_token(server, "SendBonus", told, one.id)


def list_bonuses(server: Mturk, told: Told) -> dict[str, Any]:
    number = told["AssignmentId"]
    every = [one for one in server.bonuses if one["AssignmentId"] == number]
    return page(server, told, every, "BonusPayments")


CALLS: dict[str, Callable[[Mturk, Told], dict[str, Any] | None]] = {
    "CreateQualificationType": create_qualification_type,
    "ListQualificationTypes": list_qualification_types,
    "AssociateQualificationWithWorker": associate,
    "GetQualificationScore": score,
    "CreateHITType": create_hit_type,
    "UpdateNotificationSettings": notify,
    "CreateHITWithHITType": create_hit,
    "CreateAdditionalAssignmentsForHIT": more_assignments,
    "GetHIT": get_hit,
    "ListHITs": list_hits,
    "ListReviewableHITs": list_reviewable,
    "UpdateHITReviewStatus": review,
    "UpdateExpirationForHIT": expire,
    "DeleteHIT": delete,
    "ListAssignmentsForHIT": list_assignments,
    "GetAssignment": get_assignment,
    "GetAccountBalance": lambda _, __: {"AvailableBalance": "10000.00"},
    "ApproveAssignment": approve,
    "RejectAssignment": reject,
    "SendBonus": send_bonus,
    "ListBonusPayments": list_bonuses,
}
