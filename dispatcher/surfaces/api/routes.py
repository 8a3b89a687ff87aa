"""The literal table of all addresses, and what each calls: :data:`ROUTES` at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Depends, Header, Query
from fastapi.security import HTTPBearer
from pydantic import BaseModel, TypeAdapter
from starlette.responses import Response

from dispatcher.surfaces.api import accounts, content, evidence, figures, webhooks, work
from dispatcher.surfaces.api.calls import Call
from dispatcher.surfaces.api.documents import Operation, Page
from dispatcher.surfaces.api.problems import MEDIA, ProblemError

Method = Literal["GET", "POST", "PUT", "DELETE"]
Kind = Literal["now", "later", "stream"]
LONGEST_FIELDS: Final = 500


@dataclass(frozen=True, eq=False)
class Route:
    """One address of the API.

    Attributes
    ----------
    method : Method
    path : str
    operation : str
        What roles permit: a line of :data:`dispatcher.access.OPERATIONS`.
    act : Callable
        Takes the call and what FastAPI reads from the request; its annotations and
        docstring are the description.
    guards : Route, optional
        GET of the resource that is edited: ``If-Match`` must name its ETag.
    kind : Kind
        ``now``; ``later``: 202 and an operation; ``stream``: a response of another form.
    takes : Mapping of str to str
        Endings of files that are taken as the body, by media type; none: JSON.
    reads : bool
        Whether a POST only reads: what it asks for is not fit for an address.
    keeps : bool
        Whether the response is remembered for a repeated request: no secret, no value.
    """

    method: Method
    path: str
    operation: str
    act: Callable[..., Any]
    guards: Route | None = None
    kind: Kind = "now"
    takes: Mapping[str, str] = field(default_factory=dict)
    reads: bool = False
    keeps: bool = True

    @property
    def writes(self) -> bool:
        """Whether something may be changed."""
        return self.method != "GET" and not self.reads

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Members of the document that is returned, or of the items of a list."""
        found = get_type_hints(self.act)["return"]
        if isinstance(found, type) and issubclass(found, Page):
            found = found.__pydantic_generic_metadata__["args"][0]
        elif get_origin(found) is Sequence:
            found = get_args(found)[0]
        if isinstance(found, type) and issubclass(found, BaseModel):
            return tuple(found.model_fields)
        return ()

    @property
    def parameters(self) -> dict[str, bool]:
        """What all addresses of its kind take; whether it is yes or no."""
        found = {"dry_run": True} if self.writes else {}
        return found | {"fields": False} if self.cuts else found

    @property
    def cuts(self) -> bool:
        """Whether a reader may ask for some members only."""
        return self.method == "GET" and self.kind == "now" and bool(self.columns)

    def cut(self, body: bytes, fields: str) -> bytes:
        """Return a document, or the items of a list, with these members only.

        Raises
        ------
        ProblemError
            There is no such member.
        """
        names = [name.strip() for name in fields.split(",")]
        if len(fields) > LONGEST_FIELDS or not set(names) <= set(self.columns):
            raise ProblemError(
                422,
                "fields names what is not returned here",
                f"it may name {', '.join(self.columns)}",
            )
        found = json.loads(body)
        if isinstance(found, dict) and found.keys() == Page.model_fields.keys():
            items = [_only(one, names) for one in found["items"]]
            return json.dumps(found | {"items": items}, ensure_ascii=False).encode()
        cut = (
            [_only(one, names) for one in found]
            if isinstance(found, list)
            else _only(found, names)
        )
        return json.dumps(cut, ensure_ascii=False).encode()

    def add_to(self, router: APIRouter, base: str, *, described: bool) -> None:
        """Add the address to an application.

        Parameters
        ----------
        router : APIRouter
        base : str
        described : bool
            Whether what all addresses take is part of the description. An application
            that serves reads it before FastAPI does: to read it twice would cost more
            than a small query.
        """
        shared = []
        if described:
            shared = [Depends(_BEARER), Depends(_write if self.writes else _read)]
        if described and self.cuts:
            shared.append(Depends(_cut))
        if described and self.guards is not None:
            shared.append(Depends(_match))
        more: dict[str, Any] = {}
        if self.kind == "later":
            more = {"response_model": Operation, "status_code": 202}
        elif self.kind == "stream":
            more = {"response_class": Response}
        if self.takes:
            content = {media: {"schema": {"type": "string"}} for media in self.takes}
            more["openapi_extra"] = {
                "requestBody": {"content": content, "required": True}
            }
        router.add_api_route(
            base + self.path,
            self.served,
            **more,
            methods=[self.method],
            operation_id=self.act.__name__,
            tags=[self.path.split("/")[1].partition(":")[0]],
            dependencies=shared,
            responses={"default": _PROBLEM},
            response_model_exclude_none=False,
        )

    @cached_property
    def served(self) -> Callable[..., Any]:
        """What FastAPI calls: the act, whose document is written in its own thread.

        FastAPI would send it through a second one, which costs more than the writing.
        """
        if self.kind != "now":
            return self.act

        @wraps(self.act)
        def respond(**given: Any) -> Response:  # noqa: ANN401 - what an act takes
            found = self.act(**given)
            if isinstance(found, Response):
                return found
            return Response(self._written(found)[1], media_type="application/json")

        return respond

    def render(self, call: Call, path: Mapping[str, Any]) -> tuple[Any, bytes]:
        """Return the document of GET, and its bytes as a client got them."""
        return self._written(self.act(call, **path))

    def _written(self, found: object) -> tuple[Any, bytes]:
        document = self._returned.validate_python(found, from_attributes=True)
        return document, self._returned.dump_json(document)

    @cached_property
    def _returned(self) -> TypeAdapter[Any]:
        return TypeAdapter(get_type_hints(self.act, include_extras=True)["return"])


def _only(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: document[name] for name in names}


_BEARER: Final = HTTPBearer(
    auto_error=False, description="A token of `dispatcher tokens make`."
)
_PROBLEM: Final[dict[str, Any]] = {
    "description": "Why it was refused, and the way out (RFC 9457).",
    "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


# These wait for nothing: a plain function would be sent through a thread, each time.


async def _write(
    dry_run: Annotated[
        bool, Query(description="Say what it would do; change nothing.")
    ] = False,
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=255, description="The same key and body act once, for 48 hours."
        ),
    ] = None,
) -> None:
    """Parameters of every write; they are read before the operation is called."""


async def _read(
    if_none_match: Annotated[
        str | None, Header(description="ETags that the client has: 304 if unchanged.")
    ] = None,
) -> None:
    """Parameters of every read."""


async def _cut(
    fields: Annotated[
        str | None,
        Query(
            max_length=LONGEST_FIELDS,
            description="Only these members, such as `id,state`.",
        ),
    ] = None,
) -> None:
    """Parameters of a read whose members are known."""


async def _match(
    if_match: Annotated[
        str | None, Header(description="ETag of the resource as it was read.")
    ] = None,
) -> None:
    """Precondition of an edit."""


_BUDGET: Final = Route("GET", "/runs/{run}/budget", "runs.show", work.show_budget)
_WORKER: Final = "/workers/{connector}/{name:path}"
_POLICY: Final = Route("GET", "/policies/active", "policy.show", work.show_policy)

_USER: Final = Route("GET", "/users/{user}/roles", "users.list", accounts.show_user)

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/status", "status", work.show_status),
    Route("GET", "/doctor", "doctor", work.list_findings),
    Route("GET", "/figures/answers", "status", figures.show_answer_rate),
    Route("GET", "/figures/burn-down", "status", figures.show_burn_down),
    Route("GET", "/figures/progress", "runs.list", work.list_progress),
    Route("GET", "/figures/fields", "fields.list", figures.show_coverage),
    Route("GET", "/figures/durations", "answers.list", figures.list_durations),
    Route("GET", "/figures/agreement", "answers.agreement", figures.show_agreement),
    Route("GET", "/figures/exposure", "workers.list", figures.show_exposure_map),
    Route("GET", "/figures/calls", "connectors.list", figures.list_connector_calls),
    Route("GET", "/figures/waiting", "queue.list", figures.show_waiting),
    Route("GET", "/figures/failing", "queue.list", figures.list_failing),
    Route("GET", "/figures/growth", "ledger.root", figures.show_growth),
    Route("POST", "/pause", "pause", work.pause),
    Route("POST", "/resume", "resume", work.resume),
    Route("GET", "/records", "records.list", content.list_records),
    Route("POST", "/records:find", "records.show", content.find_record, reads=True),
    Route(
        "POST",
        "/records:preview",
        "records.preview",
        content.preview_records,
        takes=content.FILES,
        reads=True,
    ),
    Route(
        "POST", "/records:purge", "records.purge", content.purge_records, kind="later"
    ),
    Route("GET", "/records/{record}", "records.show", content.show_record),
    Route(
        "POST",
        "/records/{record}:reveal",
        "records.reveal",
        content.reveal_record,
        keeps=False,
    ),
    Route("GET", "/records/{record}/explanation", "explain", content.explain_record),
    Route("GET", "/fields", "fields.list", content.list_fields),
    Route("POST", "/fields:unburn", "fields.unburn", content.unburn_fields),
    Route(
        "POST",
        "/fields/{entry}:reveal",
        "answers.show",
        content.show_answers,
        keeps=False,
    ),
    Route("POST", "/fields/{entry}:judge", "answers.judge", content.judge_field),
    Route("POST", "/explain", "explain", content.explain_field, reads=True),
    Route("GET", "/runs", "runs.list", work.list_runs),
    Route("GET", "/runs/{run}", "runs.show", work.show_run),
    _BUDGET,
    Route("PUT", "/runs/{run}/budget", "runs.budget", work.set_budget, _BUDGET),
    Route("GET", "/runs/{run}/pilot", "runs.show", work.show_pilot),
    Route("POST", "/runs/{run}/pilot", "runs.pilot", work.begin_pilot),
    Route("POST", "/runs/{run}/pilot:accept", "runs.accept", work.accept_pilot),
    Route(
        "POST",
        "/runs/{run}/records",
        "records.load",
        content.load_records,
        kind="later",
        takes=content.FILES,
    ),
    Route(
        "POST",
        "/runs/{run}:export",
        "records.reassemble",
        content.export_run,
        kind="later",
    ),
    Route("GET", "/workers", "workers.list", accounts.list_workers),
    Route("POST", "/workers", "workers.add", accounts.add_workers),
    Route(
        "POST",
        "/workers:invite",
        "workers.invite",
        accounts.invite_workers,
        keeps=False,
    ),
    Route("POST", "/workers:merge", "workers.merge", accounts.merge_workers),
    Route(
        "POST", "/workers:distinguish", "workers.distinct", accounts.distinguish_workers
    ),
    Route("GET", "/suspects", "workers.suspects", accounts.list_suspects),
    Route("GET", "/groups", "workers.groups", accounts.list_groups),
    Route("POST", f"{_WORKER}:block", "workers.block", accounts.block_worker),
    Route("POST", f"{_WORKER}:unblock", "workers.unblock", accounts.unblock_worker),
    Route("GET", _WORKER, "workers.show", accounts.show_worker),
    Route("GET", "/plans", "plan.list", work.list_plans),
    Route("POST", "/plans", "plan", work.draft_plan, kind="later"),
    Route(
        "POST",
        "/plans:frontier",
        "plan.frontier",
        work.sweep_frontier,
        kind="later",
        reads=True,
    ),
    Route(
        "POST",
        "/plans:export",
        "plan.export",
        work.export_plan,
        kind="later",
        reads=True,
    ),
    Route("GET", "/plans/{plan}", "plan.show", work.show_plan),
    Route("POST", "/plans/{plan}:apply", "plan.apply", work.apply_plan),
    Route("GET", "/policies", "policy.list", work.list_policies),
    _POLICY,
    Route("POST", "/policies:check", "policy.check", work.check_policy, reads=True),
    Route("POST", "/policies:test", "policy.test", work.test_policy, reads=True),
    Route("POST", "/policies:diff", "policy.diff", work.compare_policy, reads=True),
    Route("POST", "/policies:ask", "policy.ask", work.ask_policy, reads=True),
    Route(
        "POST",
        "/policies:picture",
        "policy.picture",
        work.draw_policy,
        kind="later",
        reads=True,
    ),
    Route(
        "POST",
        "/policies:suggest",
        "policy.suggest",
        work.suggest_policy,
        kind="later",
        takes=content.FILES,
        reads=True,
    ),
    Route(
        "POST",
        "/policies:plan",
        "policy.diff",
        work.plan_policy,
        kind="later",
        reads=True,
    ),
    Route("POST", "/policies:apply", "policy.apply", work.apply_policy, _POLICY),
    Route("GET", "/policies/{version}", "policy.show", work.show_version),
    Route("GET", "/rules/{rule}", "policy.show", work.show_rule),
    Route("GET", "/rules/{rule}/sets/{unit}", "workers.show", work.show_set),
    Route("GET", "/connectors", "connectors.list", work.list_connectors),
    Route("GET", "/connector-kinds", "connectors.list", work.list_kinds),
    Route("GET", "/connectors/{connector}", "connectors.show", work.show_connector),
    Route(
        "POST",
        "/connectors/{connector}:enable",
        "connectors.enable",
        work.enable_connector,
    ),
    Route(
        "POST",
        "/connectors/{connector}:disable",
        "connectors.disable",
        work.disable_connector,
    ),
    Route("POST", "/connectors", "connectors.add", work.add_connector),
    Route(
        "PUT",
        "/connectors/{connector}/secret",
        "connectors.set-secret",
        work.set_secret,
    ),
    Route(
        "POST", "/connectors/{connector}:test", "connectors.test", work.test_connector
    ),
    Route(
        "POST",
        "/connectors/{connector}:reconcile",
        "connectors.reconcile",
        work.reconcile_connector,
        kind="later",
    ),
    Route("GET", "/queue", "queue.list", work.list_messages),
    Route("POST", "/queue:retry", "queue.retry", work.retry_messages),
    Route("POST", "/queue:withdraw", "queue.withdraw", work.withdraw_messages),
    Route("GET", "/answers", "answers.list", content.list_refused),
    Route("GET", "/answers/conflicts", "answers.conflicts", content.list_conflicts),
    Route(
        "POST", "/answers:reveal", "answers.reveal", content.reveal_answers, keeps=False
    ),
    Route("POST", "/answers:dismiss", "answers.dismiss", content.dismiss_answers),
    Route("GET", "/payments", "payments.list", accounts.list_payments),
    Route("GET", "/payments/{payment}", "payments.show", accounts.show_payment),
    Route("POST", "/payments:approve", "payments.approve", accounts.approve_payments),
    Route("POST", "/payments:refuse", "payments.refuse", accounts.refuse_payments),
    Route("POST", "/payments:settle", "payments.settle", accounts.settle_payments),
    Route("GET", "/owed", "payments.owed", accounts.list_owed),
    Route("GET", "/questions", "questions.list", content.list_questions),
    Route(
        "POST",
        "/questions/{field}/gold",
        "questions.add",
        content.add_gold,
        takes=content.FILES,
    ),
    Route(
        "POST",
        "/questions/{field}/test",
        "questions.add",
        content.set_test,
        takes=content.FILES,
    ),
    Route("POST", "/questions:drop", "questions.drop", content.drop_questions),
    Route("GET", "/ledger/root", "ledger.root", evidence.show_root),
    Route("GET", "/ledger", "ledger.export", evidence.export_ledger, kind="stream"),
    Route(
        "POST",
        "/ledger:verify",
        "ledger.verify",
        evidence.verify_ledger,
        kind="later",
        reads=True,
    ),
    Route("GET", "/ledger/tail", "ledger.tail", evidence.show_tail),
    Route("POST", "/ledger:prove", "ledger.prove", evidence.prove_showings, reads=True),
    Route("POST", "/evidence", "audit.export", evidence.export_evidence, kind="later"),
    Route(
        "POST",
        "/evidence:verify",
        "audit.verify",
        evidence.verify_evidence,
        kind="later",
        takes=evidence.HANDED_OUT,
        reads=True,
    ),
    Route("GET", "/audit-log", "audit.log", evidence.list_audit),
    Route("GET", "/event-log", "audit.events", evidence.list_events),
    Route("GET", "/events", "status", evidence.follow_events, kind="stream"),
    Route("POST", "/subjects:find", "subject.find", content.find_subject, reads=True),
    Route("GET", "/subjects/{subject}", "subject.find", content.show_subject),
    Route(
        "POST",
        "/subjects/{subject}:report",
        "subject.report",
        content.report_subject,
        kind="later",
    ),
    Route(
        "POST",
        "/subjects/{subject}:erase",
        "subject.erase",
        content.erase_subject,
        kind="later",
    ),
    Route("GET", "/backups", "backup.list", evidence.list_backups),
    Route("POST", "/backups", "backup.create", evidence.create_backup, kind="later"),
    Route(
        "POST",
        "/backups:verify",
        "backup.verify",
        evidence.verify_backups,
        kind="later",
        reads=True,
    ),
    Route("POST", "/backups:prune", "backup.prune", evidence.prune_backups),
    Route("GET", "/users", "users.list", accounts.list_users),
    Route("POST", "/users", "users.add", accounts.add_user, keeps=False),
    Route("POST", "/users/{user}:disable", "users.disable", accounts.disable_user),
    Route("POST", "/users/{user}:enable", "users.disable", accounts.enable_user),
    Route(
        "POST", "/users/{user}:reset", "users.reset", accounts.reset_user, keeps=False
    ),
    Route("PUT", "/users/{user}/roles", "users.role", accounts.set_roles, _USER),
    _USER,
    Route("GET", "/sessions", "sessions.list", accounts.list_sessions),
    Route(
        "POST",
        "/sessions/{session}:revoke",
        "sessions.revoke",
        accounts.revoke_session,
    ),
    Route("GET", "/tokens", "tokens.list", accounts.list_tokens),
    Route("POST", "/tokens", "tokens.make", accounts.make_token, keeps=False),
    Route("POST", "/tokens/{token}:revoke", "tokens.revoke", accounts.revoke_token),
    Route("GET", "/webhooks", "notices.list", webhooks.list_webhooks),
    Route("POST", "/webhooks", "notices.add", webhooks.add_webhook, keeps=False),
    Route("GET", "/webhooks/{webhook}", "notices.list", webhooks.show_webhook),
    Route("DELETE", "/webhooks/{webhook}", "notices.remove", webhooks.remove_webhook),
    Route(
        "POST",
        "/webhooks/{webhook}:rotate",
        "notices.rotate",
        webhooks.rotate_webhook,
        keeps=False,
    ),
    Route("POST", "/webhooks/{webhook}:test", "notices.test", webhooks.try_webhook),
    Route(
        "GET",
        "/webhooks/{webhook}/deliveries",
        "notices.deliveries",
        webhooks.list_deliveries,
    ),
    Route(
        "POST",
        "/webhooks/{webhook}/deliveries/{delivery}:redeliver",
        "notices.redeliver",
        webhooks.redeliver_notice,
    ),
    Route("GET", "/operations/{operation}", "status", evidence.show_operation),
    Route(
        "GET",
        "/operations/{operation}/content",
        "status",
        evidence.fetch_content,
        kind="stream",
    ),
)
"""Every address of the API, with the operation that a role must permit."""
