"""Who is at the page: cookies, what hangs on them, and the ways in and out.

Cookies are random bits. ``task`` is a session, which the store knows by its digest:
it is asked on every request, so who is out is out at once, in every copy of the cookie.
``task-browser`` says nothing of anybody; it guards the form of arrival, and tells that
two accounts arrived with one browser. ``task-other`` is the session of a second person
until it is settled who goes on.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
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
from dispatcher.app.guard import Framed
from dispatcher.core.log import get_logger
from dispatcher.core.rate_limit import Rate, RateLimiter
from dispatcher.identity import read_code
from dispatcher.stages.serving import Arrivals, Present, Serving
from dispatcher.stages.serving.arrivals import BROWSER_SECONDS, Turned
from dispatcher.stages.serving.values import IN
from dispatcher.store import Clock
from dispatcher.surfaces.taskpage.languages import languages
from dispatcher.surfaces.taskpage.pages import ANY, SHARED, OfferedKind, TaskPages, Undo
from dispatcher.surfaces.web import caller, own_page, pace, read_form


class PageKeys:
    """Makes form tokens and names of images, with keys derived from one secret.

    Each hangs on a cookie: without it, and with another one, it means nothing.
    """

    def __init__(self, secret: bytes) -> None:
        self._keys = {
            use: hmac.digest(secret, b"taskpage\0" + use.encode(), "sha256")
            for use in ("form", "crop", "kind", "same")
        }

    def form_token(self, cookie: str) -> str:
        """What a form of this browser carries."""
        return _text(self._mac("form", _bytes(cookie))[:16])

    def form_fits(self, cookie: str, token: str) -> bool:
        """Whether a form came from a page that this browser was given."""
        expected = self.form_token(cookie)
        return bool(cookie) and hmac.compare_digest(expected.encode(), token.encode())

    def crop_id(self, cookie: str, task_id: int) -> str:
        """Opaque name of a task's image, good for this session and task only."""
        body = struct.pack(">Q", task_id) + _bytes(cookie)
        return _text(self._mac("crop", body)[:18])

    def kind_id(self, cookie: str, field_id: int) -> str:
        """Opaque name of a kind of work, good for this session only."""
        body = struct.pack(">Q", field_id) + _bytes(cookie)
        return _text(self._mac("kind", body)[:9])

    def identified(
        self, cookie: str, account_id: int, invite: int, until: int | None, now: int
    ) -> str:
        """Who has just arrived with this browser, for a form that asks them something."""
        body = _IDENTIFIED.pack(account_id, invite, until or 0, now)
        return _text(body + self._mac("same", body + _bytes(cookie))[:16])

    def who_identified(
        self, cookie: str, token: str, now: int
    ) -> tuple[int, int, int | None] | None:
        """Account, invite and end of what :meth:`identified` made, for ten minutes."""
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            body, mac = raw[: _IDENTIFIED.size], raw[_IDENTIFIED.size :]
            account_id, invite, until, made_at = _IDENTIFIED.unpack(body)
        except (ValueError, struct.error):
            return None
        expected = self._mac("same", body + _bytes(cookie))[:16]
        fresh = 0 <= now - made_at < _ASKED
        if not (hmac.compare_digest(mac, expected) and fresh):
            return None
        return account_id, invite, until or None

    def _mac(self, use: str, body: bytes) -> bytes:
        return hmac.digest(self._keys[use], body, "sha256")


_IDENTIFIED: Final = struct.Struct(">QqQQ")
_ASKED: Final = 600 * 1_000_000  # microseconds that an answer may take


def _bytes(cookie: str) -> bytes:
    return cookie.encode("utf-8", "surrogatepass")


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
    neutral : float
        The page "nothing for you" leaves after a multiple of so many seconds, so that
        its time does not tell why; a task that was started after a multiple of a fifth
        of it, so that its time does not tell whether it is made up.
    arrive, call, start, answer, draft, look : Rate
        ``arrive`` and ``call`` count by address, the others by account; ``call`` is for
        what markets and feeds call, ``look`` for addresses of tasks and images that may
        not be the worker's.
    """

    https: bool = False
    contact: str = ""
    neutral: float = 0.25
    arrive: Rate = field(default_factory=lambda: Rate(per_minute=240, burst=120))
    call: Rate = field(default_factory=lambda: Rate(per_minute=1200, burst=240))
    start: Rate = field(default_factory=lambda: Rate(per_minute=600, burst=60))
    answer: Rate = field(default_factory=lambda: Rate(per_minute=600, burst=60))
    draft: Rate = field(default_factory=lambda: Rate(per_minute=120, burst=30))
    look: Rate = field(default_factory=lambda: Rate(per_minute=60, burst=30))

    def __post_init__(self) -> None:
        if self.neutral < 0:
            msg = f"neutral is {self.neutral}, expected seconds >= 0"
            raise ValueError(msg)


_SECOND: Final = 1_000_000
_NO_KIND: Final = -1
_OURS: Final = ("form_token", "market", "invite")
_COOKIE_BYTES: Final = 32  # 256 bits
_COOKIE_LENGTH: Final = 43  # characters of such a cookie
_YEAR: Final = 365 * 86_400  # seconds
_BROUGHT: Final = 16_384  # characters that a market may send along


@dataclass(frozen=True)
class Guest:
    """A worker's request: its cookie, who is behind it, and the form it brought."""

    cookie: str = field(repr=False)
    worker: Present
    form: Mapping[str, str] = field(repr=False)


class TaskPageSessions:
    """Sessions and arrivals."""

    def __init__(
        self,
        serving: Serving,
        arrivals: Arrivals,
        pages: TaskPages,
        page_keys: PageKeys,
        markets: Mapping[str, Market],
        *,
        clock: Clock,
        settings: PageSettings,
    ) -> None:
        self._serving = serving
        self._workers = arrivals
        self._pages = pages
        self._page_keys = page_keys
        self._markets = dict(markets)
        self._clock = clock
        self._settings = settings
        self._arrivals = RateLimiter(settings.arrive)
        self._calls = RateLimiter(settings.call)
        self._log = get_logger("arriving")
        prefix = "__Host-" if settings.https else ""
        # A strict cookie is withheld when a link is followed from elsewhere; the other
        # one must come along then, or each such visit would be a browser of its own.
        self._session_cookie = f"{prefix}task"
        self._browser_cookie = f"{prefix}task-browser"
        self._other_cookie = f"{prefix}task-other"
        self._language_cookie = f"{prefix}task-language"

    def form_token(self, guest: Guest) -> str:
        """What the forms of a worker's pages carry."""
        return self._page_keys.form_token(guest.cookie)

    def crop_id(self, guest: Guest, task_id: int) -> str:
        """Opaque name of a task's image for a worker's session."""
        return self._page_keys.crop_id(guest.cookie, task_id)

    def offers(self, guest: Guest) -> list[OfferedKind]:
        """Kinds of work among which a worker may choose now; none where all is assigned.

        Whom the floor stopped is shown nothing new, whatever they chose.
        """
        if guest.worker.stopped:
            return []
        return [
            OfferedKind(self._page_keys.kind_id(guest.cookie, card.field_id), card)
            for card in self._serving.choices(guest.worker)
        ]

    def kind_of(self, guest: Guest) -> int | None:
        """Return the field of the kind that a form chose; None: any.

        No kind of the policy has the number that a forged or an old name gives, so that
        it is as one of which nothing is left.
        """
        name = guest.form.get("kind", ANY)
        if not self._serving.chooses or name == ANY:
            return None
        for field_id in self._serving.kinds():
            own = self._page_keys.kind_id(guest.cookie, field_id)
            if hmac.compare_digest(own.encode(), name.encode()):
                return field_id
        return _NO_KIND

    async def guest(self, request: Request) -> Guest | None:
        """Session and worker of a request that only looks; None if nobody is known."""
        cookie = request.cookies.get(self._session_cookie, "")
        worker = await run_in_threadpool(self._workers.find, cookie)
        if worker is None:
            return None
        request.state.language = worker.language
        return Guest(cookie, worker, {})

    async def actor(self, request: Request) -> Guest | None:
        """Session, worker and form of a request that changes something.

        Raises
        ------
        HTTPException
            403: the form came from elsewhere. 400: it is no form.
        """
        form = await read_form(request)
        self._check_origin(request, form)
        guest = await self.guest(request)
        return None if guest is None else Guest(guest.cookie, guest.worker, form)

    async def home(self, request: Request) -> Response:
        """``GET /``: nothing is shown here but what to press next."""
        guest = await self.guest(request)
        if guest is None:
            return self.closed(request, refused=False)
        continues = await run_in_threadpool(self._serving.has_task, guest.worker)
        return await self.ready(request, guest, continues=continues)

    async def ready(
        self,
        request: Request,
        guest: Guest,
        *,
        continues: bool,
        saved: str = "",
        undo: Undo | None = None,
    ) -> Response:
        """Offer a worker *Start* or *Continue*, and say what keeps them from new tasks."""
        offers = [] if continues else await run_in_threadpool(self.offers, guest)
        return self._pages.ready(
            request,
            self.form_token(guest),
            continues=continues,
            saved=saved,
            stopped=guest.worker.stopped,
            undo=undo,
            offers=offers,
        )

    async def arrive(self, request: Request) -> Response:
        """``POST /arrive``: the invitation becomes a session."""
        form = await read_form(request)
        self._check_origin(request, form)
        pace(self._arrivals, caller(request), self._clock())
        try:
            found = await run_in_threadpool(self._resolve, request, form)
        except TryLater:  # the market has yet to say who this is
            return self._bring(request, form.get("market", ""), form, waits=True)
        if found is None:
            return self.closed(request, refused=True)
        connector, arrival = found
        invited = isinstance(self._markets[connector], Inviting)
        account = await run_in_threadpool(
            partial(self._workers.identify, connector, arrival, invited=invited)
        )
        if account is None or account.state not in IN:
            state = "" if account is None else account.state
            return self.closed(request, refused=True, state=state)
        until = None
        if arrival.expires is not None:
            until = round(arrival.expires.timestamp() * _SECOND)
        guest, browser = await self.guest(request), self._browser(request)
        another = guest is not None and guest.worker.account_id != account.id
        before = "" if another else request.cookies.get(self._session_cookie, "")
        opened = await run_in_threadpool(
            partial(self._workers.open, account, browser, until=until, instead=before)
        )
        if opened is Turned.ASKED:
            token = self._page_keys.identified(
                browser, account.id, account.invite, until, self._clock()
            )
            return self._know_again(
                self._pages.same(
                    request, self._page_keys.form_token(browser), account.name, token
                ),
                browser,
            )
        if isinstance(opened, Turned):
            return self._know_again(self._pages.message(request, 403, *SHARED), browser)
        # a merge of the two has signed the first one out
        asks = another and await self.guest(request) is not None
        response = RedirectResponse("/whose" if asks else "/", 303)
        cookie = self._other_cookie if asks else self._session_cookie
        await self._end_other(request)  # a question that nobody answered
        self._remember(response, cookie, opened)
        return self._know_again(response, browser)

    async def same(self, request: Request) -> Response:
        """``POST /same``: ``person`` = ``same``: accounts of this browser become one."""
        form = await read_form(request)
        self._check_origin(request, form)
        pace(self._arrivals, caller(request), self._clock())
        browser = self._browser(request)
        token = form.get("identified", "")
        found = self._page_keys.who_identified(browser, token, self._clock())
        account = None
        if found is not None:
            account = await run_in_threadpool(self._workers.identified, *found[:2])
        if found is None or account is None:
            return self.closed(request, refused=True)
        opened: str | Turned = Turned.REFUSED
        if form.get("person") == "same":
            before = request.cookies.get(self._session_cookie, "")
            opened = await run_in_threadpool(
                partial(
                    self._workers.open,
                    account,
                    browser,
                    until=found[2],
                    instead=before,
                    same_person=True,
                )
            )
        if isinstance(opened, Turned):
            return self._pages.message(request, 403, *SHARED)
        response = RedirectResponse("/", 303)
        await self._end_other(request)
        self._remember(response, self._session_cookie, opened)
        return response

    async def whose(self, request: Request) -> Response:
        """``GET /whose``: who goes on, where somebody was signed in and another came."""
        guest = await self.guest(request)
        cookie = request.cookies.get(self._other_cookie, "")
        other = await run_in_threadpool(self._workers.find, cookie)
        if guest is None or other is None:
            return RedirectResponse("/", 303)
        names = [
            await run_in_threadpool(self._serving.account, worker)
            for worker in (guest.worker, other)
        ]
        return self._pages.whose(
            request, self.form_token(guest), *(name for _, name in names)
        )

    async def settle(self, request: Request) -> Response:
        """``POST /whose``: ``go_on`` = ``other`` signs the first one out, else the other."""
        form = await read_form(request)
        self._check_origin(request, form)
        first, other = (
            request.cookies.get(name, "")
            for name in (self._session_cookie, self._other_cookie)
        )
        response = RedirectResponse("/", 303)
        response.delete_cookie(self._other_cookie, secure=self._settings.https)
        if form.get("go_on") != "other":
            await self._end_other(request)
        elif await run_in_threadpool(self._workers.find, other) is not None:
            await run_in_threadpool(self._workers.end, first)
            self._remember(response, self._session_cookie, other)
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
        browser = self._browser(request)
        token = self._page_keys.form_token(browser)
        response = self._pages.bring(
            request, token, connector, _theirs(brought), waits=waits
        )
        return self._know_again(response, browser)

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
        pace(self._calls, caller(request), self._clock())
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

    async def speak(self, request: Request) -> Response:
        """``POST /language``: ``language`` is what this browser and account read from now."""
        form = await read_form(request)
        self._check_origin(request, form)
        guest, code = await self.guest(request), form.get("language", "")
        response = RedirectResponse("/", 303)
        if code in languages():
            if guest is not None:
                choose = self._workers.choose_language
                await run_in_threadpool(choose, guest.worker, code)
            response.set_cookie(
                self._language_cookie, code, max_age=_YEAR, path="/",
                secure=self._settings.https, httponly=True, samesite="lax",
            )  # fmt: skip
        return response

    async def leave(self, request: Request) -> Response:
        """``POST /leave``: the session ends, here and in every copy of its cookie."""
        guest = await self.actor(request)
        if guest is not None:
            await run_in_threadpool(self._workers.end, guest.cookie)
        response = RedirectResponse("/", 303)
        await self.forget(request, response)
        return response

    async def forget(self, request: Request, response: Response) -> None:
        """Let the browser forget its session, and that of a second person."""
        for cookie in (self._session_cookie, self._other_cookie):
            response.delete_cookie(cookie, secure=self._settings.https)
        await self._end_other(request)

    async def _end_other(self, request: Request) -> None:
        """End the session of a second person, if there is one."""
        cookie = request.cookies.get(self._other_cookie, "")
        if await run_in_threadpool(self._workers.find, cookie) is not None:
            await run_in_threadpool(self._workers.end, cookie)

    def closed(self, request: Request, *, refused: bool, state: str = "") -> Response:
        """Ask for an invitation; `state` is shown to the owner of an account alone."""
        browser = self._browser(request)
        token = self._page_keys.form_token(browser)
        response = self._pages.arrive(request, token, refused=refused, state=state)
        return self._know_again(response, browser)

    def _browser(self, request: Request) -> str:
        """Cookie that a browser is known again by; a new one if it has none of ours."""
        known = request.cookies.get(self._browser_cookie, "")
        return known if len(known) == _COOKIE_LENGTH else _new_cookie()

    def _know_again(self, response: Response, browser: str) -> Response:
        """Let a browser be known again from now on."""
        response.set_cookie(
            self._browser_cookie,
            browser,
            max_age=BROWSER_SECONDS,
            path="/",
            secure=self._settings.https,
            httponly=True,
            samesite="lax",
        )
        return response

    def _remember(self, response: Response, cookie: str, secret: str) -> None:
        response.set_cookie(
            cookie,
            secret,
            path="/",
            secure=self._settings.https,
            httponly=True,
            samesite="strict",
        )

    def _check_origin(self, request: Request, form: Mapping[str, str]) -> None:
        """Let a change in from our own pages only."""
        ours = own_page(request)
        if ours is None:
            token = form.get("form_token", "")
            ours = any(
                self._page_keys.form_fits(request.cookies.get(cookie, ""), token)
                for cookie in (self._session_cookie, self._browser_cookie)
            )
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
            # The worker is shown no reason; it may be one that the operator can fix.
            self._log.warning(
                "arrival-refused",
                connector=connector,
                what=refused.what,
                why=refused.why,
            )
            return None
        return None if arrival.preview else (connector, arrival)


def _new_cookie() -> str:
    return secrets.token_urlsafe(_COOKIE_BYTES)


def _theirs(brought: Mapping[str, str]) -> dict[str, str]:
    """What a market sent along, without names of ours."""
    return {name: text for name, text in brought.items() if name not in _OURS}


def _too_much(brought: Mapping[str, str]) -> bool:
    return sum(len(name) + len(text) for name, text in brought.items()) > _BROUGHT
