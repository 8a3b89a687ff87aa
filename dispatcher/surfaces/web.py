"""What every page of ours shares: the guard before it, forms that are read, replies."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from dispatcher.core.errors import DispatcherError
from dispatcher.core.log import get_logger

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]

MAX_BODY: Final = 256 * 1024
"""Bytes of a request's body; an answer is far below."""

_FEATURES: Final = (
    "accelerometer",
    "autoplay",
    "bluetooth",
    "browsing-topics",
    "camera",
    "clipboard-read",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "gamepad",
    "geolocation",
    "gyroscope",
    "hid",
    "idle-detection",
    "interest-cohort",
    "local-fonts",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "picture-in-picture",
    "publickey-credentials-get",
    "screen-wake-lock",
    "serial",
    "usb",
    "web-share",
    "xr-spatial-tracking",
)


@dataclass(frozen=True)
class Framed:
    """What one response may do that others may not: be shown within a market's page.

    Attributes
    ----------
    by : tuple of str
        Origins whose pages may frame it.
    form : str
        Origin that its form may go to; empty for none.
    """

    by: tuple[str, ...]
    form: str = ""


def safe_headers(
    nonce: str, *, https: bool, framed: Framed | None = None
) -> dict[str, str]:
    """Headers of every response.

    Parameters
    ----------
    nonce : str
        Of this response alone, >= 128 bits.
    https : bool
        Whether browsers come over TLS.
    framed : Framed, optional
        Set by the page as ``request.state.framed``; None: nobody may frame it.
    """
    by = "'none'" if framed is None else " ".join(framed.by)
    form = "'self'" if framed is None else framed.form or "'none'"
    policy = (
        "default-src 'none'; img-src 'self'; connect-src 'self'; "
        f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; object-src 'none'; "
        f"form-action {form}; base-uri 'none'; frame-ancestors {by}"
    )
    headers = {
        "cache-control": "no-store",
        "content-security-policy": policy,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": ", ".join(f"{name}=()" for name in _FEATURES),
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-robots-tag": "noindex, nosnippet",
    }
    if framed is None:
        headers["x-frame-options"] = "DENY"  # the older word knows no list
    if https:
        headers["strict-transport-security"] = "max-age=31536000"
    return headers


class Guard:
    """The outermost layer.

    Parameters
    ----------
    app : ASGI application
    name : str
        Of the application, for the log.
    https : bool
        Whether the page is reached over TLS.
    """

    def __init__(self, app: Callable[..., Any], name: str, *, https: bool) -> None:
        self._app = app
        self._name = name
        self._https = https

    async def __call__(
        self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(24)
        scope.setdefault("state", {})["nonce"] = nonce
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                framed = scope["state"].get("framed")
                headers = safe_headers(nonce, https=self._https, framed=framed)
                message["headers"] = _merged(message.get("headers", ()), headers)
            await send(message)

        if _announced(scope) > MAX_BODY:
            await _plain(answer, 413, "Too much at once.")
            return
        try:
            await self._app(scope, _limited(receive), answer)
        except _TooLong:
            if not started:
                await _plain(answer, 413, "Too much at once.")
        # a market's code that calls sys.exit would end the server; a traceback could
        # hold a value
        except (Exception, SystemExit) as error:  # noqa: BLE001
            _tell(self._name, error)
            if not started:
                await _plain(answer, 500, "Something went wrong here. Try again later.")


class _TooLong(Exception):
    """The body outgrew what its length announced, or announced none."""


def _limited(receive: Callable[..., Any]) -> Callable[..., Any]:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message: Message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise _TooLong
        return message

    return limited


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


def _merged(
    given: Iterable[tuple[bytes, bytes]], ours: dict[str, str]
) -> list[tuple[bytes, bytes]]:
    kept = [pair for pair in given if pair[0].decode("latin-1").lower() not in ours]
    return kept + [(name.encode(), value.encode()) for name, value in ours.items()]


async def _plain(send: Callable[..., Any], status: int, text: str) -> None:
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _tell(name: str, error: BaseException) -> None:
    # The error itself never reaches the logger: however logging is set up, its message
    # may hold a value.
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    place = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    get_logger(name).error(f"{name}.fault", error=type(error).__name__, at=place)


Endpoint = Callable[[Request], Awaitable[Response]]
Handler = Callable[[Request, Exception], Response]


class Speaking(Protocol):
    """Pages that can say one thing."""

    def message(
        self, request: Request, status: int, heading: str, text: str
    ) -> Response:
        """Say one thing, with the way back."""


def static(package: str, types: Mapping[str, str]) -> Endpoint:
    """Serve files of a package's folder ``static``.

    Parameters
    ----------
    package : str
    types : Mapping[str, str]
        Media type by name; nothing else is served.
    """

    async def serve(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in types:
            raise HTTPException(404)
        body = files(package).joinpath("static", name).read_bytes()
        return Response(body, media_type=types[name])

    return serve


async def robots(_: Request) -> Response:
    """Ask robots to keep away."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


def told(pages: Speaking, words: Mapping[int, tuple[str, str]]) -> Handler:
    """Say what a status means: heading and text by status, 400 for all others."""

    def tell(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        heading, text = words.get(error.status_code, words[400])
        response = pages.message(request, error.status_code, heading, text)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    return tell


def unable(pages: Speaking, surface: str, heading: str, text: str) -> Handler:
    """Say that the store cannot be reached now; ``{code}`` in the text is the error's."""
    log, event = get_logger(surface), f"{surface}.unable"

    def tell(request: Request, error: Exception) -> Response:
        assert isinstance(error, DispatcherError)
        log.warning(event, code=error.code)
        response = pages.message(request, 503, heading, text.format(code=error.code))
        response.headers["retry-after"] = "5"
        return response

    return tell


_MAX_FIELDS: Final = 2_000


async def read_form(request: Request) -> dict[str, str]:
    """Text fields of a form; what is no text is left out.

    Raises
    ------
    HTTPException
        400: it is no form, or has too many fields.
    """
    async with request.form(max_files=0, max_fields=_MAX_FIELDS) as form:
        return {name: text for name, text in form.items() if isinstance(text, str)}


def own_page(request: Request) -> bool | None:
    """Whether a page of ours sent the request; None where the browser does not say.

    Another port of the same machine is another page (``same-site``).
    """
    site = request.headers.get("sec-fetch-site")
    return None if site is None else site == "same-origin"
