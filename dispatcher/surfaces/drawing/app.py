"""The application: the link that works once, and what the page asks for."""

from __future__ import annotations

import json
import os
import secrets
import signal
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from dispatcher.app.guard import Guard
from dispatcher.app.servers import Listener, Swap, bind, serve
from dispatcher.core.config import is_loopback
from dispatcher.core.errors import Invalid
from dispatcher.core.rate_limit import Rate, RateLimiter
from dispatcher.operations.layouts import INKED, CroppedRow, Drawing, DrawnBox
from dispatcher.stages.intake.images import BadPage
from dispatcher.store import Clock
from dispatcher.surfaces.web import (
    caller,
    explain_status,
    own_page,
    pace,
    read_form,
    robots,
    static,
    templates,
)

_STATIC: Final = {
    "draw.css": "text/css; charset=utf-8",
    "draw.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_PACKAGE: Final = "dispatcher.surfaces.drawing"
_VALID: Final = 600_000_000  # microseconds
_MOST_BOXES: Final = 500
Handler = Callable[[Request], Awaitable[Response]]


class _LinkSession:
    """Lets in whoever has the link, once; and no page of another site."""

    def __init__(self, code: str, clock: Clock) -> None:
        self._code = code
        self._clock = clock
        self._until = clock() + _VALID
        self._cookie = f"draw-{secrets.token_hex(4)}"  # ports share their cookies
        self._session = secrets.token_urlsafe(32)
        self._pace = RateLimiter(Rate(per_minute=20, burst=10))
        self.form_token = secrets.token_urlsafe(24)

    async def enter(self, request: Request) -> bool:
        """Whether the link works: it never does again."""
        self.check(request)
        form = await read_form(request)
        if own_page(request) is False:
            raise HTTPException(403)
        pace(self._pace, caller(request), self._clock())
        given = form.get("code", "").strip().rpartition("#k=")[2]
        if not self._code or self._clock() > self._until:
            return False
        if not secrets.compare_digest(given.encode(), self._code.encode()):
            return False
        self._code = ""
        return True

    def let_in(self, response: Response) -> Response:
        """Give the session to the browser."""
        response.set_cookie(
            self._cookie, self._session, path="/", httponly=True, samesite="strict"
        )
        return response

    def knows(self, request: Request) -> bool:
        """Whether the browser came in by the link."""
        self.check(request)
        given = request.cookies.get(self._cookie, "")
        return secrets.compare_digest(given.encode(), self._session.encode())

    def check(self, request: Request) -> None:
        """Refuse other machines, and names that another site may give this one."""
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        peer = request.client.host if request.client else ""
        if not is_loopback(host):
            raise HTTPException(421)
        if peer and not is_loopback(peer):
            raise HTTPException(403)

    def acts(self, handler: Callable[[Any], Response]) -> Handler:
        """Make the handler of what only the page itself may ask for."""

        async def act(request: Request) -> Response:
            if not self.knows(request):
                raise HTTPException(403)
            ours = own_page(request)
            if ours is None:
                token = request.headers.get("x-form-token", "")
                ours = secrets.compare_digest(token.encode(), self.form_token.encode())
            if not ours:
                raise HTTPException(403)
            try:
                sent = json.loads(await request.body() or b"{}")
                return await run_in_threadpool(handler, sent)
            except Invalid as error:
                text = f"{error} ({error.why}). {error.fix}"
                return JSONResponse({"refused": text}, 409)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise HTTPException(400) from None

        return act


class _DrawingPage:
    """What the page shows and asks for."""

    def __init__(
        self, drawing: Drawing, door: _LinkSession, finish: Callable[[], None]
    ) -> None:
        self._drawing = drawing
        self._door = door
        self._finish = finish
        self._templates = templates(_PACKAGE)

    async def show(self, request: Request) -> Response:
        """``GET /``."""
        if not self._door.knows(request):
            return self._page(request, "enter.html", 401, refused=False)
        return await run_in_threadpool(self._drawn, request)

    async def login(self, request: Request) -> Response:
        """``POST /login``."""
        if not await self._door.enter(request):
            return self._page(request, "enter.html", 403, refused=True)
        return self._door.let_in(RedirectResponse("/", 303))

    async def scan(self, request: Request) -> Response:
        """``GET /scans/N/PAGE.png``."""
        if not self._door.knows(request):
            raise HTTPException(404)
        scan, page = (request.path_params[name] for name in ("scan", "page"))
        if scan >= len(self._drawing.names):
            raise HTTPException(404)
        try:
            body = await run_in_threadpool(self._drawing.view, scan, page)
        except BadPage:
            raise HTTPException(404) from None
        return Response(body, media_type="image/png")

    def check(self, sent: Any) -> Response:  # noqa: ANN401 - JSON
        """``POST /check``."""
        return JSONResponse({"findings": self._drawing.check(_boxes(sent))})

    def fit(self, sent: Any) -> Response:  # noqa: ANN401 - JSON
        """``POST /fit``."""
        scan = sent["scan"]
        if not (type(scan) is int and 0 <= scan < len(self._drawing.names)):
            raise HTTPException(400)
        return JSONResponse(asdict(self._drawing.fit(scan, _boxes(sent))))

    def save(self, sent: Any) -> Response:  # noqa: ANN401 - JSON
        """``POST /save``."""
        boxes = _boxes(sent)
        self._drawing.save(boxes)
        return JSONResponse({"saved": len(boxes), "file": self._drawing.policy.name})

    def finish(self, _sent: Any) -> Response:  # noqa: ANN401 - JSON
        """``POST /finish``."""
        self._finish()
        return JSONResponse({"finished": True})

    def message(
        self, request: Request, status: int, heading: str, text: str
    ) -> Response:
        """Say one thing."""
        return self._page(request, "message.html", status, heading=heading, text=text)

    def _drawn(self, request: Request) -> Response:
        drawing = self._drawing
        data = {
            "names": drawing.names,
            "pages": drawing.pages,
            "boxes": [
                {
                    "name": box.name,
                    "field": box.field,
                    "page": box.page,
                    "edges": [
                        *map(float, (box.x, box.y, box.x + box.width)),
                        float(box.y + box.height),
                    ],
                    "redact": box.redact,
                    "kept": True,
                }
                for box in drawing.boxes()
            ],
            "fields": drawing.fields(),
            "marks": [asdict(drawing.marks(n)) for n in range(1, drawing.pages + 1)][
                :20
            ],
            "token": self._door.form_token,
            "file": drawing.policy.name,
        }
        return self._page(request, "draw.html", 200, data=data)

    def _page(
        self, request: Request, name: str, status: int, **values: object
    ) -> Response:
        nonce = request.state.nonce
        text = self._templates.get_template(name).render(nonce=nonce, **values)
        return HTMLResponse(text, status)


def _boxes(sent: Any) -> list[DrawnBox]:  # noqa: ANN401 - JSON
    """Read the boxes that the page sent."""
    found = [
        DrawnBox.of(
            str(one["name"]),
            str(one["field"]),
            int(one["page"]),
            one["edges"],
            redact=one["redact"] is True,
        )
        for one in sent["boxes"]
    ]
    if len(found) > _MOST_BOXES or len({box.name for box in found}) < len(found):
        raise ValueError("too many boxes, or two of one name")
    return found


def drawing_app(
    drawing: Drawing, code: str, *, clock: Clock, finish: Callable[[], None]
) -> Callable[..., Any]:
    """Make the ASGI application.

    Parameters
    ----------
    drawing : Drawing
    code : str
        What stands after ``#k=`` in the link.
    clock : Clock
    finish : callable
        Ends the program.
    """
    door = _LinkSession(code, clock)
    page = _DrawingPage(drawing, door, finish)
    app = Starlette(
        routes=[
            Route("/", page.show, methods=["GET"]),
            Route("/login", page.login, methods=["POST"]),
            Route("/scans/{scan:number}/{page:number}.png", page.scan, methods=["GET"]),
            *(
                Route(f"/{name}", door.acts(getattr(page, name)), methods=["POST"])
                for name in ("check", "fit", "save", "finish")
            ),
            static(_PACKAGE, _STATIC),
            Route("/robots.txt", robots, methods=["GET"]),
        ],
        exception_handlers={HTTPException: explain_status(page, _WORDS)},
    )
    return Guard(app, "drawing", https=False)


def crops_page(file: str, fields: Sequence[str], rows: Sequence[CroppedRow]) -> str:
    """Return the crops of a file's first rows as one HTML page without network."""
    shown = [
        (
            row,
            {
                name: (b64encode(png).decode(), f"{ink:.0%}" if ink >= INKED else "")
                for name, (png, ink) in row.crops.items()
            },
        )
        for row in rows
    ]
    page = templates(_PACKAGE).get_template("crops.html")
    return page.render(file=file, fields=fields, rows=shown)


def serve_drawing(
    drawing: Drawing, *, clock: Clock, port: int, started: Callable[[str], None]
) -> None:
    """Serve the page on this machine until it is finished, or a signal comes.

    Parameters
    ----------
    drawing : Drawing
    clock : Clock
    port : int
        0: any.
    started : callable
        Is given the link.
    """
    code = secrets.token_urlsafe(24)

    def finish() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    page = drawing_app(drawing, code, clock=clock, finish=finish)
    listener = Listener("operators", Swap(page), bind("drawing", "127.0.0.1", port))
    serve(
        [listener],
        draining=lambda: None,
        drained=lambda: True,
        drain_seconds=0,
        started=lambda: started(f"{listener.url}/#k={code}"),
    )


_WORDS: Final = {
    400: ("That did not work", "The request was not complete."),
    403: ("That did not work", "It came from another page, or from another machine."),
    404: ("Not here", "There is no such page."),
    405: ("Not here", "There is no such page."),
    413: ("Too much", "That is more than the boxes of a policy."),
    421: ("Not here", "The page is not reached under this name."),
    429: ("One moment", "Too many attempts. Wait a little, then try again."),
}
