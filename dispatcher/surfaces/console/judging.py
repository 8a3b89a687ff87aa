"""One conflict after the other: what is decided is acted on, and the next one shown."""

from __future__ import annotations

import json
import secrets
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dispatcher.access import Operator
from dispatcher.core.errors import DispatcherError
from dispatcher.operations.answers import Disputed, list_conflicts
from dispatcher.surfaces.api import content
from dispatcher.surfaces.api.problems import ProblemError
from dispatcher.surfaces.console.acting import Acting, Prove
from dispatcher.surfaces.console.actions import ACTIONS, Action
from dispatcher.surfaces.console.pages import problem_of
from dispatcher.surfaces.console.tables import number
from dispatcher.surfaces.console.view import Site, View
from dispatcher.surfaces.web import read_form

_JUDGE: Final = next(one for one in ACTIONS if one.act is content.judge_field)
_SHOW: Final = Action(content.show_answers, "Show answers", "Show", "/answers")

CROPS: Final = 100
"""Images that wait to be fetched by the pages that show them; older ones are dropped."""

Show = Callable[[View, "Sitting"], Response]


@dataclass(frozen=True)
class Sitting:
    """What a person said once, and where they are in the queue.

    Attributes
    ----------
    reason : str
        Why they judge; empty: they have not begun.
    shows : bool
        Whether they want to see what answers say.
    after : int
        The entry before the next one.
    shown : mapping, optional
        What the answers to the next one say, where that is revealed.
    crop : str
        Address of its image, that gives it once.
    judged : mapping, optional
        What was decided just now.
    problem : mapping, optional
    asks, unproven : bool
        Whether password and code are asked for, and whether those given were wrong.
    """

    reason: str = ""
    shows: bool = False
    after: int = 0
    shown: Mapping[str, Any] | None = None
    crop: str = ""
    judged: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None
    asks: bool = False
    unproven: bool = False


@dataclass
class Crops:
    """Images that a page shows, each given once and to whom it was revealed alone."""

    _kept: dict[str, tuple[str, str, bytes]] = field(default_factory=dict, repr=False)

    def keep(self, operator: str, media: str, image: bytes) -> str:
        """Keep an image; return its address."""
        while len(self._kept) >= CROPS:
            self._kept.pop(next(iter(self._kept)))
        token = secrets.token_urlsafe(24)
        self._kept[token] = operator, media, image
        return f"/answers/crops/{token}"

    async def give(self, request: Request, operator: Operator) -> Response:
        """``GET /answers/crops/TOKEN``."""
        token = request.path_params["token"]
        if self._kept.get(token, ("",))[0] != operator.name:
            raise HTTPException(404)
        _, media, image = self._kept.pop(token)
        return Response(image, media_type=media)


class Judging:
    """Serves ``POST /answers/judge``: a decision, if there is one, and the next conflict.

    Parameters
    ----------
    site : Site
    show : callable
        Shows the page.
    acting : Acting
    prove : callable
        Takes password and code once more.
    """

    def __init__(
        self,
        site: Site,
        show: Show,
        acting: Acting,
        prove: Callable[[Request, Operator, Mapping[str, str]], Awaitable[bool]],
    ) -> None:
        self._site = site
        (self.screen,) = [one for one in site.screens if one.acts]
        self._show = show
        self._acting = acting
        self._prove: Prove = prove
        self.crops = Crops()

    async def judge(self, request: Request, operator: Operator) -> Response:
        """Act on what was decided, then show the next conflict."""
        await self._acting.check(operator, _JUDGE)
        form = await read_form(request)
        place, judged_entry = number(form, "after", 0), number(form, "entry", 0)
        reason, shows = form.get("reason", "").strip(), "shows" in form
        judged = problem = None
        try:
            if form.get("decision", "stay") not in ("stay", "skip"):
                judged = await self._decide(operator, form)
        except (DispatcherError, ProblemError) as error:
            problem = problem_of(error)
        if judged is not None or form.get("decision") == "skip":
            place = judged_entry
        asks = shows and operator.must_prove(_SHOW.operation, self._site.clock())
        unproven = False
        if asks and form.get("password"):
            asks = unproven = not await self._prove(request, operator, form)
        sitting = Sitting(
            reason if not asks else "",
            shows,
            place,
            judged=judged,
            problem=problem,
            asks=asks,
            unproven=unproven,
        )
        return await run_in_threadpool(self._next, request, operator, sitting, reason)

    async def _decide(
        self, operator: Operator, form: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Act on a decision: ``choose A``, or the name of one that needs no letter."""
        decision, _, letter = form["decision"].partition(" ")
        given = {
            "entry": form.get("field", ""),
            "decision": decision,
            "letter": letter,
            "value": form.get("value", "") if decision == "value" else "",
            "reason": form.get("reason", ""),
        }
        done = await self._acting.perform(operator, _JUDGE, given, form)
        found: dict[str, Any] = json.loads(bytes(done.body))
        return found

    def _next(
        self, request: Request, operator: Operator, sitting: Sitting, reason: str
    ) -> Response:
        view = View(self._site, self.screen, request, operator, {"reason": reason})
        if sitting.reason and sitting.shows and view.may(_SHOW.operation):
            sitting = self._reveal(view, sitting)
        return self._show(view, sitting)

    def _reveal(self, view: View, sitting: Sitting) -> Sitting:
        """Show what the answers to the next one say, with its line in the audit log."""
        found = next_conflict(view, sitting.after)
        if found is None:
            return sitting
        given = {"entry": found.id, "reason": sitting.reason}
        try:
            shown = self._acting.reveal(view.operator, _SHOW, given)
        except (DispatcherError, ProblemError) as error:
            return replace(sitting, reason="", problem=problem_of(error))
        crop, text = "", ""
        if shown.media.startswith("image/"):
            image = b64decode(shown.content)
            crop = self.crops.keep(view.operator.name, shown.media, image)
        else:
            text = b64decode(shown.content).decode("utf-8", "replace")
        said = {"answers": shown.answers, "text": text}
        return replace(sitting, shown=said, crop=crop)


def next_conflict(view: View, after: int) -> Disputed | None:
    """Return the conflict behind an entry."""
    return next(iter(list_conflicts(view.store, limit=1, after=after)), None)
