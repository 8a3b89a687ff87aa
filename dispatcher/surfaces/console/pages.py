"""The console's pages: read from the store, and written as escaped HTML."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from dispatcher.access import Operator
from dispatcher.access.users import Enrolment
from dispatcher.model import TRANSITIONS
from dispatcher.store import Clock
from dispatcher.surfaces.console.read_cache import Limit, ReadCache
from dispatcher.surfaces.picture import body
from dispatcher.surfaces.web import templates

SECOND: Final = 1_000_000
NAMES: Final = {
    "overview": ("/", "Overview"),
    "workers": ("/workers", "Workers"),
    "rules": ("/rules", "Rules"),
    "queue": ("/queue", "Queue"),
    "records": ("/records", "Records"),
    "ledger": ("/ledger", "Ledger"),
}
"""Addresses and titles of the pages, in the order of the navigation."""

BESIDE: Final = {"stranger": ("/rules/stranger", "What one stranger could know")}
"""Pages that another page links to."""

STANDINGS: Final = {
    "active": "active",
    "blocked": "blocked",
    "stopped": "below the accuracy floor",
    "left": "left of their own wish",
}
"""What the state of an account means."""


def ago(then: int | None, now: int) -> str:
    """How long ago a moment is: ``4 min ago``; ``never`` for None."""
    if then is None:
        return "never"
    seconds = max(0, now - then) // SECOND
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:,} {unit} ago"
    return f"{seconds} s ago"


def iso(moment: int) -> str:
    """A moment in UTC as ISO 8601, to the second."""
    at = datetime.fromtimestamp(moment // SECOND, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def band(share: float) -> str:
    """Name of the shade of a share of a limit; the number is shown beside it."""
    if share >= 1:
        return "over"
    return f"near{min(4, int(share * 5))}"


def _environment() -> Environment:
    made = templates("dispatcher.surfaces.console")
    made.filters["number"] = "{:,}".format
    made.filters["share"] = "{:.2f}".format
    made.filters["iso"] = iso
    made.filters["band"] = band
    made.filters["standing"] = STANDINGS.__getitem__
    made.globals["ago"] = ago
    return made


_ENVIRONMENT: Final = _environment()


class Pages:
    """Renders the pages."""

    def login(
        self, request: Request, *, status: int, refused: str = ""
    ) -> HTMLResponse:
        """Ask for name and password, or a link; ``refused`` says which was wrong."""
        response = self._html(request, "login.html", status, refused=refused)
        if status == 401:
            response.headers["www-authenticate"] = 'Link realm="console"'
        return response

    def enrol(
        self, request: Request, *, status: int, refused: bool = False
    ) -> HTMLResponse:
        """Ask for the link with which a password is chosen."""
        return self._html(request, "enrol.html", status, refused=refused)

    def choose(
        self, request: Request, offered: Enrolment, link: str, *, wrong: str, name: str
    ) -> HTMLResponse:
        """Let the holder of a link choose a password; ``wrong`` says what was."""
        status = 422 if wrong else 200
        return self._html(
            request,
            "choose.html",
            status,
            offered=offered,
            link=link,
            wrong=wrong,
            name=name,
        )

    def page(
        self,
        request: Request,
        name: str,
        operator: Operator,
        now: int,
        **context: object,
    ) -> HTMLResponse:
        """Show one of :data:`NAMES` or :data:`BESIDE`."""
        return self._html(
            request,
            f"{name}.html",
            200,
            name=name,
            title=(NAMES | BESIDE)[name][1],
            names=NAMES,
            operator=operator,
            now=now,
            **context,
        )

    def message(
        self, request: Request, status: int, heading: str, text: str
    ) -> HTMLResponse:
        """Say one thing, with the way back."""
        return self._html(request, "message.html", status, heading=heading, text=text)

    def _html(
        self, request: Request, template: str, status: int, **context: object
    ) -> HTMLResponse:
        context["nonce"] = request.state.nonce
        return HTMLResponse(_ENVIRONMENT.get_template(template).render(context), status)


PAGE: Final = 50
MESSAGES: Final = 100
SEALS: Final = 20
_LARGEST: Final = 2**62
_RECORD_STATES: Final = ("open", "conflict", "answered")


class Views:
    """One method a page; each runs in a thread."""

    def __init__(self, cache: ReadCache, pages: Pages, clock: Clock) -> None:
        self._cache = cache
        self._pages = pages
        self._clock = clock

    def overview(self, request: Request, operator: Operator) -> Response:
        """``GET /``."""
        found = self._cache.status()
        limits = self._cache.limits()
        return self._show(
            request,
            operator,
            "overview",
            found=found,
            limits=limits,
            verdict=verdict(limits),
            fields=found.fields,
            record_states=self._cache.record_states(),
        )

    def workers(self, request: Request, operator: Operator) -> Response:
        """``GET /workers``."""
        page = _number(request, "page", 1)
        if page < 1:
            raise HTTPException(400)
        asked = request.query_params.get("worker", "").strip()
        shown = self._cache.workers(page, PAGE, asked)
        return self._show(
            request,
            operator,
            "workers",
            workers=shown.workers,
            accounts=self._cache.accounts(),
            limits=self._cache.limits(),
            page=shown.page,
            pages=max(1, -(-shown.total // PAGE)),
            total=shown.total,
            asked=asked,
            found=shown.found,
        )

    def rules(self, request: Request, operator: Operator) -> Response:
        """``GET /rules``."""
        limits = self._cache.limits()
        return self._show(
            request,
            operator,
            "rules",
            limits=limits,
            verdict=verdict(limits),
            stranger=BESIDE["stranger"],
        )

    def stranger(self, request: Request, operator: Operator) -> Response:
        """``GET /rules/stranger``."""
        found = self._cache.picture()
        drawn = None if found is None else body(found[1])
        at = None if found is None else found[0]
        return self._show(request, operator, "stranger", drawn=drawn, at=at)

    def queue(self, request: Request, operator: Operator) -> Response:
        """``GET /queue``."""
        state = request.query_params.get("state", "dead")
        if state not in TRANSITIONS["outbox"]:
            raise HTTPException(400)
        messages = self._cache.messages(state, MESSAGES + 1)
        return self._show(
            request,
            operator,
            "queue",
            state=state,
            states=list(TRANSITIONS["outbox"]),
            waiting=self._cache.waiting(),
            messages=messages[:MESSAGES],
            more=len(messages) > MESSAGES,
        )

    def records(self, request: Request, operator: Operator) -> Response:
        """``GET /records``."""
        state = request.query_params.get("state") or None
        if state is not None and state not in _RECORD_STATES:
            raise HTTPException(400)
        after = _number(request, "after", 0)
        asked = request.query_params.get("record", "").strip()
        found = self._cache.record_id(asked) if asked else None
        if found is not None:  # the list begins with it
            state, after = None, found - 1
        rows = self._cache.records(after, state, PAGE + 1)
        return self._show(
            request,
            operator,
            "records",
            state=state,
            states=_RECORD_STATES,
            counts=self._cache.record_states(),
            records=rows[:PAGE],
            asked=asked,
            found=found,
            after=after,
            following=rows[PAGE - 1].id if len(rows) > PAGE else None,
        )

    def ledger(self, request: Request, operator: Operator) -> Response:
        """``GET /ledger``."""
        sealed = self._cache.ledger(SEALS)
        return self._show(request, operator, "ledger", sealed=sealed)

    def _show(
        self, request: Request, operator: Operator, name: str, **context: object
    ) -> Response:
        return self._pages.page(request, name, operator, self._clock(), **context)


def verdict(limits: list[Limit]) -> tuple[str, str]:
    """Say in a word and a sentence how near anybody is to any limit.

    Returns
    -------
    tuple of (str, str)
        ``OK``, ``WARN`` or ``FAIL``, and the sentence.
    """
    crossed = [limit for limit in limits if limit.crossed]
    if crossed:
        names = ", ".join(limit.name for limit in crossed)
        return "FAIL", f"A limit is reached: {names}."
    limited = [limit for limit in limits if limit.tau is not None]
    if not limited:
        return "WARN", "No limit is in force."
    nearest = limited[0]  # they come in this order
    if nearest.left is None and not nearest.share:
        return "OK", "No limit is crossed. Nobody is near any."
    worst = max(limited, key=lambda limit: limit.share or 0)
    said = ["No limit is crossed."]
    if nearest.left is not None:
        said.append(f"{fields_left(nearest.left, nearest.nearest)} of {nearest.name}.")
    if worst.share:
        word = "worker" if worst.at_worst == 1 else "workers"
        said.append(
            f"Worst share {worst.share:.2f} of {worst.name} "
            f"({worst.at_worst:,} {word})."
        )
    return "OK", " ".join(said)


def fields_left(left: int, units: int) -> str:
    """Say how many fields are left to the nearest refusal, and how often that is so."""
    fields = f"{left:,} {'field' if left == 1 else 'fields'}"
    times = "once" if units == 1 else f"{units:,} times"
    return f"Nearest: {fields} left to a refusal, {times},"


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise HTTPException(400)
    return min(int(text), _LARGEST)
