"""An MTurk of our own: stateful, over real HTTP, on botocore's service description.

Contract-true: every call is checked by the description's shapes, and so is every answer.
Behaviour-plausible, after the documentation and public reports, since no description
tells it: the states of HITs and assignments, who sees what, tokens that are known for a
day and then refused as used, ids of returned assignments that go to the next worker,
events that come twice, late, out of order or never.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import numpy as np

from tests.contract import mturk_shapes as shapes
from tests.contract.mturk_calls import CALLS
from tests.contract.mturk_states import Hit, Refusal, Taking
from tests.contract.receiver import Receiver, Request, receiving

KEY_ID, KEY = "AKIATESTMTURK", "k3y-0f-th3-t3st"
Reply = tuple[int, Mapping[str, str], bytes]
_ACTING = ("lost", "fault after")
_FORM = (
    '<?xml version="1.0" encoding="ASCII"?><QuestionFormAnswers xmlns="http://mechanical'
    'turk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd">'
    "{}</QuestionFormAnswers>"
)
_ANSWER = "<Answer><QuestionIdentifier>{}</QuestionIdentifier><FreeText>{}</FreeText></Answer>"


@dataclass
class Faults:
    """What goes wrong, and how often: a share of calls or events for each kind."""

    rng: np.random.Generator
    share: float = 0.05
    done: Counter[str] = field(default_factory=Counter)

    def pick(self, *kinds: str) -> str:
        """At most one of the kinds; each comes by its share."""
        drawn = self.rng.random()
        place = int(drawn / self.share) if self.share else len(kinds)
        if place >= len(kinds):
            return ""
        self.done[kinds[place]] += 1
        return kinds[place]


@dataclass
class Mturk:
    """One requester's account, and the workers."""

    receiver: Receiver
    clock: Callable[[], datetime]
    any_worker: bool = False  # take worker ids that no worker of MTurk has
    skew: timedelta = timedelta()  # of the clock that signatures are checked by
    page_size: int = 100
    faults: Faults | None = None
    deliver: Callable[[str, str], None] | None = None  # (queue, body)
    ids: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    scores: dict[tuple[str, str], int] = field(default_factory=dict)
    types: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)  # HIT type -> queue
    hits: dict[str, Hit] = field(default_factory=dict)
    tokens: dict[tuple[str, str], tuple[datetime, str]] = field(default_factory=dict)
    bonuses: list[dict[str, Any]] = field(default_factory=list)
    paid: list[tuple[str, str, Decimal]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    late: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def url(self) -> str:
        return self.receiver.url

    @property
    def now(self) -> datetime:
        return self.clock()

    def new_id(self, first: str = "3") -> str:
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        return first + "".join(letters[n] for n in self.ids.integers(0, 36, 29))

    def held(self) -> bytes:
        """All that lies at MTurk."""
        kept = [self.kinds, self.types, [h.told() for h in self.hits.values()],
                [t.told() for t in self.takings()], self.bonuses]  # fmt: skip
        return json.dumps(kept, ensure_ascii=False, default=str).encode()

    def takings(self) -> list[Taking]:
        return [one for hit in self.hits.values() for one in hit.takings]

    def taking(self, number: str) -> Taking:
        """What an assignment's id means now: the last one that bears it."""
        for one in reversed(self.takings()):
            if one.id == number and one.status != "Returned":
                return one
        raise Refusal("AssignmentDoesNotExist", f"Assignment {number} does not exist.")

    def settle(self) -> None:
        """Let MTurk approve what was judged by nobody in time."""
        for one in self.takings():
            delay = timedelta(seconds=one.hit.kind["AutoApprovalDelayInSeconds"])
            if one.status == "Submitted" and one.submitted + delay <= self.now:
                self.approve(one)

    def approve(self, one: Taking) -> None:
        one.status, one.judged = "Approved", self.now
        self.paid.append(("reward", one.worker, Decimal(one.hit.kind["Reward"])))

    # -- what workers do ---------------------------------------------------------------

    def qualifies(self, hit: Hit, worker: str) -> bool:
        for wanted in hit.kind.get("QualificationRequirements", ()):
            assert wanted["Comparator"] in ("EqualTo", "In")
            score = self.scores.get((wanted["QualificationTypeId"], worker))
            if score not in wanted["IntegerValues"]:
                return False
        return True

    def visible(self, worker: str) -> list[Hit]:
        """HITs that a worker can find; one that guards only accepting is seen by all."""
        with self.lock:
            return [
                hit
                for hit in self.hits.values()
                if hit.status(self.now) == "Assignable"
                and hit.available > 0
                and (self.qualifies(hit, worker) or not hit.hides)
            ]

    def preview(self, worker: str, hit: Hit) -> str:
        """Where a look at a HIT leads: MTurk usually does not say whose."""
        assert hit.guard == "Accept" or self.qualifies(hit, worker)
        return hit.address(assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE", hitId=hit.id)

    def accept(self, worker: str, hit: Hit) -> Taking:
        """Take one assignment; the id of one that was handed back is used again."""
        with self.lock:
            if hit not in self.visible(worker) or not self.qualifies(hit, worker):
                raise Refusal("WorkerIneligible", "The worker cannot accept this.")
            used = {one.id for one in hit.takings if one.status != "Returned"}
            free = [one.id for one in hit.takings if one.id not in used]
            number = free[-1] if free else self.new_id()
            taken = Taking(number, hit, worker, self.now)
            hit.takings.append(taken)
            self.tell("AssignmentAccepted", taken)
            return taken

    def link(self, taken: Taking) -> str:
        """What the worker's frame shows after accepting."""
        return taken.hit.address(
            assignmentId=taken.id, hitId=taken.hit.id, workerId=taken.worker,
            turkSubmitTo=self.url,
        )  # fmt: skip

    def give_back(self, taken: Taking, event: str = "AssignmentReturned") -> None:
        with self.lock:
            assert taken.status == "Accepted"
            taken.status = "Returned"
            self.tell(event, taken)

    def submit(self, taken: Taking, **form: str) -> None:
        """Hand in, as the form in the frame does."""
        with self.lock:
            if taken.status != "Accepted":
                raise Refusal("InvalidAssignmentState", "It was handed in already.")
            words = "".join(
                _ANSWER.format(escape(n), escape(t)) for n, t in form.items()
            )
            taken.answer = _FORM.format(words)
            taken.status, taken.submitted = "Submitted", self.now
            self.tell("AssignmentSubmitted", taken)

    def tell(self, event: str, taken: Taking) -> None:
        """Send an event to the queue of the HIT's type; some go wrong on the way."""
        queue = self.told.get(taken.hit.type)
        if queue is None or self.deliver is None:
            return
        body = json.dumps({
            "EventDocVersion": "2014-08-15", "EventDocId": self.new_id("e"),
            "CustomerId": "A0REQUESTER",
            "Events": [{
                "EventType": event, "EventTimestamp": f"{self.now:%Y-%m-%dT%H:%M:%SZ}",
                "HITTypeId": taken.hit.type, "HITId": taken.hit.id,
                "AssignmentId": taken.id, "WorkerId": taken.worker,
            }],
        })  # fmt: skip
        kinds = ("event lost", "event twice", "event late")
        fault = self.faults.pick(*kinds) if self.faults else ""
        if fault == "event late":
            self.late.append((queue, body))
            return
        for _ in range({"event lost": 0, "event twice": 2}.get(fault, 1)):
            self.deliver(queue, body)
        while fault == "" and self.late:  # overtaken by this one
            self.deliver(*self.late.pop())

    # -- what is called ----------------------------------------------------------------

    def respond(self, request: Request) -> Reply | None:
        if request.path == "/mturk/externalSubmit":
            return self._form(request)
        with self.lock:
            return self._call(request)

    def _call(self, request: Request) -> Reply | None:
        model = shapes.operation(request.headers.get("x-amz-target", ""))
        if model is None or request.method != "POST":
            return _error("UnknownOperationException", "unknown")
        self.calls[model.name] += 1
        refused = self._unsigned(request)
        if refused:
            return refused
        fault = ""
        if self.faults:
            fault = self.faults.pick("throttle", "fault before", *_ACTING)
        if fault == "throttle":
            return _error("ThrottlingException", "Rate exceeded")
        if fault == "fault before":
            return _error("ServiceFault", "Try again.", "AWS.ServiceFault", 500)
        answered = self._act(model, json.loads(request.body or b"{}"))
        if fault == "lost":
            return None
        if fault == "fault after":
            return _error("ServiceFault", "Try again.", "AWS.ServiceFault", 500)
        return answered

    def _act(self, model: Any, told: dict[str, Any]) -> Reply:
        self.settle()
        wrong = list(shapes.faults(model.input_shape, told))
        if self.any_worker:
            wrong = [one for one in wrong if ".WorkerId" not in one
                     and "RequesterAnnotation" not in one]  # fmt: skip
        try:
            check(wrong)
            said = CALLS[model.name](self, told) or {}
        except Refusal as error:
            code = f"AWS.MechanicalTurk.{error.code}"
            return _error("RequestError", f"{error.words} (1767323045000 s)", code)
        shapes.check_output(model, said)
        return _reply(200, shapes.as_json(said), self.now)

    def _unsigned(self, request: Request) -> Reply | None:
        headers = request.headers
        made = datetime.fromisoformat(headers["x-amz-date"])
        apart = datetime.fromtimestamp(time.time(), UTC) + self.skew - made  # noqa: TID251
        if abs(apart) > timedelta(minutes=5):
            words = "Signature expired: it is now earlier than allowed"
            return _error("InvalidSignatureException", words)
        host = f"http://{headers['host']}/"
        if not shapes.signed_by(KEY_ID, KEY, host, headers, request.body):
            return _error("UnrecognizedClientException", "The token is invalid.")
        return None

    def _form(self, request: Request) -> Reply:
        """``externalSubmit``: of the worker whose session (here: a cookie) it is."""
        form = {n: v[0] for n, v in parse_qs(request.body.decode()).items()}
        number = form.pop("assignmentId", "")
        cookies = request.headers.get("cookie", "").split("; ")
        try:
            with self.lock:
                taken = self.taking(number)
                if not form or f"worker={taken.worker}" not in cookies:
                    return _reply(400, {}, self.now)
                self.submit(taken, **form)
        except Refusal:
            return _reply(400, {}, self.now)
        return _reply(200, {}, self.now)


def check(wrong: list[str]) -> None:
    if wrong:
        raise Refusal("ParameterValidationError", wrong[0])


def _reply(status: int, told: object, now: datetime) -> Reply:
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "date": f"{now:%a, %d %b %Y %H:%M:%S GMT}",
        "x-amzn-requestid": "1",
    }
    return status, headers, json.dumps(told).encode()


def _error(kind: str, words: str, code: str = "", status: int = 400) -> Reply:
    told = {"__type": kind, "Message": words, "message": words}
    if code:
        told["TurkErrorCode"] = code
    return (
        status,
        {"content-type": "application/x-amz-json-1.1"},
        json.dumps(told).encode(),
    )


@contextmanager
def mturk_server(clock: Callable[[], datetime], **knobs: Any) -> Iterator[Mturk]:
    with receiving() as receiver:
        server = Mturk(receiver, clock, **knobs)
        receiver.respond = server.respond
        yield server
