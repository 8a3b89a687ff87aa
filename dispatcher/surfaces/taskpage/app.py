"""The application: its routes, the fetch route of feeds, and the guard before all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from connectors.base import ConnectorError, Fetching, Item, Market, Visit
from dispatcher.app.guard import Guard
from dispatcher.core.errors import DispatcherError
from dispatcher.core.rate_limit import Rate, RateLimiter
from dispatcher.stages.serving import Arrivals, Serving, ServingTerms, SessionTerms
from dispatcher.stages.serving.fetching import fetch
from dispatcher.store import Clock, Store
from dispatcher.store.lease import Fence
from dispatcher.surfaces.taskpage.pages import STATUSES, UNABLE, TaskPages
from dispatcher.surfaces.taskpage.sessions import (
    PageKeys,
    PageSettings,
    TaskPageSessions,
)
from dispatcher.surfaces.taskpage.task_routes import OwnPageRoutes, TaskRoutes
from dispatcher.surfaces.web import caller, explain_status, pace, robots, static, unable

_SECOND: Final = 1_000_000


class FetchRoutes:
    """Hands content to receivers that prove who they are.

    Parameters
    ----------
    store : Store
        Used in threads.
    feeds : Mapping[str, Fetching]
        By connector name.
    clock : Clock
    rate : Rate
        How often one address may ask.
    """

    def __init__(
        self, store: Store, feeds: Mapping[str, Fetching], clock: Clock, rate: Rate
    ) -> None:
        self._store = store
        self._calls = RateLimiter(rate)
        self._feeds = feeds
        self._clock = clock

    async def fetch(self, request: Request) -> Response:
        """Check the request over its raw bytes, then give what was booked for it."""
        connector = request.path_params["connector"]
        feed = self._feeds.get(connector)
        if feed is None:
            raise HTTPException(404)
        pace(self._calls, caller(request), self._clock())
        visit = Visit(headers=dict(request.headers), body=await request.body())
        now = datetime.fromtimestamp(self._clock() / _SECOND, UTC)
        try:
            tokens = await run_in_threadpool(feed.wanted, visit, now)
        except ConnectorError:
            return Response(status_code=401)
        found = await run_in_threadpool(fetch, self._store, connector, tokens)
        event = {
            "type": "fields.shared",
            "data": {"items": [_told(item) for item in found.items]},
            "later": list(found.later),
            "missing": list(found.missing),
        }
        return JSONResponse(event)


def _told(item: Item) -> dict[str, str]:
    fields = {"token": item.token, "field": item.label, "media_type": item.media_type}
    return fields | item.spelt()


_STATIC: Final = {
    "task.css": "text/css; charset=utf-8",
    "task.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "practice-side.svg": "image/svg+xml",
    "practice-smudge.svg": "image/svg+xml",
}


def task_app(
    store: Store,
    markets: Mapping[str, Market],
    *,
    clock: Clock,
    rng: np.random.Generator,
    fence: Callable[[], Fence] | None = None,
    terms: ServingTerms = ServingTerms(),
    sessions: SessionTerms = SessionTerms(),
    settings: PageSettings = PageSettings(),
    feeds: Mapping[str, Fetching] | None = None,
) -> Callable[..., Any]:
    """Make the task page's ASGI application.

    Parameters
    ----------
    store : Store
        Used in threads.
    markets : Mapping[str, Market]
        By connector name; those whose workers come to this page (``inhouse``).
    clock : Clock
    rng : Generator
        Shuffles what is shown.
    fence : callable, optional
        Lease of the process that serves; raises StaleLease when nothing new is to be
        shown.
    terms : ServingTerms
        Leases and limits of serving.
    sessions : SessionTerms
        How long workers stay signed in.
    settings : PageSettings
    feeds : Mapping[str, Fetching], optional
        By connector name; those whose receivers come here for content.
    """
    serving = Serving(store, clock=clock, rng=rng, terms=terms, fence=fence)
    prefix = "__Host-" if settings.https else ""
    pages = TaskPages(
        contact=settings.contact,
        lease=terms.lease,
        undo=terms.undo,
        language_cookie=f"{prefix}task-language",
    )
    door = TaskPageSessions(
        serving,
        Arrivals(store, clock, sessions),
        pages,
        PageKeys(store.key("task-key")),
        markets,
        clock=clock,
        settings=settings,
    )
    tasks = TaskRoutes(serving, pages, door, clock=clock, settings=settings)
    own = OwnPageRoutes(store, serving, pages, door, clock=clock, settings=settings)
    fetching = FetchRoutes(store, feeds or {}, clock, settings.call)
    task = "/task/{token}"
    app = Starlette(
        routes=[
            Route("/", door.home, methods=["GET"]),
            Route("/arrive", door.arrive, methods=["POST"]),
            Route("/same", door.same, methods=["POST"]),
            Route("/whose", door.whose, methods=["GET"]),
            Route("/whose", door.settle, methods=["POST"]),
            Route("/from/{connector}", door.bring, methods=["GET"]),
            Route("/from/{connector}/notice", door.notice, methods=["GET"]),
            Route("/hooks/{connector}", door.called, methods=["POST"]),
            Route("/fetch/{connector}", fetching.fetch, methods=["POST"]),
            Route("/language", door.speak, methods=["POST"]),
            Route("/leave", door.leave, methods=["POST"]),
            Route("/me", own.show, methods=["GET"]),
            Route("/me/leave", own.leave, methods=["POST"]),
            Route("/practice", own.practise, methods=["GET"]),
            Route("/practice/{step:number}", own.practised, methods=["POST"]),
            Route("/start", tasks.start, methods=["POST"]),
            Route(task, tasks.visit, methods=["GET"]),
            Route(f"{task}/answer", tasks.answer, methods=["POST"]),
            Route(f"{task}/undo", tasks.undo, methods=["POST"]),
            Route(f"{task}/draft", tasks.draft, methods=["POST"]),
            Route(f"{task}/extend", tasks.extend, methods=["POST"]),
            Route(f"{task}/return", tasks.give_back, methods=["POST"]),
            Route(f"{task}/known", tasks.known, methods=["POST"]),
            Route("/crop/{crop_id}", tasks.crop, methods=["GET"]),
            static("dispatcher.surfaces.taskpage", _STATIC),
            Route("/robots.txt", robots, methods=["GET"]),
        ],
        exception_handlers={
            HTTPException: explain_status(pages, STATUSES),
            DispatcherError: unable(pages, "taskpage", *UNABLE),
        },
    )
    app.router.redirect_slashes = False  # it would repeat the Host header
    return Guard(app, "taskpage", https=settings.https)
