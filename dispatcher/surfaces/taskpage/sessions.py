"""Who is at the page: a signed cookie, and the tokens that hang on it.

The cookie is a JSON Web Token with account, invite number, end and a random id; nothing
is stored here. Whether the account is still active and the invite number still valid is
asked of the store on every request, so a revoked worker is out at once.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from connectors.base import (
    Arrival,
    ConnectorError,
    Finishing,
    Framing,
    Heeding,
    Inviting,
    Market,
    Rejected,
    TryLater,
    Visit,
)
from connectors.tickets import read_claims, sign_claims
from dispatcher.app.guard import Framed
from dispatcher.core.log import get_logger
from dispatcher.core.rate_limit import Rate, RateLimiter
from dispatcher.identity import read_code
from dispatcher.stages.serving import Present, Serving
from dispatcher.store import Clock
from dispatcher.surfaces.taskpage.pages import Pages
from dispatcher.surfaces.web import own_page, read_form

_ID_BYTES: Final = 16  # 128 bits
ANONYMOUS: Final = 0


@dataclass(frozen=True)
class Session:
    """One browser.

    Attributes
    ----------
    account_id : int
        0 while nobody has arrived (such a session only guards the arrival form).
    number : int
        Invite number that it was opened with.
    ends_at : int
        Microseconds UTC.
    id : bytes
        16 random bytes, new at every arrival.
    """

    account_id: int
    number: int
    ends_at: int
    id: bytes

    @classmethod
    def open(cls, account_id: int, number: int, ends_at: int) -> Session:
        """Make a session with an id of its own."""
        return cls(account_id, number, ends_at, secrets.token_bytes(_ID_BYTES))


class TokenSigner:
    """Signs sessions, form tokens and crop ids with keys derived from one secret."""

    def __init__(self, secret: bytes) -> None:
        self._keys = {
            use: hmac.digest(secret, b"taskpage\0" + use.encode(), "sha256")
            for use in ("session", "form", "crop")
        }

    def write(self, session: Session) -> str:
        """Cookie text of a session."""
        claims = {**asdict(session), "id": session.id.hex()}
        return sign_claims(self._keys["session"], claims)

    def read(self, cookie: str, now: int) -> Session | None:
        """Session of a cookie; None if it is forged, damaged or over."""
        claims = read_claims(self._keys["session"], cookie)
        if claims is None:
            return None
        session = Session(**{**claims, "id": bytes.fromhex(claims["id"])})
        return session if session.ends_at > now else None

    def form_token(self, session: Session) -> str:
        """What a form of this session carries."""
        return _text(self._mac("form", session.id)[:16])

    def form_fits(self, session: Session, token: str) -> bool:
        """Whether a form came from a page that this session was given."""
        expected = self.form_token(session)
        return hmac.compare_digest(expected.encode(), token.encode())

    def crop_id(self, session: Session, task_id: int) -> str:
        """Opaque name of a task's image, good for this session and task only."""
        body = struct.pack(">Q", task_id) + session.id
        return _text(self._mac("crop", body)[:18])

    def _mac(self, use: str, body: bytes) -> bytes:
        return hmac.digest(self._keys[use], body, "sha256")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass(frozen=True)
class PageSettings:
    """How the page is reached, and how fast one worker may press its buttons.

    Attributes
    ----------
    https : bool
        Whether workers reach it over TLS: cookies are then ``Secure`` with the
        ``__Host-`` prefix. False is for loopback.
    contact : str
        Whom workers may ask, shown on every page.
    session : float
        Seconds after which a worker opens the link again.
    neutral : float
        The page "nothing for you" leaves after a multiple of so many seconds, so that
        its time does not tell why.
    arrive, start, answer, draft, look : Rate
        ``arrive`` counts by address, the others by account; ``look`` is for addresses
        of tasks and images that may not be the worker's.
    """

    https: bool = False
    contact: str = ""
    session: float = 12 * 3600
    neutral: float = 0.25
    arrive: Rate = field(default_factory=lambda: Rate(per_minute=240, burst=120))
    start: Rate = field(default_factory=lambda: Rate(per_minute=600, burst=60))
    answer: Rate = field(default_factory=lambda: Rate(per_minute=600, burst=60))
    draft: Rate = field(default_factory=lambda: Rate(per_minute=120, burst=30))
    look: Rate = field(default_factory=lambda: Rate(per_minute=60, burst=30))

    def __post_init__(self) -> None:
        for name in ("session", "neutral"):
            if getattr(self, name) < 0:
                msg = f"{name} is {getattr(self, name)}, expected seconds >= 0"
                raise ValueError(msg)


_SECOND: Final = 1_000_000
_OURS: Final = ("form_token", "market", "invite")
_BROUGHT: Final = 16_384  # characters that a market may send along


@dataclass(frozen=True)
class Guest:
    """A worker's request: its session, who is behind it, and the form it brought."""

    session: Session
    worker: Present
    form: Mapping[str, str]


class Sessions:
    """Sessions and arrivals."""

    def __init__(
        self,
        serving: Serving,
        pages: Pages,
        signer: TokenSigner,
        markets: Mapping[str, Market],
        *,
        clock: Clock,
        settings: PageSettings,
    ) -> None:
        self._serving = serving
        self._pages = pages
        self._signer = signer
        self._markets = dict(markets)
        self._clock = clock
        self._settings = settings
        self._arrivals = RateLimiter(settings.arrive)
        self._log = get_logger("arriving")
        prefix = "__Host-" if settings.https else ""
        # Two cookies: a strict one is withheld when a link is followed from elsewhere,
        # and what guards the arrival form must not then replace the session.
        self._session_cookie = f"{prefix}task"
        self._form_cookie = f"{prefix}task-form"

    def form_token(self, session: Session) -> str:
        """What the forms of a session carry."""
        return self._signer.form_token(session)

    def crop_id(self, session: Session, task_id: int) -> str:
        """Opaque name of a task's image for a session."""
        return self._signer.crop_id(session, task_id)

    async def guest(self, request: Request) -> Guest | None:
        """Session and worker of a request that only looks; None if nobody is known."""
        session = self._session(request, self._session_cookie)
        if session is None or session.account_id == ANONYMOUS:
            return None
        worker = await run_in_threadpool(
            self._serving.present, session.account_id, session.number
        )
        return None if worker is None else Guest(session, worker, {})

    async def actor(self, request: Request) -> Guest | None:
        """Session, worker and form of a request that changes something.

        Raises
        ------
        HTTPException
            403: the form came from elsewhere. 400: it is no form.
        """
        form = await read_form(request)
        session = self._session(request, self._session_cookie)
        self._check_origin(request, form, session)
        guest = await self.guest(request)
        return None if guest is None else Guest(guest.session, guest.worker, form)

    async def home(self, request: Request) -> Response:
        """``GET /``: nothing is shown here but what to press next."""
        guest = await self.guest(request)
        if guest is None:
            return self.closed(request, refused=False)
        continues = await run_in_threadpool(self._serving.has_task, guest.worker)
        token = self.form_token(guest.session)
        return self._pages.ready(request, token, continues=continues)

    async def arrive(self, request: Request) -> Response:
        """``POST /arrive``: the invitation becomes a session."""
        form = await read_form(request)
        session = self._session(request, self._form_cookie)
        self._check_origin(request, form, session)
        host = request.client.host if request.client else ""
        wait = self._arrivals.wait(host, self._clock())
        if wait:
            raise HTTPException(429, headers={"retry-after": str(wait)})
        try:
            found = await run_in_threadpool(self._resolve, request, form)
        except TryLater:  # the market has yet to say who this is
            return self._bring(request, form.get("market", ""), form, waits=True)
        if found is None:
            return self.closed(request, refused=True)
        connector, arrival = found
        invited = isinstance(self._markets[connector], Inviting)
        worker = await run_in_threadpool(
            partial(self._serving.arrive, connector, arrival, invited=invited)
        )
        if worker is None:
            return self.closed(request, refused=True)
        ends_at = self._clock() + round(self._settings.session * _SECOND)
        if arrival.expires is not None:
            ends_at = min(ends_at, round(arrival.expires.timestamp() * _SECOND))
        opened = Session.open(worker.account_id, worker.number, ends_at)
        response = RedirectResponse("/", 303)
        self._remember(response, self._session_cookie, opened)
        response.delete_cookie(self._form_cookie, secure=self._settings.https)
        return response

    async def bring(self, request: Request) -> Response:
        """``GET /from/CONNECTOR``: carry on what a market sends along with a worker.

        The parameters become a form that is posted once: a look at the address alone
        (a preview, a prefetch) opens nothing, and they leave the address bar.
        """
        connector = request.path_params["connector"]
        market = self._markets.get(connector)
        brought = request.query_params
        if market is None or isinstance(market, Inviting) or _too_much(brought):
            return self.closed(request, refused=True)
        return self._bring(request, connector, brought)

    def _bring(
        self,
        request: Request,
        connector: str,
        brought: Mapping[str, str],
        *,
        waits: bool = False,
    ) -> Response:
        """Ask to go on with what was brought, or to come again with it."""
        session = self._doorstep(request)
        response = self._pages.bring(
            request, self.form_token(session), connector, _theirs(brought), waits=waits
        )
        self._remember(response, self._form_cookie, session)
        return response

    async def notice(self, request: Request) -> Response:
        """``GET /from/CONNECTOR/notice``: what a market shows in a frame of its own.

        No session is opened and nothing of a field is shown: it leads to ``bring``, in a
        window where the address bar tells whose page it is.
        """
        connector = request.path_params["connector"]
        market: object = self._markets.get(connector)
        if not isinstance(market, Framing) or _too_much(request.query_params):
            raise HTTPException(404)
        try:
            notice = market.notice(Visit(dict(request.query_params)))
        except Rejected:
            raise HTTPException(403) from None
        request.state.framed = Framed(notice.frames, notice.target)
        return self._pages.notice(request, connector, notice)

    async def called(self, request: Request) -> Response:
        """``POST /hooks/CONNECTOR``: a market says that something has changed.

        It is checked over its raw bytes before anything of it is read, counts once, and
        only makes the daemon look sooner.
        """
        connector = request.path_params["connector"]
        market: object = self._markets.get(connector)
        if not isinstance(market, Heeding):
            raise HTTPException(404)
        visit = Visit(headers=dict(request.headers), body=await request.body())
        now = datetime.fromtimestamp(self._clock() / _SECOND, UTC)
        try:
            call = await run_in_threadpool(market.heed, visit, now)
        except Rejected:
            return Response(status_code=401)
        except ConnectorError:  # the market comes again
            return Response(status_code=503)
        await run_in_threadpool(self._serving.note_call, connector, call)
        return Response(status_code=204)

    def way_out(self, worker: Present) -> str:
        """Link by which a worker tells the market of being done; mostly none."""
        connector, account = self._serving.account(worker)
        market: object = self._markets.get(connector)
        return market.finish(account) if isinstance(market, Finishing) else ""

    async def leave(self, request: Request) -> Response:
        """``POST /leave``: the browser forgets the session."""
        form = await read_form(request)
        session = self._session(request, self._session_cookie)
        self._check_origin(request, form, session)
        response = RedirectResponse("/", 303)
        self.forget(response)
        return response

    def forget(self, response: Response) -> None:
        """Let the browser forget the session."""
        response.delete_cookie(self._session_cookie, secure=self._settings.https)

    def closed(self, request: Request, *, refused: bool) -> Response:
        """Ask for an invitation."""
        session = self._doorstep(request)
        response = self._pages.arrive(
            request, self.form_token(session), refused=refused
        )
        self._remember(response, self._form_cookie, session)
        return response

    def _doorstep(self, request: Request) -> Session:
        """Session of somebody not let in yet: it only guards the form of arrival."""
        session = self._session(request, self._form_cookie)
        if session is not None:
            return session
        ends_at = self._clock() + round(self._settings.session * _SECOND)
        return Session.open(ANONYMOUS, 0, ends_at)

    def _session(self, request: Request, cookie: str) -> Session | None:
        return self._signer.read(request.cookies.get(cookie, ""), self._clock())

    def _remember(self, response: Response, cookie: str, session: Session) -> None:
        response.set_cookie(
            cookie,
            self._signer.write(session),
            path="/",
            secure=self._settings.https,
            httponly=True,
            samesite="strict",
        )

    def _check_origin(
        self, request: Request, form: Mapping[str, str], session: Session | None
    ) -> None:
        """Let a change in from our own pages only."""
        ours = own_page(request)
        if ours is None:
            token = form.get("form_token", "")
            ours = session is not None and self._signer.form_fits(session, token)
        if not ours:
            raise HTTPException(403)

    def _resolve(
        self, request: Request, form: Mapping[str, str]
    ) -> tuple[str, Arrival] | None:
        """Find out who comes: by what the market says of its link or parameters."""
        connector, token = read_code(form.get("invite", ""))
        connector = form.get("market", connector)
        market = self._markets.get(connector)
        if market is None:
            return None
        visit = Visit({**_theirs(form), "token": token}, dict(request.headers))
        now = datetime.fromtimestamp(self._clock() / _SECOND, UTC)
        try:
            arrival = market.arrive(visit, now)
        except TryLater:
            raise
        except ConnectorError as refused:
            # The worker is told no reason; it may be one that the operator can mend.
            self._log.warning(
                "arrival-refused",
                connector=connector,
                what=refused.what,
                why=refused.why,
            )
            return None
        return None if arrival.preview else (connector, arrival)


def _theirs(brought: Mapping[str, str]) -> dict[str, str]:
    """What a market sent along, without names of ours."""
    return {name: text for name, text in brought.items() if name not in _OURS}


def _too_much(brought: Mapping[str, str]) -> bool:
    return sum(len(name) + len(text) for name, text in brought.items()) > _BROUGHT
