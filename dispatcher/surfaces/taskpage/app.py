"""The application: its settings, its routes, and what every request goes through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from connectors.base import Fetching, Market
from dispatcher.core.errors import DispatcherError
from dispatcher.stages.serving import Serving, Terms
from dispatcher.store import Clock, Store
from dispatcher.surfaces.guard import Guard
from dispatcher.surfaces.replies import robots, static, told, unable
from dispatcher.surfaces.taskpage.arriving import Door
from dispatcher.surfaces.taskpage.hatch import Hatch
from dispatcher.surfaces.taskpage.own_page import OwnPage
from dispatcher.surfaces.taskpage.pages import Pages
from dispatcher.surfaces.taskpage.sessions import Seals
from dispatcher.surfaces.taskpage.settings import PageSettings
from dispatcher.surfaces.taskpage.working import Table

_STATIC: Final = {
    "task.css": "text/css; charset=utf-8",
    "task.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def task_app(
    store: Store,
    markets: Mapping[str, Market],
    *,
    clock: Clock,
    rng: np.random.Generator,
    epoch: Callable[[], int] | None = None,
    terms: Terms = Terms(),
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
    epoch : callable, optional
        Fencing token of the daemon that serves; raises StaleLease when nothing new is
        to be shown.
    terms : Terms
        Leases and limits of serving.
    settings : PageSettings
    feeds : Mapping[str, Fetching], optional
        By connector name; those whose receivers come here for content.
    """
    serving = Serving(store, clock=clock, rng=rng, terms=terms, epoch=epoch)
    pages = Pages(contact=settings.contact, lease=terms.lease)
    seals = Seals(store.key("task-key"))
    door = Door(serving, pages, seals, markets, clock=clock, settings=settings)
    table = Table(serving, pages, door, clock=clock, settings=settings)
    own = OwnPage(store, pages, door, clock=clock, settings=settings)
    hatch = Hatch(store, feeds or {}, clock)
    task = "/task/{token}"
    app = Starlette(
        routes=[
            Route("/", door.home, methods=["GET"]),
            Route("/arrive", door.arrive, methods=["POST"]),
            Route("/from/{connector}", door.bring, methods=["GET"]),
            Route("/from/{connector}/notice", door.notice, methods=["GET"]),
            Route("/hooks/{connector}", door.called, methods=["POST"]),
            Route("/fetch/{connector}", hatch.fetch, methods=["POST"]),
            Route("/leave", door.leave, methods=["POST"]),
            Route("/me", own.show, methods=["GET"]),
            Route("/me/leave", own.leave, methods=["POST"]),
            Route("/start", table.start, methods=["POST"]),
            Route(task, table.visit, methods=["GET"]),
            Route(f"{task}/answer", table.answer, methods=["POST"]),
            Route(f"{task}/draft", table.draft, methods=["POST"]),
            Route(f"{task}/extend", table.extend, methods=["POST"]),
            Route(f"{task}/return", table.give_back, methods=["POST"]),
            Route(f"{task}/known", table.known, methods=["POST"]),
            Route("/crop/{crop_id}", table.crop, methods=["GET"]),
            Route(
                "/static/{name}",
                static("dispatcher.surfaces.taskpage", _STATIC),
                methods=["GET"],
            ),
            Route("/robots.txt", robots, methods=["GET"]),
        ],
        exception_handlers={
            HTTPException: told(pages, _WORDS),
            DispatcherError: unable(
                pages,
                "taskpage",
                "One moment",
                "The work cannot be reached right now. Nothing was lost: try again in "
                "a moment.",
            ),
        },
    )
    return Guard(app, "taskpage", https=settings.https)


_WORDS: Final = {
    400: ("That did not work", "The form was not complete. Go back and try again."),
    403: ("That did not work", "The form came from another page. Open this page anew."),
    404: ("Not here", "There is no such page."),
    405: ("Not here", "There is no such page."),
    413: ("Too much", "That is more than an answer can hold."),
    429: ("One moment", "That was very quick. Wait a few seconds, then go on."),
}
