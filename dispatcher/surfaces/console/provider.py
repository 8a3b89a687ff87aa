"""Signing in by an OpenID provider: the pages that lead there, and where it leads back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dispatcher.access import Operator
from dispatcher.access.oidc import (
    CALLBACK,
    Provider,
    ProviderError,
    TokenRefused,
)
from dispatcher.access.provider_sign_in import (
    Begun,
    NotSignedIn,
    arrive,
    begin_enrolment,
    begin_proof,
    begin_sign_in,
    sign_identity_out,
)
from dispatcher.access.sessions import LINK_SECONDS
from dispatcher.core.errors import Invalid
from dispatcher.store import Clock, Store
from dispatcher.surfaces.console.pages import Pages
from dispatcher.surfaces.console.sessions import ConsoleSessions, link_of
from dispatcher.surfaces.web import caller, read_form

CALLS_AT_ONCE: Final = 4
"""Requests that wait for the provider at a time: each takes a thread."""

AGAIN: Final = f"{CALLBACK}/again"
LOGOUT: Final = f"{CALLBACK}/logout"


class ProviderSignIn:
    """Serves the pages of signing in by the provider.

    Parameters
    ----------
    store : Store
    sessions : ConsoleSessions
    pages : Pages
    provider : Provider
    clock : Clock
    """

    def __init__(
        self,
        store: Store,
        sessions: ConsoleSessions,
        pages: Pages,
        provider: Provider,
        clock: Clock,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._pages = pages
        self._provider = provider
        self._clock = clock
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)

    def routes(self) -> list[Route]:
        """Addresses that are served."""
        again = self._sessions.from_own_page(self._prove)
        return [
            Route(CALLBACK, self._begin, methods=["POST"]),
            Route(CALLBACK, self._arrive, methods=["GET"]),
            Route(AGAIN, again, methods=["POST"]),
            Route(LOGOUT, self._sign_out, methods=["POST"]),
        ]

    async def _begin(self, request: Request) -> Response:
        """``POST /login/provider``: to the provider, to sign in or to enrol."""
        form = await self._sessions.secret_form(request)
        if "code" not in form:
            return await self._to_provider(request, begin_sign_in)
        link, name = link_of(form), form.get("name", "").strip()
        if name and not self._sessions.is_here(request):
            raise HTTPException(403)  # a first admin enrols on this machine

        def begin(store: Store, provider: Provider, now: int, entropy: Any) -> Any:  # noqa: ANN401
            return begin_enrolment(store, provider, link, name, now, entropy)

        try:
            return await self._to_provider(request, begin)
        except Invalid as error:
            return self._pages.message(request, 422, error.what, f"{error.why}.")

    async def _prove(self, request: Request, operator: Operator) -> Response:
        """``POST /login/provider/again``: to the provider, to sign in once more."""
        self._sessions.pace(request)
        session = self._sessions.session_of(request)

        def begin(store: Store, provider: Provider, now: int, entropy: Any) -> Begun:  # noqa: ANN401
            return begin_proof(store, provider, session, operator, now, entropy)

        return await self._to_provider(request, begin)

    async def _to_provider(
        self, request: Request, begin: Callable[..., Begun | None]
    ) -> Response:
        try:
            async with self._turns:
                begun = await run_in_threadpool(
                    begin, self._store, self._provider, self._clock(), os.urandom
                )
        except NotSignedIn as error:
            return self._ended(request, error)
        if begun is None:
            return self._pages.enrol(request, status=403, refused=True)
        response = self._pages.onward(
            request,
            begun.address,
            f"On to {self._pages.provider}",
            "You sign in there, and come back by yourself.",
        )
        self._sessions.keep_way(response, begun.cookie, LINK_SECONDS)
        return response

    async def _arrive(self, request: Request) -> Response:
        """``GET /login/provider``: back from the provider.

        The address has a code that is worth nothing without the browser's own cookie
        and this program's secret; it changes something, as the protocol has it.
        """
        self._sessions.check_sender(request)
        self._sessions.pace(request)
        try:
            async with self._turns:
                secret = await run_in_threadpool(self._session, request)
        except NotSignedIn as error:
            return self._ended(request, error)
        if secret is None:
            response: Response = self._pages.message(
                request,
                200,
                "You have signed in once more",
                "Close this page and go on where you were: for five minutes nothing "
                "more is asked.",
            )
        else:
            response = self._pages.onward(
                request, "/", "You are signed in", "The console opens by itself."
            )
            self._sessions.enter(response, secret)
        self._sessions.keep_way(response, "", 0)
        return response

    def _session(self, request: Request) -> str | None:
        return arrive(
            self._store,
            self._provider,
            self._sessions.way_of(request),
            request.query_params,
            self._clock(),
            network=caller(request),
            attempts=self._sessions.attempts,
            entropy=os.urandom,
        )

    async def _sign_out(self, request: Request) -> Response:
        """``POST /login/provider/logout``: the provider signed somebody out."""
        self._sessions.check_host(request)
        self._sessions.pace(request)
        form = await read_form(request)
        try:
            async with self._turns:
                await run_in_threadpool(
                    sign_identity_out,
                    self._store,
                    self._provider,
                    form.get("logout_token", ""),
                    self._clock(),
                )
        except TokenRefused:
            return PlainTextResponse("this proves nothing\n", 400)
        except ProviderError:
            return PlainTextResponse("try again\n", 503)
        return PlainTextResponse("")

    def _ended(self, request: Request, error: NotSignedIn) -> Response:
        """Say why nobody is signed in, and what to do."""
        status, heading, text = _WORDS[error.why]
        name, at = self._pages.provider, self._provider
        response = self._pages.message(
            request,
            status,
            heading.format(name=name),
            text.format(name=name, console=at.redirect_uri.removesuffix(CALLBACK)),
        )
        if status == 503:
            response.headers["retry-after"] = "30"
        self._sessions.keep_way(response, "", 0)
        return response


_WORDS: Final = {
    "elsewhere": (
        403,
        "This way has ended",
        "It did not begin in this browser, took more than ten minutes, or was used "
        "already. Begin again at {console}/login, in one browser and at this address.",
    ),
    "declined": (
        403,
        "{name} signed nobody in",
        "It was broken off there, or it does not let you in here. Begin again, or ask "
        "whoever runs {name}.",
    ),
    "invalid": (
        403,
        "Nobody is signed in",
        "What {name} sent does not prove who you are. Begin again; if it happens again, "
        "an admin runs: dispatcher doctor",
    ),
    "nobody": (
        403,
        "You may not come in here",
        "{name} knows you, and this console does not, or not any more. An admin adds you "
        "(dispatcher users add) and gives you a link; open it, and choose {name} there.",
    ),
    "taken": (
        409,
        "This account is somebody's already",
        "Your account at {name} signs in another user here. Sign in there as the person "
        "whom the link is for, and open the link again.",
    ),
    "other": (
        403,
        "That was somebody else",
        "You signed in at {name} as another person than the one who has this session. "
        "Nothing was changed; close this page and try again.",
    ),
    "stale": (
        403,
        "You did not sign in anew",
        "{name} did not say that you gave your password once more. Nothing was changed; "
        "close this page and try again, or ask whoever runs {name} to send auth_time.",
    ),
    "away": (
        503,
        "{name} does not answer",
        "Try again in a minute. Meanwhile a link signs you in, from the machine of the "
        "store: dispatcher console link",
    ),
}
