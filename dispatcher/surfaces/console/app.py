"""The application: its routes, and what every request goes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from dispatcher.access import Passwords
from dispatcher.app.guard import Guard
from dispatcher.core.errors import DispatcherError
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.preflight import Preflight
from dispatcher.store import Clock, Store
from dispatcher.surfaces.console.pages import Pages, Views
from dispatcher.surfaces.console.read_cache import ReadCache
from dispatcher.surfaces.console.sessions import ConsoleSettings, Sessions
from dispatcher.surfaces.web import explain_status, robots, static, unable

_STATIC: Final = {
    "console.css": "text/css; charset=utf-8",
    "picture.css": "text/css; charset=utf-8",
    "plot.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def console_app(
    store: Store,
    *,
    clock: Clock,
    nearness: LimitUsages | None = None,
    settings: ConsoleSettings = ConsoleSettings(),
    preflight: Preflight | None = None,
    passwords: Passwords | None = None,
) -> Callable[..., Any]:
    """Make the console's ASGI application.

    Parameters
    ----------
    store : Store
        Used in threads; nothing is written to it but sessions.
    clock : Clock
    nearness : LimitUsages, optional
        What was judged already, shared with others who ask.
    settings : ConsoleSettings
    preflight : Preflight, optional
        Tells what cannot be sent.
    passwords : Passwords, optional
        Argon2id with the library's parameters where none are given.
    """
    pages = Pages()
    sessions = Sessions(
        store,
        pages,
        clock=clock,
        settings=settings,
        passwords=passwords or Passwords(),
    )
    near = nearness or LimitUsages()
    cache = ReadCache(store, clock, near, stale=settings.stale, preflight=preflight)
    views = Views(cache, pages, clock)
    shown = {
        "/": views.overview,
        "/workers": views.workers,
        "/rules": views.rules,
        "/rules/stranger": views.stranger,
        "/queue": views.queue,
        "/records": views.records,
        "/ledger": views.ledger,
    }
    app = Starlette(
        routes=[
            *(
                Route(path, sessions.signed_in(view), methods=["GET"])
                for path, view in shown.items()
            ),
            Route("/login", sessions.ask, methods=["GET"]),
            Route("/login", sessions.sign_in, methods=["POST"]),
            Route("/enrol", sessions.ask_to_enrol, methods=["GET"]),
            Route("/enrol", sessions.enrol, methods=["POST"]),
            Route("/logout", sessions.sign_out, methods=["POST"]),
            static("dispatcher.surfaces.console", _STATIC),
            Route("/robots.txt", robots, methods=["GET"]),
            Route("/{rest:path}", sessions.elsewhere, methods=["GET", "POST"]),
        ],
        exception_handlers={
            HTTPException: explain_status(pages, _WORDS),
            DispatcherError: unable(
                pages,
                "console",
                "The store does not answer",
                "The store cannot be read right now. The commands say why: "
                "dispatcher status (error {code}).",
            ),
        },
    )
    return Guard(app, "console", https=settings.https)


_WORDS: Final = {
    400: ("That did not work", "The request was not complete."),
    403: ("That did not work", "It came from another page, or from another machine."),
    404: ("Not here", "There is no such page."),
    405: ("Not here", "There is no such page."),
    413: ("Too much", "That is more than a form can hold."),
    421: ("Not here", "The console is not reached under this name."),
    429: ("One moment", "Too many attempts. Wait a little, then try again."),
}
