"""Sessions of operators: who is signed in, and which host names and origins are served."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from dispatcher import access
from dispatcher.access import Attempts, Operator, Passwords, users
from dispatcher.core.config import is_loopback
from dispatcher.core.errors import Invalid
from dispatcher.core.rate_limit import Rate, RateLimiter
from dispatcher.store import Clock, Store
from dispatcher.surfaces.console.pages import Pages
from dispatcher.surfaces.web import (
    caller,
    is_our_host,
    own_page,
    pace,
    read_form,
)


@dataclass(frozen=True)
class ConsoleSettings:
    """How the console is reached.

    Attributes
    ----------
    url : str
        How operators reach it from outside, ``https://ops.example.org``; empty where
        they sit at this machine.
    behind_proxy : bool
        Whether a proxy with TLS is before it: only then is it answered to others than
        this machine.
    sign_in : Rate
        How often an address may try to sign in.
    stale : float
        Seconds for which what was read from the store may be shown again.
    """

    url: str = ""
    behind_proxy: bool = False
    sign_in: Rate = field(default_factory=lambda: Rate(per_minute=20, burst=10))
    stale: float = 2.0

    @property
    def https(self) -> bool:
        """Whether browsers come over TLS: cookies are then ``Secure``, ``__Host-``."""
        return self.url.startswith("https://")


Handler = Callable[[Request], Awaitable[Response]]
Page = Callable[[Request, Operator], Response]
Act = Callable[[Request, Operator], Awaitable[Response]]


class ConsoleSessions:
    """Signs in and out; lets nobody else see a page."""

    def __init__(
        self,
        store: Store,
        pages: Pages,
        *,
        clock: Clock,
        settings: ConsoleSettings,
        passwords: Passwords,
    ) -> None:
        self._store = store
        self._pages = pages
        self._clock = clock
        self._settings = settings
        self._pace = RateLimiter(settings.sign_in)
        self._passwords = passwords
        self._turns = asyncio.Semaphore(users.AT_ONCE)  # who waits takes no thread
        self.attempts = Attempts()
        self._cookie = f"{'__Host-' if settings.https else ''}console"
        self._way_cookie = f"{self._cookie}-way"

    def signed_in(self, page: Page) -> Handler:
        """Make the handler of a page that only the signed in may see."""

        async def handler(request: Request) -> Response:
            operator = await self._operator(request)
            if operator is None:
                return self.closed(request)
            return await run_in_threadpool(page, request, operator)

        return handler

    def signed_in_to(self, act: Act, *, acts: bool = True) -> Handler:
        """Make the handler of a coroutine; ``acts``: a person asks, no page by itself."""

        async def handler(request: Request) -> Response:
            operator = await self._operator(request, acts=acts)
            if operator is None:
                return self.closed(request)
            return await act(request, operator)

        return handler

    def from_own_page(self, act: Act) -> Handler:
        """Make the handler of a form that changes something: from a page of ours only.

        Raises
        ------
        HTTPException
            403: the form came from another page.
        """

        async def handler(request: Request) -> Response:
            operator = await self._operator(request)
            if operator is None:
                return self.closed(request)
            ours = own_page(request)
            if ours is None:
                form = await read_form(request, files=1)
                ours = operator.sent(form.get("form_token", ""))
            if not ours:
                raise HTTPException(403)
            return await act(request, operator)

        return handler

    async def elsewhere(self, request: Request) -> Response:
        """Handle any other address: not found, but only operators learn that."""
        if await self._operator(request) is None:
            return self.closed(request)
        raise HTTPException(404)

    async def ask(self, request: Request) -> Response:
        """``GET /login``: the same form for everybody."""
        self.check_host(request)
        return self._pages.login(request, status=200)

    async def ask_to_enrol(self, request: Request) -> Response:
        """``GET /enrol``: takes the link, which no server has seen yet."""
        self.check_host(request)
        return self._pages.enrol(request, status=200)

    async def sign_in(self, request: Request) -> Response:
        """``POST /login``: name, password and code, or a link, become a session.

        Where the browser does not say which page sent the form, a link is the token
        that no other page can know; a password is not taken then.

        Raises
        ------
        HTTPException
            403: the form came from another page. 429: too many attempts.
        """
        form = await self.secret_form(request)
        if "name" in form:
            if not self._pages.passwords:
                raise HTTPException(403)
            async with self._turns:
                secret = await run_in_threadpool(self._by_password, request, form)
        else:
            secret = await run_in_threadpool(self._by_link, request, form)
        if secret is None:
            by = "password" if "name" in form else "link"
            return self._pages.login(request, status=403, refused=by)
        return self.enter(RedirectResponse("/", 303), secret)

    def _by_link(self, request: Request, form: Mapping[str, str]) -> str | None:
        now = self._clock()
        secret = access.sign_in_by_link(self._store, link_of(form), now)
        if secret is None:
            denied = access.Act("unknown", "console", "console.sign-in", self._clock)
            denials = self.attempts.denials
            denials.note(self._store, denied, now, by=caller(request))
        return secret

    async def prove(
        self, request: Request, operator: Operator, form: Mapping[str, str]
    ) -> bool:
        """Take password and code once more, for an act that asks for them."""
        asked = form.get("password") and self._pages.passwords
        if not asked or operator.principal.user_id is None:
            return False
        async with self._turns:
            return await run_in_threadpool(
                access.prove,
                self._store,
                self.session_of(request),
                operator,
                form["password"],
                form.get("totp", ""),
                self._clock(),
                network=caller(request),
                passwords=self._passwords,
                attempts=self.attempts,
            )

    def _by_password(self, request: Request, form: Mapping[str, str]) -> str | None:
        return access.sign_in(
            self._store,
            form["name"].strip(),
            form.get("password", ""),
            form.get("totp", ""),
            self._clock(),
            network=caller(request),
            passwords=self._passwords,
            attempts=self.attempts,
            entropy=os.urandom,
        )

    async def enrol(self, request: Request) -> Response:
        """``POST /enrol``: a link lets a user choose a password, and signs them in.

        Raises
        ------
        HTTPException
            As :meth:`sign_in`.
        """
        form = await self.secret_form(request)
        async with self._turns:
            return await run_in_threadpool(self._enrol, request, form)

    def _enrol(self, request: Request, form: Mapping[str, str]) -> Response:
        link, now, wrong = link_of(form), self._clock(), ""
        offered = users.enrolment(self._store, link, now)
        if offered is None or not (offered.name or self.is_here(request)):
            return self._pages.enrol(request, status=403, refused=True)
        if "password" in form and self._pages.passwords:
            try:
                secret = access.enrol(
                    self._store,
                    link,
                    form["password"],
                    form.get("totp", ""),
                    now,
                    passwords=self._passwords,
                    entropy=os.urandom,
                    name=form.get("name", "").strip(),
                )
            except Invalid as error:
                wrong = f"{error.what}: {error.why}. {error.fix}."
            else:
                if secret is None:
                    return self._pages.enrol(request, status=403, refused=True)
                return self.enter(RedirectResponse("/", 303), secret)
        return self._pages.choose(
            request, offered, link, wrong=wrong, name=form.get("name", "")
        )

    async def secret_form(self, request: Request) -> dict[str, str]:
        """Read a form with a secret from a page of ours, slowly enough."""
        self.check_host(request)
        form = await read_form(request)
        ours = own_page(request)
        if ours is False or (ours is None and "code" not in form):
            raise HTTPException(403)
        self.check_sender(request)
        self.pace(request)
        return form

    def check_sender(self, request: Request) -> None:
        """Refuse secrets that came over the network without a proxy with TLS.

        Raises
        ------
        HTTPException
            403, or 421 where the address is not ours.
        """
        self.check_host(request)
        if not self._settings.behind_proxy and not self.is_here(request):
            raise HTTPException(403)

    def pace(self, request: Request) -> None:
        """Let a network try to sign in so often.

        Raises
        ------
        HTTPException
            429
        """
        pace(self._pace, caller(request), self._clock())

    @staticmethod
    def is_here(request: Request) -> bool:
        """Whether a request comes from this machine."""
        return is_loopback(request.client.host if request.client else "")

    def enter(self, response: Response, secret: str) -> Response:
        """Give the browser a session."""
        response.set_cookie(
            self._cookie,
            secret,
            path="/",
            secure=self._settings.https,
            httponly=True,
            samesite="strict",
        )
        return response

    def session_of(self, request: Request) -> str:
        """Secret of the browser's session, unchecked."""
        return request.cookies.get(self._cookie, "")

    def way_of(self, request: Request) -> str:
        """What the browser kept when it went to the provider, unchecked."""
        return request.cookies.get(self._way_cookie, "")

    def keep_way(self, response: Response, kept: str, seconds: int) -> None:
        """Have the browser keep something until the provider sends it back.

        A cookie that is strictly for this site would not come with it then.
        """
        response.set_cookie(
            self._way_cookie,
            kept,
            max_age=seconds,
            path="/",
            secure=self._settings.https,
            httponly=True,
            samesite="lax",
        )

    async def sign_out(self, request: Request, _: Operator) -> Response:
        """``POST /logout``: the session ends, here and in every copy of its cookie."""
        secret = self.session_of(request)
        await run_in_threadpool(access.sign_out, self._store, secret, self._clock())
        response = RedirectResponse("/login", 303)
        response.delete_cookie(self._cookie, secure=self._settings.https)
        return response

    def closed(self, request: Request) -> Response:
        """Ask whoever is not signed in to do so; a page's own question gets no page."""
        if "x-refresh" in request.headers:
            return PlainTextResponse("sign in again\n", 401)
        return self._pages.login(request, status=401)

    async def _operator(
        self, request: Request, *, acts: bool = True
    ) -> Operator | None:
        self.check_host(request)
        secret = self.session_of(request)
        acting = acts and "x-refresh" not in request.headers
        return await run_in_threadpool(
            access.authenticate_session,
            self._store,
            secret,
            self._clock(),
            acting=acting,
        )

    def check_host(self, request: Request) -> None:
        """Refuse names that are not ours: another site may resolve to this machine."""
        settings = self._settings
        if not is_our_host(request, settings.url, behind_proxy=settings.behind_proxy):
            raise HTTPException(421)


def link_of(form: Mapping[str, str]) -> str:
    """What follows ``#k=`` in a link, or the code itself."""
    return form.get("code", "").strip().rpartition("#k=")[2]
