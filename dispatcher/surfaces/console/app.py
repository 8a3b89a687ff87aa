"""The application: its routes, and what every request goes through."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dispatcher.errors import DispatcherError
from dispatcher.ledger.nearness import Nearness
from dispatcher.log import get_logger
from dispatcher.store import Clock, Store
from dispatcher.surfaces.console.door import Door
from dispatcher.surfaces.console.looks import Looks
from dispatcher.surfaces.console.pages import Pages
from dispatcher.surfaces.console.settings import ConsoleSettings
from dispatcher.surfaces.console.views import Views
from dispatcher.surfaces.guard import Guard

_STATIC: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def console_app(
    store: Store,
    *,
    clock: Clock,
    nearness: Nearness | None = None,
    settings: ConsoleSettings = ConsoleSettings(),
) -> Callable[..., Any]:
    """Make the console's ASGI application.

    Parameters
    ----------
    store : Store
        Used in threads; nothing is written to it but sessions.
    clock : Clock
    nearness : Nearness, optional
        What was judged already, shared with others who ask.
    settings : ConsoleSettings
    """
    pages = Pages()
    door = Door(store, pages, clock=clock, settings=settings)
    looks = Looks(store, clock, nearness or Nearness(), stale=settings.stale)
    views = Views(looks, pages, clock)
    shown = {
        "/": views.overview,
        "/workers": views.workers,
        "/properties": views.properties,
        "/queue": views.queue,
        "/records": views.records,
        "/ledger": views.ledger,
    }
    app = Starlette(
        routes=[
            *(
                Route(path, door.signed_in(view), methods=["GET"])
                for path, view in shown.items()
            ),
            Route("/login", door.ask, methods=["GET"]),
            Route("/login", door.sign_in, methods=["POST"]),
            Route("/logout", door.sign_out, methods=["POST"]),
            Route("/static/{name}", _static, methods=["GET"]),
            Route("/robots.txt", _robots, methods=["GET"]),
            Route("/{rest:path}", door.elsewhere, methods=["GET", "POST"]),
        ],
        exception_handlers={
            HTTPException: _told(pages),
            DispatcherError: _unable(pages),
        },
    )
    return Guard(app, "console", https=settings.https)


def sign_in_link(base: str, secret: str) -> str:
    """Link that signs in: what stands after ``#`` reaches no server's log.

    Parameters
    ----------
    base : str
        Where operators reach the console: ``http://127.0.0.1:8420``.
    secret : str
        From :func:`dispatcher.access.make_link`.
    """
    return f"{base.rstrip('/')}/login#k={secret}"


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        raise HTTPException(404)
    body = files("dispatcher.surfaces.console").joinpath("static", name).read_bytes()
    return Response(body, media_type=_STATIC[name])


async def _robots(_: Request) -> Response:
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


_WORDS: Final = {
    400: ("That did not work", "The request was not complete."),
    403: ("That did not work", "It came from another page, or from another machine."),
    404: ("Not here", "There is no such page."),
    405: ("Not here", "There is no such page."),
    413: ("Too much", "That is more than a form can hold."),
    421: ("Not here", "The console is not reached under this name."),
    429: ("One moment", "Too many attempts. Wait a little, then try again."),
}


def _told(pages: Pages) -> Callable[[Request, Exception], Response]:
    def tell(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        heading, text = _WORDS.get(error.status_code, _WORDS[400])
        response = pages.message(request, error.status_code, heading, text)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    return tell


def _unable(pages: Pages) -> Callable[[Request, Exception], Response]:
    def tell(request: Request, error: Exception) -> Response:
        assert isinstance(error, DispatcherError)
        get_logger("console").warning("console.unable", code=error.code)
        text = (
            "The store can not be read right now. The commands say why: "
            f"dispatcher status (error {error.code})."
        )
        response = pages.message(request, 503, "The store does not answer", text)
        response.headers["retry-after"] = "5"
        return response

    return tell
