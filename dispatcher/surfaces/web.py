"""What the pages share: templates, static files, forms that are read, replies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Final, Protocol
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dispatcher.core.config import is_loopback
from dispatcher.core.errors import DispatcherError
from dispatcher.core.log import get_logger
from dispatcher.core.rate_limit import RateLimiter, network_of

Handler = Callable[[Request, Exception], Response]


class _Number(IntegerConvertor):
    """A whole number in a path; digits that Python would not convert are not here."""

    regex = "[0-9]{1,9}"


register_url_convertor("number", _Number())


class Speaking(Protocol):
    """Pages that can say one thing."""

    def message(
        self, request: Request, status: int, heading: str, text: str
    ) -> Response:
        """Say one thing, with the way back."""


def templates(package: str) -> Environment:
    """Load the templates of a package: every value is escaped, a missing one an error."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["static_url"] = partial(static_url, package)
    return made


def static(package: str, types: Mapping[str, str]) -> Route:
    """Serve files of a package's folder ``static``, which hold nothing of anybody.

    They are sent compressed; under the address of `static_url` browsers keep them for
    good.

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
        body, digest = _read(package, name)
        request.state.immutable = request.query_params.get("v") == digest
        return Response(body, media_type=types[name])

    compressed = [Middleware(GZipMiddleware)]
    return Route("/static/{name}", serve, methods=["GET"], middleware=compressed)


def static_url(package: str, name: str) -> str:
    """Address of a static file as it is now: another content has another address."""
    return f"/static/{name}?v={_read(package, name)[1]}"


@cache
def _read(package: str, name: str) -> tuple[bytes, str]:
    body = files(package).joinpath("static", name).read_bytes()
    return body, sha256(body).hexdigest()[:16]


async def robots(_: Request) -> Response:
    """Ask robots to keep away."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


def explain_status(pages: Speaking, words: Mapping[int, tuple[str, str]]) -> Handler:
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


async def read_form(request: Request, *, files: int = 0) -> dict[str, str]:
    """Text fields of a form; what is no text is left out.

    With ``files``, so many files at most are read as text too: where a page takes none,
    a form that sends one is refused.

    Raises
    ------
    HTTPException
        400: it is no form, has too many fields, or is not text.
    """
    try:
        async with request.form(max_files=files, max_fields=_MAX_FIELDS) as form:
            found = {
                name: part
                if isinstance(part, str)
                else (await part.read()).decode("utf-8-sig")
                for name, part in form.items()
            }
        # Some charsets bear lone surrogates.
        "".join([*found, *found.values()]).encode()
    except UnicodeError:
        raise HTTPException(400) from None
    return found


def caller(request: Request) -> str:
    """Network that a request comes from; the client's, where a proxy names it."""
    return network_of(request.client.host) if request.client else ""


def pace(limiter: RateLimiter, who: Hashable, now: int) -> None:
    """Let a caller go on.

    Raises
    ------
    HTTPException
        429: that was too fast.
    """
    wait = limiter.wait(who, now)
    if wait:
        raise HTTPException(429, headers={"retry-after": str(wait)})


def is_our_host(request: Request, url: str, *, behind_proxy: bool) -> bool:
    """Whether a request names this machine, or the address that `url` says.

    Another site's name may resolve to this machine (DNS rebinding). Behind a proxy
    without a `url` it is the proxy that decides.
    """
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    mine = is_loopback(host) or host == urlsplit(url).hostname
    return mine or (behind_proxy and not url)


def own_page(request: Request) -> bool | None:
    """Whether a page of ours sent the request; None where the browser does not say.

    Another port of the same machine is another page (``same-site``).
    """
    site = request.headers.get("sec-fetch-site")
    return None if site is None else site == "same-origin"
