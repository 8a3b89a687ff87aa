"""The outermost layer of all servers: headers on every response, limits on every request."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from dispatcher.core.log import get_logger

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]

MAX_BODY: Final = 256 * 1024
"""Most bytes of a request's body; an answer is far smaller."""

_NO_FEATURES: Final = ", ".join(
    f"{name}=()"
    for name in (
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
)


@dataclass(frozen=True)
class Framed:
    """Exception for one response: it may be framed by a market's page.

    Attributes
    ----------
    by : tuple of str
        Origins whose pages may frame it.
    form : str
        Origin to which its form may be sent; empty for none.
    """

    by: tuple[str, ...]
    form: str = ""


def safe_headers(
    nonce: str,
    *,
    https: bool,
    framed: Framed | None = None,
    immutable: bool = False,
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
    immutable : bool
        Set as ``request.state.immutable`` where the address contains a file's digest.
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
        "permissions-policy": _NO_FEATURES,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-robots-tag": "noindex, nosnippet",
    }
    if framed is None:
        headers["x-frame-options"] = "DENY"  # the older header has no list
    if https:
        headers["strict-transport-security"] = "max-age=31536000"
    if immutable:
        headers["cache-control"] = "public, max-age=31536000, immutable"
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
    most : int
        Most bytes of a request's body.
    """

    def __init__(
        self,
        app: Callable[..., Any],
        name: str,
        *,
        https: bool,
        most: int = MAX_BODY,
    ) -> None:
        self._app = app
        self._name = name
        self._https = https
        self._most = most

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
                headers = safe_headers(
                    nonce,
                    https=self._https,
                    framed=scope["state"].get("framed"),
                    immutable=scope["state"].get("immutable", False),
                )
                message["headers"] = _merged(message.get("headers", ()), headers)
            await send(message)

        if fault := _malformed(scope):
            await _plain(answer, 400, fault, close=True)
            return
        try:
            await self._app(
                scope, _limited(receive, _announced(scope), self._most), answer
            )
        except HTTPException as refused:  # by _limited, where no application has pages
            if not started:
                await _plain(answer, refused.status_code, "That cannot be taken.")
        # a market's code that calls sys.exit would end the server; a traceback could
        # contain a value
        except (Exception, SystemExit) as error:  # noqa: BLE001
            _tell(self._name, error)
            if not started:
                await _plain(answer, 500, "Something went wrong here. Try again later.")


class InService:
    """Answers 503 while its server may show nothing, so that a proxy asks another one.

    Parameters
    ----------
    app : ASGI application
    is_open : callable
    https : bool
        Whether the page is reached over TLS.
    """

    def __init__(
        self, app: Callable[..., Any], is_open: Callable[[], bool], *, https: bool
    ) -> None:
        self._app = app
        self._is_open = is_open
        self._https = https

    async def __call__(
        self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        """Serve one request."""
        if scope["type"] != "http" or self._is_open():
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = safe_headers(secrets.token_urlsafe(24), https=self._https)
                message["headers"] = _merged(message["headers"], headers)
                message["headers"].append((b"retry-after", b"2"))
            await send(message)

        text = "This server is not in service. Nothing was lost: try again in a moment."
        await _plain(answer, 503, text, close=True)


def _malformed(scope: Scope) -> str:
    """Return what is ambiguous in the headers (request smuggling); usually nothing."""
    names = {name for name, _ in scope["headers"]}
    if {b"content-length", b"transfer-encoding"} <= names:  # where does it end?
        return "A request has Content-Length or Transfer-Encoding, not both."
    for name, value in scope["headers"]:
        if name == b"host" and not _is_host(value.decode("latin-1")):
            return "The Host header names no host."
    return ""


def _is_host(text: str) -> bool:
    try:
        parts = urlsplit(f"//{text}")
        _ = parts.port
    except ValueError:
        return False
    return parts.netloc == text and "@" not in text


def _limited(
    receive: Callable[..., Any], announced: int, most: int
) -> Callable[..., Any]:
    """Pass a body on; answer one that is too long or breaks off with a status.

    Starlette would answer an error of another kind as a server error (500). A body that
    is announced to be too long is not read: the application says so on its page.
    """
    size, is_whole = 0, False

    async def limited() -> Message:
        nonlocal size, is_whole
        if is_whole:  # a stream listens for whether its reader is still there
            return await receive()  # type: ignore[no-any-return]
        if announced > most:
            raise HTTPException(413)
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400)
        size += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if size > most:
            raise HTTPException(413)
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


async def _plain(
    send: Callable[..., Any], status: int, text: str, *, close: bool = False
) -> None:
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _tell(name: str, error: BaseException) -> None:
    # The error itself never reaches the logger: however logging is set up, its message
    # may hold a value.
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    place = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    get_logger(name).error(f"{name}.fault", error=type(error).__name__, at=place)
