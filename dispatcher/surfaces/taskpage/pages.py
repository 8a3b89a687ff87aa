"""The pages as HTML; every value is escaped, none is ever part of an attribute's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse

from connectors.base import WorkNotice
from dispatcher.stages.serving import (
    DAYS,
    KINDS,
    OTHER,
    AskedField,
    Card,
    OwnWork,
    Showing,
    WorkSummary,
    asked,
    compose,
    spread,
)
from dispatcher.surfaces.taskpage.languages import Language, language_for, languages
from dispatcher.surfaces.taskpage.practice import lessons
from dispatcher.surfaces.web import static_url, templates

_PACKAGE: Final = "dispatcher.surfaces.taskpage"
_ENVIRONMENT: Final = templates(_PACKAGE)


SCRIPT: Final = {
    "saved": "Saved {time}",
    "unsaved": "Not saved: {reason}",
    "unsent": "Not sent: {reason} What stands here is kept: submit again.",
    "401": "you are signed out. Open your link in another tab of this browser, then go on here.",
    "409": "its time is over (you may still submit), or it was finished in another window.",
    "412": "another window saved something else for this task. Submit here to use what stands here.",
    "unable": "the page cannot take it right now.",
    "retrying": "no connection. Trying again.",
    "unconnected": "no connection.",
    "stopped": "stopped; it may have arrived.",
    "sending": "Sending… Esc stops it.",
    "offline": "You are offline. What you type stays here, and is saved when the connection is back.",
    "lost": "What you typed would be lost.",
    "ask": "“{button}” again, or Enter, does it; any other key goes on.",
    "over": "The time is over. You may still submit.",
    "low": "The time for this task is nearly over. “Need more time” gives you more.",
    "more": "You have more time.",
    "none": "No more time could be given. You may still submit.",
    "mark": "Mark a passage in the text first.",
}
"""What the script of the task page says."""


STATUSES: Final = {
    400: ("That did not work", "The form was not complete. Go back and try again."),
    403: ("That did not work", "The form came from another page. Open this page anew."),
    404: ("Not here", "There is no such page."),
    405: ("Not here", "There is no such page."),
    413: ("Too much", "That is more than an answer can hold."),
    429: ("One moment", "That was very quick. Wait a few seconds, then go on."),
}
UNABLE: Final = (
    "One moment",
    "The work cannot be reached right now. Nothing was lost: try again in a moment.",
)
SHARED: Final = (
    "Another account works in this browser",
    "Each person works with one account, their own. If this is a shared computer, ask the "
    "person who invited you.",
)
LEFT: Final = (
    "You have left",
    "Nothing is shown to you any more. Thank you for your work.",
)
KNOWN: Final = "Nothing of this person will be shown to you again."
TAKEN_BACK: Final = "You have taken your answer back. Change it, and submit it again."
TOO_LATE: Final = "That answer cannot be taken back any more."
PRACTISED: Final = "That was the practice round. Nothing of it was counted."
SAYINGS: Final = (
    *(text for pair in STATUSES.values() for text in pair),
    *(*UNABLE, *SHARED, *LEFT, KNOWN, TAKEN_BACK, TOO_LATE, PRACTISED),
)
"""All that the routes say."""


@dataclass(frozen=True)
class Undo:
    """An answer that can be taken back: its task's token, for so many seconds."""

    token: str
    left: float


ANY: Final = "any"
"""What a form says in place of a kind of work: whichever comes."""


@dataclass(frozen=True)
class OfferedKind:
    """A kind of work to choose, under the name that it has in this session."""

    name: str
    card: Card


@dataclass(frozen=True)
class ChosenKind:
    """The kind that a task was chosen by; None: none was.

    ``again``: the worker asks to choose once more after this task.
    """

    kind: str | None
    again: bool


class TaskPages:
    """Renders the pages of one installation.

    Parameters
    ----------
    contact : str
        Whom workers may ask, in the operator's words; empty shows nothing.
    lease : float
        Seconds that a task is leased for.
    undo : float
        Seconds for which an answer can be taken back.
    language_cookie : str
        Cookie in which a browser keeps a chosen language.
    """

    def __init__(
        self,
        *,
        contact: str,
        lease: float,
        undo: float = 10.0,
        language_cookie: str = "task-language",
    ) -> None:
        self._contact = contact
        self._lease = lease
        self._undo = undo
        self._language_cookie = language_cookie

    def language(self, request: Request) -> Language:
        """Language of a request: the account's, the browser's choice, or what it accepts.

        That of the account is ``request.state.language``.
        """
        chosen = getattr(request.state, "language", None)
        return language_for(
            chosen or request.cookies.get(self._language_cookie),
            request.headers.get("accept-language", ""),
        )

    def arrive(
        self, request: Request, form_token: str, *, refused: bool, state: str = ""
    ) -> HTMLResponse:
        """Ask for the invitation; `state`: that of an account that is out."""
        status = 403 if refused else 200
        return self._page(
            request,
            "arrive.html",
            status,
            form_token=form_token,
            refused=refused,
            state=state,
        )

    def whose(
        self, request: Request, form_token: str, signed_in: str, arrived: str
    ) -> HTMLResponse:
        """Ask who goes on, of two workers by the names of their accounts."""
        return self._page(
            request,
            "whose.html",
            form_token=form_token,
            signed_in=signed_in,
            arrived=arrived,
        )

    def same(
        self, request: Request, form_token: str, arrived: str, identified: str
    ) -> HTMLResponse:
        """Ask whether the other accounts of this browser are the same person's."""
        return self._page(
            request,
            "same.html",
            form_token=form_token,
            arrived=arrived,
            identified=identified,
        )

    def bring(
        self,
        request: Request,
        form_token: str,
        connector: str,
        brought: Mapping[str, str],
        *,
        waits: bool = False,
    ) -> HTMLResponse:
        """Ask a worker whom a market sent to go on.

        Parameters
        ----------
        form_token, connector : str
        brought : Mapping[str, str]
            What the market sent along.
        waits : bool
            Whether the market has yet to confirm it.
        """
        return self._page(
            request,
            "bring.html",
            form_token=form_token,
            connector=connector,
            brought=brought,
            waits=waits,
        )

    def notice(
        self, request: Request, connector: str, notice: WorkNotice
    ) -> HTMLResponse:
        """Show, in a market's frame, the way to this page and back."""
        return self._page(
            request, "notice.html", connector=connector, notice=notice,
            query=request.url.query,
        )  # fmt: skip

    def ready(
        self,
        request: Request,
        form_token: str,
        *,
        continues: bool,
        saved: str,
        stopped: bool,
        undo: Undo | None = None,
        offers: Sequence[OfferedKind] = (),
    ) -> HTMLResponse:
        """Offer *Start*, or *Continue* where a task is waiting, and kinds to choose.

        `stopped`: the worker is below the floor, and the page says so.
        """
        return self._page(
            request,
            "ready.html",
            form_token=form_token,
            continues=continues,
            saved=saved,
            stopped=stopped,
            undo=undo,
            cards=self._cards(request, offers),
            kind=ANY,
            time_for_a_task=_time_for_a_task(self.language(request), self._lease),
        )

    def nothing(
        self,
        request: Request,
        form_token: str,
        way_out: str = "",
        undo: Undo | None = None,
        *,
        offers: Sequence[OfferedKind] = (),
        kind: str = ANY,
    ) -> HTMLResponse:
        """Say that there is nothing: the one page for every reason.

        Parameters
        ----------
        form_token : str
        way_out : str
            Link that reports to the market that the worker is done; empty for none.
        undo : Undo, optional
        offers : sequence of OfferedKind
            Kinds to choose, whatever was asked for.
        kind : str
            What was asked for.
        """
        return self._page(
            request,
            "nothing.html",
            form_token=form_token,
            way_out=way_out,
            undo=undo,
            cards=self._cards(request, offers),
            kind=kind,
        )

    def me(
        self, request: Request, form_token: str, work: OwnWork, *, unsure: bool
    ) -> HTMLResponse:
        """Show a worker their own work; `unsure`: leaving was asked without the tick."""
        return self._page(
            request,
            "me.html",
            422 if unsure else 200,
            form_token=form_token,
            work=work,
            days=DAYS,
            unsure=unsure,
            asked_question=lambda field: (
                asked(field, say=self.language(request).say).question
            ),
        )

    def task(
        self,
        request: Request,
        form_token: str,
        showing: Showing,
        crop_id: str,
        error: str = "",
        *,
        note: str = "",
        undo: Undo | None = None,
        pace: WorkSummary | None = None,
        choice: ChosenKind | None = None,
    ) -> HTMLResponse:
        """Show the task.

        Parameters
        ----------
        form_token : str
        showing : Showing
            Its exposure is durable.
        crop_id : str
            Opaque name of the image.
        error : str
            What was wrong with the answer given, without repeating it.
        note : str
            What happened to it before.
        undo : Undo, optional
            Of the answer before.
        pace : WorkSummary, optional
            What the worker did today, and what this task brings.
        choice : ChosenKind, optional
            Where workers choose.
        """
        language = self.language(request)
        image = showing.words is None
        return self._page(
            request,
            "task.html",
            422 if error else 200,
            form_token=form_token,
            token=showing.token,
            action=f"/task/{showing.token}/answer",
            draft_mark=showing.draft_mark,
            field=asked(showing.field, showing.draft, language.say),
            values=spread(showing.field, showing.draft),
            image=f"/crop/{crop_id}" if image else "",
            marking=not image,
            of_test=showing.of_test,
            text="" if image else showing.text,
            left=showing.left,
            lease=round(self._lease),
            minutes=in_clock(showing.left),
            error=as_sentence(language.say(error)),
            note=note,
            undo=undo,
            pace=_facts(language, pace),
            choice=choice,
            practice=None,
        )

    def practice(
        self,
        request: Request,
        form_token: str,
        step: int,
        form: Mapping[str, str] | None = None,
    ) -> HTMLResponse | None:
        """Show a part of the practice round, or what is wrong with the answer to it.

        Parameters
        ----------
        form_token : str
        step : int
            From 1.
        form : Mapping[str, str], optional
            An answer to the step.

        Returns
        -------
        HTMLResponse or None
            None after the right answer to the last step, and for steps there are not.
        """
        language = self.language(request)
        every = lessons(language.say)
        error = ""
        if form is not None and 1 <= step <= len(every):
            error = every[step - 1].fault(form, language.say)
            step += not error
        if not 1 <= step <= len(every):
            return None
        lesson = every[step - 1]
        typed = compose(lesson.field, form) if error and form is not None else ""
        return self._page(
            request,
            "task.html",
            422 if error else 200,
            form_token=form_token,
            token=f"practice-{step}",
            action=f"/practice/{step}",
            field=replace(asked(lesson.field, say=language.say), lang=language.code),
            values=spread(lesson.field, typed),
            image=static_url(_PACKAGE, lesson.shown) if lesson.image else "",
            marking=not lesson.image,
            of_test=False,
            text=lesson.shown,
            error=as_sentence(error),
            practice={
                "step": step,
                "steps": len(every),
                "lesson": lesson.lesson,
                "by_keys": lesson.keys,
            },
        )

    def message(
        self, request: Request, status: int, heading: str, text: str
    ) -> HTMLResponse:
        """Say one thing, with the way back."""
        say = self.language(request).say
        return self._page(
            request, "message.html", status, heading=say(heading), text=say(text)
        )

    def _cards(
        self, request: Request, offers: Sequence[OfferedKind]
    ) -> list[tuple[str, AskedField, list[str]]]:
        """Name, field and facts of each kind that is offered."""
        language = self.language(request)
        return [
            (
                one.name,
                asked(one.card.field, say=language.say),
                _facts_of_kind(language, one.card),
            )
            for one in offers
        ]

    def _page(
        self, request: Request, template: str, status: int = 200, **context: object
    ) -> HTMLResponse:
        language = self.language(request)
        shared: Mapping[str, object] = {
            "nonce": request.state.nonce,
            "contact": self._contact,
            "language": language,
            "languages": list(languages().values()),
            "say": language.say,
            "words": {key: language.say(text) for key, text in SCRIPT.items()},
            "undo": None,
            "note": "",
            "pace": (),
            "choice": None,
            "undo_seconds": round(self._undo),
        }
        html = _ENVIRONMENT.get_template(template).render({**shared, **context})
        return HTMLResponse(html, status, {"content-language": language.code})


def _facts(language: Language, pace: WorkSummary | None) -> list[str]:
    """What a worker did today, what this task earns, and how long such a one takes."""
    if pace is None:
        return []
    told = []
    if pace.today:
        told.append(
            language.count("{number} task today", "{number} tasks today", pace.today)
        )
    if pace.pay:
        told.append(language.say("{amount} for this one", amount=pace.pay))
    return told + _duration(language, pace.seconds)


def _facts_of_kind(language: Language, card: Card) -> list[str]:
    """What a kind of work is called, what one of it earns, and how long one takes."""
    told = [language.say(KINDS.get(card.field.ask or "", OTHER))]
    if len(card.pay) == 1:
        told.append(language.say("{amount} for one", amount=card.pay[0]))
    elif card.pay:
        least, most = card.pay
        told.append(language.say("{least} to {most} for one", least=least, most=most))
    return told + _duration(language, card.seconds)


def _duration(language: Language, seconds: float | None) -> list[str]:
    """About how long a task takes; nothing where it is not known."""
    if seconds is None:
        return []
    seconds = max(1.0, seconds)
    if seconds < 90:
        return [
            language.count(
                "about {number} second", "about {number} seconds", round(seconds)
            )
        ]
    return [
        language.count(
            "about {number} minute", "about {number} minutes", round(seconds / 60)
        )
    ]


def in_clock(seconds: int) -> str:
    """Minutes and seconds: ``9:05``."""
    return f"{seconds // 60}:{seconds % 60:02}"


def as_sentence(reason: str) -> str:
    """Write a reason as a sentence; it may end as one already."""
    if not reason:
        return ""
    return reason[0].upper() + reason[1:] + ("" if reason[-1] in ".?!" else ".")


def _time_for_a_task(language: Language, seconds: float) -> str:
    if seconds < 90:
        return language.count(
            "You have about {number} second for each task, and can ask for more.",
            "You have about {number} seconds for each task, and can ask for more.",
            round(seconds),
        )
    return language.count(
        "You have about {number} minute for each task, and can ask for more.",
        "You have about {number} minutes for each task, and can ask for more.",
        round(seconds / 60),
    )
