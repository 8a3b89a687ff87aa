"""Routes of a worker at work: start, answer, save a draft, extend, return; and ``/me``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

import anyio
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dispatcher.core.rate_limit import RateLimiter
from dispatcher.stages.serving import (
    Draft,
    Given,
    Present,
    Saved,
    Serving,
    Showing,
    Wrong,
    leave,
    own_work,
)
from dispatcher.store import Clock, Store
from dispatcher.surfaces.taskpage.pages import (
    ANY,
    KNOWN,
    LEFT,
    PRACTISED,
    TAKEN_BACK,
    TOO_LATE,
    ChosenKind,
    TaskPages,
    Undo,
)
from dispatcher.surfaces.taskpage.sessions import Guest, PageSettings, TaskPageSessions
from dispatcher.surfaces.web import pace
from policies.answers.validation import Mark

_MARKS: Final = {mark.value: mark for mark in Mark}
Result = TypeVar("Result")
SHOWN: Final = 5
"""A task leaves at multiples of a fifth of the step at which "nothing" does."""


class TaskRoutes:
    """What a worker who has arrived can do."""

    def __init__(
        self,
        serving: Serving,
        pages: TaskPages,
        sessions: TaskPageSessions,
        *,
        clock: Clock,
        settings: PageSettings,
    ) -> None:
        self._serving = serving
        self._pages = pages
        self._sessions = sessions
        self._clock = clock
        self._neutral = settings.neutral
        self._undo = serving.undo
        self._starts = RateLimiter(settings.start)
        self._answers = RateLimiter(settings.answer)
        self._drafts = RateLimiter(settings.draft)
        self._looks = RateLimiter(settings.look)

    async def start(self, request: Request) -> Response:
        """``POST /start``: book, then show."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        return await self._next(request, guest, guest.worker)

    async def visit(self, request: Request) -> Response:
        """``GET /task/TOKEN``: the way to *Continue*, never the task."""
        guest = await self._sessions.guest(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        self._pace(self._looks, guest.worker)
        began = anyio.current_time()
        token = request.path_params["token"]
        own = await run_in_threadpool(self._serving.owns, guest.worker, token)
        if not own:
            return await self._nothing(request, guest, began)
        continues = await run_in_threadpool(self._serving.has_task, guest.worker)
        return await self._sessions.ready(request, guest, continues=continues)

    async def answer(self, request: Request) -> Response:
        """``POST /task/TOKEN/answer``."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        self._pace(self._answers, guest.worker)
        began = anyio.current_time()
        mark = _MARKS.get(guest.form.get("outcome", ""))
        given = Given(guest.form, mark)
        token = request.path_params["token"]
        outcome = await run_in_threadpool(
            self._serving.answer, guest.worker, token, given
        )
        if isinstance(outcome, Wrong):
            return await self._task(request, guest, outcome.showing, outcome.reason)
        if outcome is None:
            return await self._nothing(request, guest, began)
        return await self._after(request, guest, guest.worker, outcome)

    async def undo(self, request: Request) -> Response:
        """``POST /task/TOKEN/undo``: an answer is taken back, for some seconds."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        self._pace(self._answers, guest.worker)
        showing = await self._on_task(request, guest.worker, self._serving.take_back)
        if showing is not None:
            return await self._task(request, guest, showing, note=TAKEN_BACK)
        showing = await run_in_threadpool(self._serving.in_hand, guest.worker)
        if showing is not None:
            return await self._task(request, guest, showing, note=TOO_LATE)
        return await self._sessions.ready(
            request, guest, continues=False, saved=TOO_LATE
        )

    async def draft(self, request: Request) -> Response:
        """``POST /task/TOKEN/draft``: keep what was typed; says nothing of it back.

        ``If-Match`` has the mark of the draft that the window knows: 412 if another
        window saved another one since.
        """
        guest = await self._sessions.actor(request)
        if guest is None:
            return Response(status_code=401)
        self._pace(self._drafts, guest.worker)
        draft = await self._save(request, guest)
        if draft is None:
            return Response(status_code=409)
        return Response(None, 204 if draft.kept else 412, _marked(draft))

    async def extend(self, request: Request) -> Response:
        """``POST /task/TOKEN/extend``: more time; what was typed is kept."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        self._pace(self._drafts, guest.worker)
        began = anyio.current_time()
        draft = await self._save(request, guest)
        showing = await self._on_task(request, guest.worker, self._serving.extend)
        if "application/json" in request.headers.get("accept", ""):
            if showing is None:
                return JSONResponse({"left": 0}, 409)
            return JSONResponse({"left": showing.left}, headers=_marked(draft))
        if showing is None:
            return await self._nothing(request, guest, began)
        return await self._task(request, guest, showing)

    async def give_back(self, request: Request) -> Response:
        """``POST /task/TOKEN/return``: skip; another one follows."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        self._pace(self._answers, guest.worker)
        began = anyio.current_time()
        done = await self._on_task(request, guest.worker, self._serving.give_back)
        if not done:
            return await self._nothing(request, guest, began)
        return await self._after(
            request, guest, guest.worker, Saved("The task was handed back.")
        )

    async def known(self, request: Request) -> Response:
        """``POST /task/TOKEN/known``: nothing of this person any more."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        self._pace(self._answers, guest.worker)
        began = anyio.current_time()
        done = await self._on_task(request, guest.worker, self._serving.recuse)
        if not done:
            return await self._nothing(request, guest, began)
        return await self._sessions.ready(
            request,
            guest,
            continues=False,
            saved=KNOWN,
        )

    async def crop(self, request: Request) -> Response:
        """``GET /crop/ID``: the image of the task in this worker's hands.

        The only GET that gives bytes of a field. The name was made for this session and
        task by the page that booked it, and is good only while the task is leased.
        """
        guest = await self._sessions.guest(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        began = anyio.current_time()
        showing = None
        if _wants_image(request):
            showing = await run_in_threadpool(self._serving.in_hand, guest.worker)
        name = request.path_params["crop_id"]
        if showing is None or name != self._sessions.crop_id(guest, showing.task_id):
            self._pace(self._looks, guest.worker)
            await run_in_threadpool(self._serving.note_stray, guest.worker)
            return await self._nothing(request, guest, began)
        return Response(showing.content, media_type=showing.media)

    # -- parts ---------------------------------------------------------------------

    async def _next(
        self,
        request: Request,
        guest: Guest,
        worker: Present,
        undo: Undo | None = None,
    ) -> Response:
        self._pace(self._starts, worker)
        began = anyio.current_time()
        kind = None
        if self._serving.chooses:
            kind = await run_in_threadpool(self._sessions.kind_of, guest)
        showing = await run_in_threadpool(self._serving.start, worker, kind)
        if showing is None:
            response = await self._nothing(request, guest, began, undo)
        else:
            response = await self._task(request, guest, showing, undo=undo)
            await _hold(began, self._neutral / SHOWN)
        response.background = BackgroundTask(self._serving.take_out_refused)
        return response

    async def _after(
        self, request: Request, guest: Guest, worker: Present, saved: Saved
    ) -> Response:
        token = request.path_params["token"]
        undo = Undo(token, self._undo) if saved.undo else None
        goes_on = guest.form.get("then") == "next" and not saved.repeated
        if (
            self._serving.chooses
        ):  # with the same kind, unless they want to choose again
            goes_on = goes_on and "kind" in guest.form and "choose" not in guest.form
        if goes_on:
            return await self._next(request, guest, worker, undo)
        return await self._sessions.ready(
            request, guest, continues=False, saved=saved.words, undo=undo
        )

    async def _nothing(
        self, request: Request, guest: Guest, began: float, undo: Undo | None = None
    ) -> Response:
        way_out = await run_in_threadpool(self._sessions.way_out, guest.worker)
        offers = await run_in_threadpool(self._sessions.offers, guest)
        await _hold(began, self._neutral)
        return self._pages.nothing(
            request,
            self._sessions.form_token(guest),
            way_out,
            undo,
            offers=offers,
            kind=guest.form.get("kind", ANY),
        )

    async def _task(
        self,
        request: Request,
        guest: Guest,
        showing: Showing,
        error: str = "",
        *,
        note: str = "",
        undo: Undo | None = None,
    ) -> Response:
        return self._pages.task(
            request,
            self._sessions.form_token(guest),
            showing,
            self._sessions.crop_id(guest, showing.task_id),
            error,
            note=note,
            undo=undo,
            choice=self._choice(guest),
            pace=await run_in_threadpool(self._serving.pace, guest.worker, showing),
        )

    def _choice(self, guest: Guest) -> ChosenKind | None:
        """What a worker chose, to go on with; None where all is assigned."""
        if not self._serving.chooses:
            return None
        return ChosenKind(guest.form.get("kind"), again="choose" in guest.form)

    async def _save(self, request: Request, guest: Guest) -> Draft | None:
        seen = request.headers.get("if-match")
        mark = None if seen is None else seen.strip('"')
        return await self._on_task(
            request, guest.worker, self._serving.save_draft, guest.form, mark
        )

    async def _on_task(
        self,
        request: Request,
        worker: Present,
        act: Callable[..., Result],
        *more: object,
    ) -> Result:
        return await run_in_threadpool(act, worker, request.path_params["token"], *more)

    def _pace(self, limiter: RateLimiter, worker: Present) -> None:
        pace(limiter, worker.account_id, self._clock())


async def _hold(began: float, step: float) -> None:
    """Wait until a multiple of a step has passed, so that the time reveals little."""
    if step > 0:
        passed = anyio.current_time() - began
        await anyio.sleep(max(1, math.ceil(passed / step)) * step - passed)


def _marked(draft: Draft | None) -> dict[str, str]:
    """Tell a window the mark of what it has saved, for its next ``If-Match``."""
    return {"etag": f'"{draft.mark}"'} if draft is not None and draft.kept else {}


def _wants_image(request: Request) -> bool:
    """Whether the browser says that a page of ours asks, and does not prefetch."""
    headers = request.headers
    ahead = "sec-purpose" in headers or "purpose" in headers
    site = headers.get("sec-fetch-site", "same-origin")
    goal = headers.get("sec-fetch-dest", "image")
    ours = site == "same-origin" and goal == "image"
    return request.method == "GET" and ours and not ahead


class OwnPageRoutes:
    """What a worker sees of their own work."""

    def __init__(
        self,
        store: Store,
        serving: Serving,
        pages: TaskPages,
        sessions: TaskPageSessions,
        *,
        clock: Clock,
        settings: PageSettings,
    ) -> None:
        self._work = lambda who: own_work(store, clock, who, serving.waiting(who))
        self._leave = partial(leave, store, clock)
        self._pages = pages
        self._sessions = sessions
        self._clock = clock
        self._looks = RateLimiter(settings.look)

    async def show(self, request: Request) -> Response:
        """``GET /me``: counts, pay and dates; no value, and nobody else."""
        guest = await self._sessions.guest(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        pace(self._looks, guest.worker.account_id, self._clock())
        return await self._page(request, guest)

    async def practise(self, request: Request) -> Response:
        """``GET /practice``: the practice round, from its beginning."""
        guest = await self._sessions.guest(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        return await self._practice(request, guest, 1)

    async def practised(self, request: Request) -> Response:
        """``POST /practice/STEP``: an answer to a made-up part; nothing is kept of it."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        pace(self._looks, guest.worker.account_id, self._clock())
        step = request.path_params["step"]
        return await self._practice(request, guest, step, guest.form)

    async def _practice(
        self,
        request: Request,
        guest: Guest,
        step: int,
        form: Mapping[str, str] | None = None,
    ) -> Response:
        token = self._sessions.form_token(guest)
        page = self._pages.practice(request, token, step, form)
        return page or await self._sessions.ready(
            request, guest, continues=False, saved=PRACTISED
        )

    async def leave(self, request: Request) -> Response:
        """``POST /me/leave``: end the account, if the worker is sure."""
        guest = await self._sessions.actor(request)
        if guest is None:
            return self._sessions.closed(request, refused=False)
        if guest.form.get("sure") != "yes":
            return await self._page(request, guest, unsure=True)
        await run_in_threadpool(self._leave, guest.worker)
        response = self._pages.message(request, 200, *LEFT)
        await self._sessions.forget(request, response)
        return response

    async def _page(
        self, request: Request, guest: Guest, *, unsure: bool = False
    ) -> Response:
        work = await run_in_threadpool(self._work, guest.worker)
        form_token = self._sessions.form_token(guest)
        return self._pages.me(request, form_token, work, unsure=unsure)
