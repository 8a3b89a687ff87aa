"""The application: what every request goes through before its operation is called."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
)
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from shutil import rmtree
from typing import Any, Final

from fastapi import FastAPI, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from dispatcher.access import Act, Principal
from dispatcher.app.guard import Guard
from dispatcher.core.errors import PAGES, DispatcherError, NotFound
from dispatcher.core.keys import is_pseudonym
from dispatcher.core.log import get_logger
from dispatcher.core.private_files import ScratchFolder
from dispatcher.core.rate_limit import Rate, RateLimiter
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Clock, Store
from dispatcher.store.audit_log import DONE, Denials
from dispatcher.surfaces.api.calls import (
    Call,
    Shared,
    Upload,
    begin_call,
)
from dispatcher.surfaces.api.problems import (
    ProblemError,
    StrictRequest,
    is_text,
    respond,
)
from dispatcher.surfaces.api.requests import REPLAYED
from dispatcher.surfaces.api.routes import ROUTES, Route
from dispatcher.surfaces.web import caller, is_our_host, templates

BASE: Final = "/api/v1"
LONGEST_KEY: Final = 255
UPLOAD: Final = 2 << 30
"""Most bytes of a file of records in one request."""
UPLOADS: Final = 8
"""How many uploads a process keeps until they are worked on."""
UPLOADS_OF_ONE: Final = 4
"""How many of them may be one caller's."""
PATIENCE: Final = 30.0
"""Seconds for which an upload may bring nothing."""
LEAST_RATE: Final = 32 << 10
"""Bytes a second that it must bring beyond that, or it would keep its place for ever."""

Authenticate = Callable[[Store, str, int], Principal | None]
"""Who a token is of; None: it is unknown, revoked or expired."""

_log = get_logger("api")


@dataclass(frozen=True)
class ApiSettings:
    """How the API is reached.

    Attributes
    ----------
    url : str
        How programs reach it from outside; empty where they run on this machine.
    behind_proxy : bool
        Whether a proxy with TLS is before it.
    refusals : Rate
        How often an address may come with a token that is not valid.
    requests : Rate
        How often one principal may come.
    """

    url: str = ""
    behind_proxy: bool = False
    refusals: Rate = field(default_factory=lambda: Rate(per_minute=20, burst=20))
    requests: Rate = field(default_factory=lambda: Rate(per_minute=6_000, burst=1_000))


def api_app(
    workspace: Workspace,
    store: Store,
    authenticate: Authenticate,
    *,
    shared: Shared,
    settings: ApiSettings = ApiSettings(),
) -> Callable[..., Any]:
    """Make the API's ASGI application; its addresses begin with ``/api/v1``.

    Parameters
    ----------
    workspace : Workspace
    store : Store
        Used in threads.
    authenticate : Authenticate
    shared : Shared
        What outlives a reload of the settings.
    settings : ApiSettings
    """
    door = _RequestGuard(workspace, store, authenticate, shared, settings)
    return Guard(
        fastapi_app(door), "api", https=settings.url.startswith("https:"), most=UPLOAD
    )


def fastapi_app(door: _RequestGuard | None = None) -> FastAPI:
    """Make the application by the table of routes; without a door it only describes."""
    app = FastAPI(
        title="Task dispatcher",
        version="1",
        description=__doc__ and _ABOUT,
        openapi_url=f"{BASE}/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
    )

    class Guarded(APIRoute):
        """A route that is opened by a token that permits its operation."""

        def get_route_handler(
            self,
        ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            act = super().get_route_handler()
            route = _SERVED[self.endpoint]
            known = route.parameters | {
                parameter.alias: parameter.field_info.annotation is bool
                for parameter in get_flat_params(self.dependant)
                if isinstance(parameter.field_info, params.Query)
            }
            has_body = self.body_field is not None

            async def handle(request: Request) -> Response:
                assert door is not None
                strict = StrictRequest(request.scope, request.receive)
                return await door.serve(route, strict, act, known, has_body=has_body)

            return handle

    app.router.route_class = Guarded
    for route in ROUTES:
        route.add_to(app.router, BASE, described=door is None)
    if door is not None:
        app.openapi = _described  # type: ignore[method-assign]
    app.router.route_class = APIRoute
    app.add_api_route(
        f"{BASE}/errors/{{code}}",
        _page,
        include_in_schema=False,
        response_class=PlainTextResponse,
    )
    app.add_api_route(
        f"{BASE}/docs", _reference, include_in_schema=False, response_class=HTMLResponse
    )
    for kind in (
        ProblemError,
        DispatcherError,
        RequestValidationError,
        HTTPException,
        Exception,
    ):
        app.add_exception_handler(kind, respond)
    return app


_ABOUT: Final = (
    "Every operation of the dispatcher, for programs. Values of fields are never in a "
    "list; errors are problem+json (RFC 9457). See docs/reference/api.md."
)
_SERVED: Final = {route.served: route for route in ROUTES}


@cache
def _described() -> dict[str, Any]:
    return fastapi_app().openapi()


def _reference(request: Request) -> str:
    """Show the description as a page, without anything from elsewhere."""
    described = request.app.openapi()
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for path, item in described["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody", {}).get("content", {})
            line = operation | {"path": path, "method": method.upper(), "body": body}
            by_tag.setdefault(operation["tags"][0], []).append(line)
    return _TEMPLATES.get_template("docs.html").render(
        about=described["info"],
        tags=by_tag,
        schemas=described["components"]["schemas"],
        nonce=request.state.nonce,
    )


_TEMPLATES: Final = templates("dispatcher.surfaces.api")


def _page(code: str) -> str:
    """Explain an error code, as ``dispatcher explain CODE`` does."""
    if code not in PAGES:
        raise HTTPException(404)
    return PAGES[code] + "\n"


class _RequestGuard:
    """Lets a request in: host, token, permission, precondition, repetition."""

    def __init__(
        self,
        workspace: Workspace,
        store: Store,
        authenticate: Authenticate,
        shared: Shared,
        settings: ApiSettings,
    ) -> None:
        self._workspace = workspace
        self._store = store
        self._authenticate = authenticate
        self._shared = shared
        self._settings = settings
        self._clock: Clock = workspace.clock
        self._pace = RateLimiter(settings.refusals)
        self._edits = asyncio.Lock()
        self._denials = Denials()
        self._requests = RateLimiter(settings.requests)

    async def serve(
        self,
        route: Route,
        request: StrictRequest,
        act: Callable[[Request], Awaitable[Response]],
        known: Mapping[str, bool],
        *,
        has_body: bool,
    ) -> Response:
        """Serve one request of a route."""
        request.state.request_id = f"req_{secrets.token_hex(8)}"
        self._check_host(request)
        principal = await self._principal(request)
        self._count(request, principal)
        if self._denials.is_due(now := self._clock()):
            await run_in_threadpool(self._denials.settle, self._store, now)
        if not principal.may(route.operation):
            _log.warning("api.denied", actor=principal.name, operation=route.operation)
            denied = Act(principal.name, "api", route.operation, self._clock)
            await run_in_threadpool(self._denials.note, self._store, denied, now)
            raise ProblemError(
                403,
                f"this token does not permit {route.operation}",
                "use a token with a scope that permits it",
            )
        _check_query(request, known)
        _check_coding(request)
        upload = None
        if route.takes:
            upload = await _receive(
                request, route.takes, self._shared.scratch, principal.name
            )
        else:
            await _check_body(request, has_body=has_body)
        try:
            request.state.call = self._call(route, request, principal, upload)
            response = await self._once(route, request, act)
        except BaseException:
            if upload is not None:
                upload.close()
            raise
        if upload is not None and (
            response.status_code != 202 or REPLAYED in response.headers
        ):
            upload.close()  # nobody works on it
        response.headers["x-request-id"] = request.state.request_id
        response.headers.update(request.state.rate)
        return response

    def _count(self, request: Request, principal: Principal) -> None:
        """Let a principal come as often as the rate allows, and say how often that is."""
        rate, now = self._settings.requests, self._clock()
        wait = self._requests.wait(principal.name, now)
        left = self._requests.available(principal.name, now)
        full = -(-(rate.burst - left) * 60 // rate.per_minute)
        request.state.rate = {
            "ratelimit-policy": f'"token";q={rate.burst};w={rate.burst * 60 // rate.per_minute}',
            "ratelimit": f'"token";r={left};t={full}',
        }
        if wait:
            raise ProblemError(
                429,
                "too many requests of this token",
                "wait as long as Retry-After says; RateLimit says what is left",
                headers={"retry-after": str(wait)},
            )

    def _call(
        self,
        route: Route,
        request: StrictRequest,
        principal: Principal,
        upload: Upload | None,
    ) -> Call:
        dry_run = route.writes and request.query_params.get("dry_run") == "true"
        # a target is named by what the address says: pseudonyms, numbers and names
        target = "/".join(str(one) for one in request.path_params.values())
        given = getattr(request, "_json", None)
        reason = given.get("reason") if isinstance(given, dict) else None
        said = reason if isinstance(reason, str) else ""  # checked before anything acts
        act = Act(principal.name, "api", route.operation, self._clock, target, said)
        begun = begin_call(
            self._workspace,
            self._store,
            principal,
            act,
            self._shared,
            name=route.act.__name__,
            dry_run=dry_run,
            upload=upload,
        )
        return replace(begun, columns=route.columns)

    async def _matched(
        self,
        route: Route,
        request: StrictRequest,
        act: Callable[[Request], Awaitable[Response]],
    ) -> Response:
        if route.guards is None:
            return await self._act(route, request, act)
        async with self._edits:  # nobody edits between the look and the act
            await self._check_match(route.guards, request)
            return await self._act(route, request, act)

    async def _once(
        self,
        route: Route,
        request: StrictRequest,
        act: Callable[[Request], Awaitable[Response]],
    ) -> Response:
        """Act once for an Idempotency-Key, however often the request comes."""
        call: Call = request.state.call
        key = request.headers.get("idempotency-key") if route.writes else None
        if key is not None:
            _check_key(key)
        if key is None or route.method != "POST" or call.dry_run:
            return await self._matched(route, request, act)
        digest = (
            sha256(await request.body()).hexdigest()
            if call.upload is None
            else call.upload.digest
        )
        asked = f"{request.url.path}?{request.url.query} {digest}"
        requests = self._shared.requests
        number, before = await run_in_threadpool(
            requests.begin,
            call.principal.name,
            call.operation,
            key,
            sha256(asked.encode()).hexdigest(),
        )
        if before is not None:
            return before
        try:
            response = await self._matched(route, request, act)
        except BaseException:
            if getattr(request.state, "changed", call.act.lines):
                await run_in_threadpool(requests.leave, number)
            else:
                await run_in_threadpool(requests.drop, number)
            raise
        await run_in_threadpool(requests.end, number, response, keeps=route.keeps)
        return response

    def _check_host(self, request: Request) -> None:
        settings = self._settings
        if not is_our_host(request, settings.url, behind_proxy=settings.behind_proxy):
            raise ProblemError(
                421,
                "the API is not reached under this name",
                "use the address that `dispatcher up` prints, or set operator_url",
            )

    async def _principal(self, request: Request) -> Principal:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        found = None
        now = self._clock()
        if scheme.lower() == "bearer" and 0 < len(secret) <= 500:
            found = await run_in_threadpool(
                self._authenticate, self._store, secret.strip(), now
            )
        if found is not None:
            return found
        wait = self._pace.wait(caller(request), now)
        if wait:
            raise ProblemError(
                429,
                "too many attempts without a valid token",
                "wait, then use a valid token",
                headers={"retry-after": str(wait)},
            )
        raise ProblemError(
            401,
            "the request has no valid token",
            "send Authorization: Bearer TOKEN; dispatcher tokens make makes one",
            headers={"www-authenticate": 'Bearer realm="dispatcher"'},
        )

    async def _act(
        self,
        route: Route,
        request: StrictRequest,
        act: Callable[[Request], Awaitable[Response]],
    ) -> Response:
        call: Call = request.state.call
        try:
            response = await act(request)
        except DispatcherError as error:
            request.state.changed = call.act.lines  # such as where it was not shipped
            if route.writes:
                await run_in_threadpool(call.ended, error.code)
            raise
        if route.writes:
            if call.dry_run:
                response.headers["dry-run"] = "true"
            elif route.kind == "now":
                await run_in_threadpool(call.ended, DONE)
        elif route.method == "GET" and hasattr(response, "body"):
            if (fields := request.query_params.get("fields")) is not None:
                cut = route.cut(bytes(response.body), fields)
                response = Response(cut, media_type="application/json")
            tag = _tag(bytes(response.body))
            if tag in _tags(request, "if-none-match"):
                return Response(status_code=304, headers={"etag": tag})
            response.headers["etag"] = tag
        return response

    async def _check_match(self, read: Route, request: StrictRequest) -> None:
        """Compare If-Match, or If-None-Match: *, with the resource as it is now."""
        wanted = _tags(request, "if-match")
        creates = "*" in _tags(request, "if-none-match")
        try:
            found, body = await run_in_threadpool(
                read.render, request.state.call, request.path_params
            )
        except NotFound:
            if creates:
                return
            raise
        if not wanted and not creates:
            raise ProblemError(
                428,
                "If-Match is missing",
                f"send the ETag of GET {BASE}{read.path}",
            )
        if creates or not ("*" in wanted or _tag(body) in wanted):
            raise ProblemError(
                412,
                "it was changed since it was read",
                f"read it again (GET {BASE}{read.path}), then decide",
            )
        # a command may edit it in this moment: the act compares once more, locked
        request.state.call = replace(request.state.call, read=found)


def _tag(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:32]}"'


def _tags(request: Request, header: str) -> set[str]:
    return {one.strip() for one in request.headers.get(header, "").split(",")} - {""}


def _check_query(request: Request, known: Mapping[str, bool]) -> None:
    """Check the parameters of an address; ``known`` says which of them are yes or no."""
    seen: set[str] = set()
    for name, text in request.query_params.multi_items():
        if name not in known or name in seen:
            raise ProblemError(
                422,
                "a parameter is unknown, or given twice",
                f"parameters of this address: {', '.join(sorted(known)) or 'none'}",
            )
        seen.add(name)
        _check_text(text)
        if known[name] and text not in ("true", "false"):
            # some read 0 as no, others any text as yes: too near to an act not tried
            raise ProblemError(
                422, f"{name} is neither true nor false", "write one of the two words"
            )
    for name, value in request.path_params.items():
        _check_text(str(value))
        named = str(value).partition(".")[0] if name == "entry" else str(value)
        if name in ("record", "subject", "entry") and not is_pseudonym(named):
            # a key here would be in logs of proxies, and for good in the audit log
            raise NotFound(
                f"there is no such {name}",
                why="addresses have pseudonyms, never keys of the operator's files",
                fix="GET /fields names each as PSEUDONYM.FIELD"
                if name == "entry"
                else f"POST /{name}s:find finds the pseudonym of a key",
            )


def _check_text(text: str) -> None:
    if not is_text(text):
        raise ProblemError(
            400, "the address has a character that no text has", "leave it out"
        )


def _check_key(key: str) -> None:
    if not (0 < len(key) <= LONGEST_KEY and key.isprintable()):
        raise ProblemError(
            422,
            "the Idempotency-Key is empty, too long or not printable",
            f"take 1 to {LONGEST_KEY} characters, such as a UUID",
        )


def _check_coding(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(
            415, "the body is compressed", "send it as it is, without Content-Encoding"
        )


def _media(request: Request) -> str:
    given = request.headers.get("content-type", "")
    return given.partition(";")[0].strip().lower()


async def _check_body(request: StrictRequest, *, has_body: bool) -> None:
    if request.method == "GET":
        return
    body = await request.body()
    if body and _media(request) != "application/json":
        raise ProblemError(
            415,
            "the body is no application/json",
            "send Content-Type: application/json",
        )
    if has_body:
        await request.json()
    elif body and await request.json() != {}:
        raise ProblemError(
            422, "this operation takes no body", "send none, or {}", pointer=""
        )


async def _in_time(parts: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    """Pass a body on, as long as it comes fast enough on the whole."""
    due = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            async with asyncio.timeout_at(due):
                part = await anext(parts)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise ProblemError(
                408,
                f"the body comes slower than {LEAST_RATE:,} bytes a second",
                "send it from a faster network, or in smaller files",
            ) from None
        due += len(part) / LEAST_RATE
        yield part


async def _receive(
    request: Request, takes: Mapping[str, str], scratch: ScratchFolder, caller: str
) -> Upload:
    """Write the body into a file, piece by piece."""
    ending = takes.get(_media(request))
    if ending is None:
        raise ProblemError(
            415, "the body is of another media type", f"send {' or '.join(takes)}"
        )
    own = f"upload-{sha256(caller.encode()).hexdigest()[:16]}-"
    most = {"upload-": UPLOADS, own: UPLOADS_OF_ONE}
    directory = await run_in_threadpool(scratch.make, own, most)
    if directory is None:
        raise ProblemError(
            429,
            f"{UPLOADS} files, or {UPLOADS_OF_ONE} of this token, wait to be worked on",
            "wait until the operation of one of them ends",
            headers={"retry-after": "10"},
        )
    digest = sha256()
    try:
        with await run_in_threadpool((directory / "body").open, "xb") as file:
            async for part in _in_time(request.stream()):
                digest.update(part)
                await run_in_threadpool(file.write, part)
        # a file of the same name and columns repeats the same load
        path = directory / f"{digest.hexdigest()[:16]}{ending}"
        (directory / "body").rename(path)
    except ClientDisconnect:
        rmtree(directory)
        raise ProblemError(400, "the body broke off", "send it again") from None
    except BaseException:
        rmtree(directory)
        raise
    return Upload(path, digest.hexdigest())
