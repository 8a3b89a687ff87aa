"""The application: its routes, and what every request goes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from dispatcher.access import Operator, Passwords
from dispatcher.access.oidc import Provider
from dispatcher.app.guard import Guard
from dispatcher.core.errors import DispatcherError
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.operations.workspace import Workspace
from dispatcher.preflight import Preflight
from dispatcher.store import Store
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.console.acting import Acting
from dispatcher.surfaces.console.actions import ACTIONS
from dispatcher.surfaces.console.judging import Judging
from dispatcher.surfaces.console.live import Live
from dispatcher.surfaces.console.pages import Pages, problem_of
from dispatcher.surfaces.console.provider import ProviderSignIn
from dispatcher.surfaces.console.read_cache import ReadCache
from dispatcher.surfaces.console.screens import SCREENS
from dispatcher.surfaces.console.screens.answers import show_conflict
from dispatcher.surfaces.console.sessions import ConsoleSessions, ConsoleSettings
from dispatcher.surfaces.console.view import Screen, Site, View
from dispatcher.surfaces.web import (
    Handler,
    explain_status,
    read_form,
    robots,
    static,
    unable,
)

_STATIC: Final = {
    "console.css": "text/css; charset=utf-8",
    "picture.css": "text/css; charset=utf-8",
    "plot.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def console_app(
    workspace: Workspace,
    store: Store,
    *,
    shared: Shared,
    nearness: LimitUsages | None = None,
    settings: ConsoleSettings = ConsoleSettings(),
    preflight: Preflight | None = None,
    passwords: Passwords | None = None,
    provider: Provider | None = None,
) -> Callable[..., Any]:
    """Make the console's ASGI application.

    Parameters
    ----------
    workspace : Workspace
    store : Store
        Used in threads.
    shared : Shared
        What outlives a reload of the settings, shared with the API.
    nearness : LimitUsages, optional
        What was judged already, shared with others who ask.
    settings : ConsoleSettings
    preflight : Preflight, optional
        Tells what cannot be sent.
    passwords : Passwords, optional
        Argon2id with the library's parameters where none are given.
    provider : Provider, optional
        Signs users in too.
    """
    clock = workspace.clock
    pages = (
        Pages()
        if provider is None
        else Pages(provider.settings.name, provider.settings.passwords)
    )
    sessions = ConsoleSessions(
        store,
        pages,
        clock=clock,
        settings=settings,
        passwords=passwords or Passwords(),
    )
    near = nearness or LimitUsages()
    cache = ReadCache(store, clock, near, stale=settings.stale, preflight=preflight)
    site = Site(workspace, store, cache, pages, shared, SCREENS, ACTIONS)
    acting, live = Acting(site, sessions.prove), Live(store)
    by_provider = (
        []
        if provider is None
        else ProviderSignIn(store, sessions, pages, provider, clock).routes()
    )
    judging = Judging(site, show_conflict, acting, sessions.prove)

    def shown(screen: Screen) -> Route:
        def page(request: Request, operator: Operator) -> Response:
            if not operator.principal.may(screen.operation):
                if screen.path == "/":
                    return _first_seen(operator)
                raise HTTPException(403)
            return screen.show(View(site, screen, request, operator))

        return Route(screen.path, sessions.signed_in(page), methods=["GET"])

    def asked(screen: Screen) -> Route:
        async def page(request: Request, operator: Operator) -> Response:
            if not operator.principal.may(screen.operation):
                raise HTTPException(403)
            form = await read_form(request, files=1)
            view = View(site, screen, request, operator, form)
            return await run_in_threadpool(screen.show, view)

        return Route(screen.path, sessions.from_own_page(page), methods=["POST"])

    async def follow(_: Request, __: Operator) -> Response:
        if live.is_full():
            raise HTTPException(429, headers={"retry-after": "30"})
        return StreamingResponse(live.read(), media_type="text/event-stream")

    app = Starlette(
        routes=[
            *map(shown, SCREENS),
            *(asked(screen) for screen in SCREENS if screen.posts),
            Route(
                judging.screen.path,
                sessions.from_own_page(judging.judge),
                methods=["POST"],
            ),
            Route(
                "/answers/crops/{token}",
                sessions.signed_in_to(judging.crops.give),
                methods=["GET"],
            ),
            Route("/do/{name}", sessions.signed_in_to(acting.ask), methods=["GET"]),
            Route("/do/{name}", sessions.from_own_page(acting.act), methods=["POST"]),
            Route("/live", sessions.signed_in_to(follow, acts=False), methods=["GET"]),
            Route("/login", sessions.ask, methods=["GET"]),
            Route("/login", sessions.sign_in, methods=["POST"]),
            *by_provider,
            Route("/enrol", sessions.ask_to_enrol, methods=["GET"]),
            Route("/enrol", sessions.enrol, methods=["POST"]),
            Route(
                "/logout", sessions.from_own_page(sessions.sign_out), methods=["POST"]
            ),
            static("dispatcher.surfaces.console", _STATIC),
            Route("/robots.txt", robots, methods=["GET"]),
            Route("/{rest:path}", sessions.elsewhere, methods=["GET", "POST"]),
        ],
        exception_handlers={
            HTTPException: explain_status(pages, _WORDS),
            DispatcherError: _explain(pages),
        },
    )
    return Guard(app, "console", https=settings.https)


def _explain(pages: Pages) -> Handler:
    """Say what, why and how to mend it; of a store that is away only that."""
    away = unable(
        pages,
        "console",
        "The store does not answer",
        "The store cannot be read right now. The commands say why: "
        "dispatcher status (error {code}).",
    )

    def tell(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem["status"] >= 500:
            return away(request, error)
        return pages.page(request, "error.html", problem["status"], problem=problem)

    return tell


def _first_seen(operator: Operator) -> Response:
    """Lead whoever may not see the overview to the first page that they may."""
    for screen in SCREENS:
        if screen.listed and operator.principal.may(screen.operation):
            return RedirectResponse(screen.path, 303)
    raise HTTPException(403)


_WORDS: Final = {
    400: ("That did not work", "The request was not complete."),
    403: (
        "That is not yours to see or do",
        "Your roles do not permit it, or it came from another page or machine. "
        "An admin gives roles: dispatcher users role.",
    ),
    404: ("Not here", "There is no such page."),
    405: ("Not here", "There is no such page."),
    413: ("Too much", "That is more than a form can hold."),
    421: ("Not here", "The console is not reached under this name."),
    429: ("One moment", "Too many attempts. Wait a little, then try again."),
}
