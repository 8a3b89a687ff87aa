"""A Prolific of our own: stateful, over real HTTP, after the public API reference.

What it keeps to: a draft is made and then published (two calls, none idempotent), a
published study's filters stay, groups are live, a page past the last is a 404, study
links are signed (RS256, two minutes) only where the workspace has that, a participant
takes a place once, states that no document names appear.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.contract.receiver import Receiver, Request, receiving

TOKEN = "prolific-api-token"
WORKSPACE = "ws1"
PROJECT = "pr1"
Reply = tuple[int, Mapping[str, str], bytes]


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


SIGNING = new_key()


def reply(status: int, told: object = None) -> Reply:
    body = b"" if told is None else json.dumps(told).encode()
    return status, {"content-type": "application/json"}, body


MISSING = reply(404, {"error": {"status": 404, "title": "Not found"}})


@dataclass
class Prolific:
    """One workspace with one project."""

    receiver: Receiver
    signs: bool = True
    life: timedelta = timedelta(minutes=2)  # of a signed link
    overrides: dict[str, object] = field(
        default_factory=dict
    )  # claims signed otherwise
    page_size: int = 2
    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=lambda: {"k1": SIGNING})
    groups: dict[str, list[str]] = field(default_factory=dict)
    studies: dict[str, dict[str, Any]] = field(default_factory=dict)
    submissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    secret: str = ""
    subscriptions: list[dict[str, Any]] = field(default_factory=list)
    currency: str = "GBP"
    balance: int = 100_000
    bulks: list[tuple[str, int]] = field(default_factory=list)
    slow: bool = False  # bonuses are paid minutes after the call
    under_way: list[tuple[str, int]] = field(default_factory=list)
    paid: list[tuple[str, int]] = field(default_factory=list)  # participant, cents

    @property
    def url(self) -> str:
        return self.receiver.url

    def held(self) -> bytes:
        """All that lies at Prolific."""
        kept = [self.groups, self.studies, self.submissions]
        return json.dumps(kept, ensure_ascii=False).encode()

    # -- what participants do ----------------------------------------------------------

    def visible(self, participant: str) -> list[dict[str, Any]]:
        return [
            study
            for study in self.studies.values()
            if study["status"] == "ACTIVE"
            and self._taken(study) < study["total_available_places"]
            and all(self._fits(one, participant) for one in study["filters"])
        ]

    def _fits(self, wanted: Mapping[str, Any], participant: str) -> bool:
        assert wanted["filter_id"] == "participant_group_allowlist"
        return any(
            participant in self.groups[group] for group in wanted["selected_values"]
        )

    def _taken(self, study: Mapping[str, Any]) -> int:
        return sum(
            one["study_id"] == study["id"]
            and one["status"] not in ("RETURNED", "TIMED-OUT")
            for one in self.submissions.values()
        )

    def take(self, participant: str, study: Mapping[str, Any]) -> str:
        """Take the place of a study; the submission's id."""
        assert study in self.visible(participant)
        session = f"s{len(self.submissions) + 1}"
        self.submissions[session] = {
            "id": session, "study_id": study["id"], "participant_id": participant,
            "status": "ACTIVE", "started_at": "2026-01-02T03:04:05Z",
            "has_siblings": False, "bonus_payments": [],
        }  # fmt: skip
        return session

    def link(self, session: str, now: datetime, kid: str = "k1") -> str:
        """Where the browser of a participant is sent."""
        submission = self.submissions[session]
        study = self.studies[submission["study_id"]]
        found = {
            "{{%PROLIFIC_PID%}}": submission["participant_id"],
            "{{%STUDY_ID%}}": study["id"],
            "{{%SESSION_ID%}}": session,
        }
        template = study["external_study_url"]
        query = {
            name: found.get(values[0], values[0])
            for name, values in parse_qs(urlsplit(template).query).items()
        }
        aud = f"{template.partition('?')[0]}?{urlencode(query)}"
        if not study["is_external_study_url_secure"]:
            return aud
        claims = {**query, "workspace_id": WORKSPACE}
        return f"{aud}&prolific_token={self.sign(claims, session, aud, now, kid)}"

    def sign(
        self, claims: Mapping[str, str], session: str, aud: str, now: datetime,
        kid: str = "k1",
    ) -> str:  # fmt: skip
        payload = {
            "iss": "https://www.prolific.com", "iat": int(now.timestamp()),
            "exp": int((now + self.life).timestamp()), "aud": aud,
            "sub": session, "prolific": dict(claims), **self.overrides,
        }  # fmt: skip
        return jwt.encode(payload, self.keys[kid], "RS256", headers={"kid": kid})

    def end(self, session: str, state: str) -> None:
        self.submissions[session]["status"] = state

    def hand_in(self, session: str) -> None:
        """The participant brings the code: the study has no place left."""
        submission = self.submissions[session]
        study = self.studies[submission["study_id"]]
        submission["status"] = study["status"] = "AWAITING REVIEW"

    def catch_up(self) -> None:
        """Pay the bonuses that were asked for."""
        for session, cents in self.under_way:
            submission = self.submissions[session]
            submission["bonus_payments"].append(cents)
            self.paid.append((submission["participant_id"], cents))
        self.under_way.clear()

    # -- what researchers call ---------------------------------------------------------

    def respond(self, request: Request) -> Reply | None:
        parts = urlsplit(request.path)
        if parts.path == "/.well-known/study/jwks.json":
            return reply(200, {"keys": [self._published(kid) for kid in self.keys]})
        if request.headers.get("authorization") != f"Token {TOKEN}":
            return reply(401, {"error": {"title": "Authentication failed"}})
        told = json.loads(request.body) if request.body else {}
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        for method, pattern, act in _ROUTES:
            found = re.fullmatch(pattern, parts.path)
            if found and request.method == method:
                return act(self, *found.groups(), told=told, asked=asked)
        return MISSING

    def _published(self, kid: str) -> dict[str, Any]:
        public = self.keys[kid].public_key()
        jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(public))
        return {**jwk, "kid": kid, "alg": "RS256", "use": "sig"}

    def make_group(self, *, told, asked) -> Reply:
        number = f"g{len(self.groups) + 1}"
        self.groups[number] = list(told["participant_ids"])
        return reply(201, {"id": number, "name": told["name"]})

    def members(self, number, *, told, asked) -> Reply:
        if number not in self.groups:
            return MISSING
        members = [{"participant_id": one} for one in self.groups[number]]
        return reply(200, {"results": members})

    def make_study(self, *, told, asked) -> Reply:
        if told["project"] != PROJECT or told["reward"] <= 0:
            return reply(400, {"error": {"title": "Error"}})
        number = f"st{len(self.studies) + 1}"
        created = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(
            seconds=len(self.studies)
        )
        secure = bool(told["is_external_study_url_secure"]) and self.signs
        self.studies[number] = {
            **told, "id": number, "status": "UNPUBLISHED",
            "is_external_study_url_secure": secure,
            "date_created": created.isoformat(),
        }  # fmt: skip
        return reply(201, self.studies[number])

    def read_study(self, number, *, told, asked) -> Reply:
        study = self.studies.get(number)
        return MISSING if study is None else reply(200, study)

    def list_studies(self, project, *, told, asked) -> Reply:
        assert project == PROJECT
        assert asked["ordering"] == "-date_created"
        short = [
            {
                **{
                    name: study[name]
                    for name in (
                        "id",
                        "name",
                        "internal_name",
                        "status",
                        "date_created",
                    )
                },
                "number_of_submissions": sum(
                    one["study_id"] == study["id"] for one in self.submissions.values()
                ),
            }
            for study in reversed(self.studies.values())
        ]
        return self._page(short, f"/api/v1/projects/{project}/studies/", asked)

    def list_submissions(self, *, told, asked) -> Reply:
        found = [
            one
            for one in self.submissions.values()
            if one["study_id"] == asked["study"]
        ]
        return self._page(found, "/api/v1/submissions/", asked)

    def _page(self, found: list, path: str, asked: Mapping[str, str]) -> Reply:
        number = int(asked["page"])
        first = (number - 1) * self.page_size
        if number > 1 and first >= len(found):
            return MISSING
        following = None
        if first + self.page_size < len(found):
            query = urlencode({**asked, "page": number + 1})
            following = f"{self.url}{path}?{query}"
        told = {"results": found[first : first + self.page_size],
                "_links": {"next": {"href": following}}}  # fmt: skip
        return reply(200, told)

    def read_submission(self, number, *, told, asked) -> Reply:
        kept = self.submissions.get(number)
        if kept is None:
            return MISSING
        whole = {name: text for name, text in kept.items() if name != "participant_id"}
        return reply(200, {**whole, "participant": kept["participant_id"]})

    def move_submission(self, number, *, told, asked) -> Reply:
        kept = self.submissions.get(number)
        if kept is None:
            return MISSING
        assert told == {"action": "APPROVE"}, "nothing is ever rejected"
        if kept["status"] == "AWAITING REVIEW":
            reward = self.studies[kept["study_id"]]["reward"]
            kept["status"] = "APPROVED"
            self.paid.append((kept["participant_id"], reward))
            self.balance -= reward
        elif kept["status"] != "APPROVED":  # the same request twice is ignored
            return reply(400, {"error": {"title": "Error"}})
        return reply(200, kept)

    def read_balance(self, workspace, *, told, asked) -> Reply:
        assert workspace == WORKSPACE
        return reply(200, {
            "currency_code": self.currency, "total_balance": self.balance,
            "available_balance": self.balance,
        })  # fmt: skip

    def set_up_bonus(self, *, told, asked) -> Reply:
        """One line: a submission of the study, and units of the currency."""
        found = re.fullmatch(r"(\w+),(\d+)\.(\d\d)\n", told["csv_bonuses"])
        kept = self.submissions.get(found[1]) if found else None
        if kept is None or kept["study_id"] != told["study_id"]:
            return reply(400, {"error": {"title": "Error"}})
        cents = int(found[2]) * 100 + int(found[3])
        self.bulks.append((found[1], cents))
        return reply(201, {"id": f"b{len(self.bulks)}", "total_amount": cents})

    def pay_bonus(self, number, *, told, asked) -> Reply:
        """Not idempotent: every call pays."""
        session, cents = self.bulks[int(number) - 1]
        if cents > self.balance:
            return reply(400, {"error": {"title": "Error"}})
        self.balance -= cents
        self.under_way.append((session, cents))
        if not self.slow:
            self.catch_up()
        return reply(202, {"message": "Payments are being processed"})

    def read_secrets(self, *, told, asked) -> Reply:
        known = {"id": "1", "value": self.secret, "workspace_id": WORKSPACE}
        return reply(200, {"results": [known] if self.secret else []})

    def make_secret(self, *, told, asked) -> Reply:
        self.secret = f"hook-secret-{len(self.secret)}"
        return reply(201, {"value": self.secret, "workspace_id": WORKSPACE})

    def list_subscriptions(self, *, told, asked) -> Reply:
        on = [one for one in self.subscriptions if one["is_enabled"]]
        return reply(200, {"results": on})

    def subscribe(self, *, told, asked) -> Reply:
        number = str(len(self.subscriptions) + 1)
        self.subscriptions.append({**told, "id": number, "is_enabled": False})
        status, headers, body = reply(201, {**told, "id": number})
        return status, {**headers, "x-hook-secret": f"confirm-{number}"}, body

    def confirm(self, number, *, told, asked) -> Reply:
        if told["secret"] != f"confirm-{number}":
            return reply(400, {"error": {"title": "Error"}})
        self.subscriptions[int(number) - 1]["is_enabled"] = True
        return reply(200, {})

    def call(self, body: bytes, now: datetime, secret: str = "") -> dict[str, str]:
        """Headers of a call with this body."""
        moment = str(int(now.timestamp()))
        key = (secret or self.secret).encode()
        digest = hmac.digest(key, moment.encode() + body, "sha256")
        return {
            "x-prolific-request-signature": base64.b64encode(digest).decode(),
            "x-prolific-request-timestamp": moment,
            "x-event-id": "event-1",
        }

    def delete_study(self, number, *, told, asked) -> Reply:
        if number not in self.studies:
            return MISSING
        if self.studies[number]["status"] != "UNPUBLISHED":
            return reply(400, {"error": {"title": "Error"}})
        del self.studies[number]
        return reply(204)

    def move_study(self, number, *, told, asked) -> Reply:
        study = self.studies.get(number)
        if study is None:
            return MISSING
        moves = {("UNPUBLISHED", "PUBLISH"): "ACTIVE", ("ACTIVE", "STOP"): "COMPLETED",
                 ("PAUSED", "STOP"): "COMPLETED"}  # fmt: skip
        state = moves.get((study["status"], told["action"]))
        if state is None:
            return reply(400, {"error": {"title": "Error"}})
        study["status"] = state
        return reply(200, study)


_ROUTES = (
    ("POST", r"/api/v1/participant-groups/", Prolific.make_group),
    ("GET", r"/api/v1/participant-groups/(\w+)/participants/", Prolific.members),
    ("POST", r"/api/v1/studies/", Prolific.make_study),
    ("GET", r"/api/v1/studies/(\w+)/", Prolific.read_study),
    ("DELETE", r"/api/v1/studies/(\w+)/", Prolific.delete_study),
    ("POST", r"/api/v1/studies/(\w+)/transition/", Prolific.move_study),
    ("GET", r"/api/v1/projects/(\w+)/studies/", Prolific.list_studies),
    ("GET", r"/api/v1/submissions/", Prolific.list_submissions),
    ("POST", r"/api/v1/submissions/bonus-payments/", Prolific.set_up_bonus),
    ("GET", r"/api/v1/submissions/([\w-]+)/", Prolific.read_submission),
    ("POST", r"/api/v1/submissions/(\w+)/transition/", Prolific.move_submission),
    ("POST", r"/api/v1/bulk-bonus-payments/b(\d+)/pay/", Prolific.pay_bonus),
    ("GET", r"/api/v1/workspaces/(\w+)/balance/", Prolific.read_balance),
    ("GET", r"/api/v1/hooks/secrets/", Prolific.read_secrets),
    ("POST", r"/api/v1/hooks/secrets/", Prolific.make_secret),
    ("GET", r"/api/v1/hooks/subscriptions/", Prolific.list_subscriptions),
    ("POST", r"/api/v1/hooks/subscriptions/", Prolific.subscribe),
    ("POST", r"/api/v1/hooks/subscriptions/(\w+)/", Prolific.confirm),
)


@contextmanager
def prolific_server() -> Iterator[Prolific]:
    with receiving() as receiver:
        server = Prolific(receiver)
        receiver.respond = server.respond
        yield server
