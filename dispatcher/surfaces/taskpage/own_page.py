"""The worker's own page: ``/me``, and leaving for good."""

from __future__ import annotations

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dispatcher.core.rate_limit import RateLimiter
from dispatcher.stages.serving import Present, leave, own_work
from dispatcher.store import Clock, Store
from dispatcher.surfaces.taskpage.arriving import Door, Guest
from dispatcher.surfaces.taskpage.pages import Pages
from dispatcher.surfaces.taskpage.settings import PageSettings


class OwnPage:
    """What a worker sees of their own work."""

    def __init__(
        self,
        store: Store,
        pages: Pages,
        door: Door,
        *,
        clock: Clock,
        settings: PageSettings,
    ) -> None:
        self._work = partial(own_work, store, clock)
        self._leave = partial(leave, store, clock)
        self._pages = pages
        self._door = door
        self._clock = clock
        self._looks = RateLimiter(settings.look)

    async def show(self, request: Request) -> Response:
        """``GET /me``: counts, pay and dates; no value, and nobody else."""
        guest = await self._door.guest(request)
        if guest is None:
            return self._door.closed(request, refused=False)
        self._pace(guest.worker)
        return await self._page(request, guest)

    async def leave(self, request: Request) -> Response:
        """``POST /me/leave``: end the account, if the worker is sure."""
        guest = await self._door.actor(request)
        if guest is None:
            return self._door.closed(request, refused=False)
        if guest.form.get("sure") != "yes":
            return await self._page(request, guest, unsure=True)
        await run_in_threadpool(self._leave, guest.worker)
        response = self._pages.message(
            request,
            200,
            "You have left",
            "Nothing is shown to you any more. Thank you for your work.",
        )
        self._door.forget(response)
        return response

    async def _page(
        self, request: Request, guest: Guest, *, unsure: bool = False
    ) -> Response:
        work = await run_in_threadpool(self._work, guest.worker)
        form_token = self._door.form_token(guest.session)
        return self._pages.me(request, form_token, work, unsure=unsure)

    def _pace(self, worker: Present) -> None:
        wait = self._looks.wait(worker.account_id, self._clock())
        if wait:
            raise HTTPException(429, headers={"retry-after": str(wait)})
