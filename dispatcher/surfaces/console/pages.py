"""Templates of the console: what they are given to write, and escaped HTML of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dispatcher.access.users import Enrolment
from dispatcher.surfaces.api.problems import document
from dispatcher.surfaces.web import templates

SECOND: Final = 1_000_000

STANDINGS: Final = {
    "active": "active",
    "blocked": "blocked",
    "stopped": "below the accuracy floor",
    "left": "left of their own wish",
}
"""What the state of an account means."""

TONES: Final[Mapping[str, str]] = {
    state: tone
    for tone, states in {
        "good": (
            "OK", "active", "answered", "done", "paid", "sent", "applied", "up", "yes",
            "verified", "in force", "enabled", "passed", "accepted", "completed", "VERIFIED",
            "loaded", "allow", "valid", "closed",
        ),
        "busy": (
            "ready", "leased", "shown", "published", "running", "open", "draft", "due",
            "planned", "waiting", "reserved", "allowed",
        ),
        "warn": (
            "WARN", "stopped", "warning", "more", "removed", "conflict", "paused", "held", "unknown", "burnt",
            "degraded", "interrupted", "near", "expired", "disabled", "withdrawn", "invited", "half-open",
        ),
        "bad": (
            "FAIL", "dead", "blocked", "failed", "refused", "down", "crossed",
            "invalid", "lost", "error", "denied", "broken",
        ),
    }.items()
    for state in states
}  # fmt: skip
"""Colour and shape of each state; others are quiet. The word is always there."""


def ago(then: int | None, now: int) -> str:
    """How long ago a moment is: ``4 min ago``; ``never`` for None."""
    if then is None:
        return "never"
    seconds = max(0, now - then) // SECOND
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:,} {unit} ago"
    return f"{seconds} s ago" if seconds else "now"


def iso(moment: int) -> str:
    """A moment in UTC as ISO 8601, to the second."""
    at = datetime.fromtimestamp(moment // SECOND, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def band(share: float) -> str:
    """Name of the shade of a share of a limit; the number is shown beside it."""
    if share >= 1:
        return "over"
    return f"near{min(4, int(share * 5))}"


def percent(share: float) -> str:
    """Write a share of a whole; what is little is not written as nothing."""
    points = 100 * share
    return (
        f"{points:.0f} %" if points in (0, 100) else f"{points:.{1 + (points < 1)}f} %"
    )


def figure(value: float) -> str:
    """Write a number as it is, and a share to two places."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def label(name: str) -> str:
    """Write the name of a member of a document as words: ``Kept back``."""
    words = name.replace("_", " ").replace(".", " ").replace("-", " ")
    return words[:1].upper() + words[1:]


def shape(value: object) -> str:
    """What a value of a document is, for how it is written."""
    if isinstance(value, Mapping):
        return "members"
    if isinstance(value, (list, tuple)):
        return "rows" if any(isinstance(one, Mapping) for one in value) else "list"
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number"
    return "text"


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Members of the rows of a document, in order of their first use."""
    return list(dict.fromkeys(key for row in rows for key in row))


def _environment() -> Environment:
    made = templates("dispatcher.surfaces.console")
    made.filters["number"] = "{:,}".format
    made.filters["share"] = "{:.2f}".format
    made.filters["percent"] = percent
    made.filters["figure"] = figure
    made.filters["iso"] = iso
    made.filters["band"] = band
    made.filters["label"] = label
    made.filters["shape"] = shape
    made.filters["columns"] = columns_of
    made.filters["standing"] = lambda state: STANDINGS.get(state, state)
    made.filters["tone"] = lambda state: TONES.get(state, "quiet")
    made.globals["ago"] = ago
    return made


_ENVIRONMENT: Final = _environment()


def problem_of(error: Exception) -> dict[str, Any]:
    """Describe an error: status, code, title (what), why and fix."""
    return {"why": "", **(found := document(error)), "title": found["detail"]}


@dataclass(frozen=True)
class Pages:
    """Renders the pages.

    Attributes
    ----------
    provider : str
        What the OpenID provider is called; empty: there is none.
    passwords : bool
        Whether passwords are taken.
    """

    provider: str = ""
    passwords: bool = True

    def login(
        self, request: Request, *, status: int, refused: str = ""
    ) -> HTMLResponse:
        """Ask for name and password, or a link; ``refused`` says which was wrong."""
        response = self.page(request, "login.html", status, refused=refused)
        if status == 401:
            response.headers["www-authenticate"] = 'Link realm="console"'
        return response

    def enrol(
        self, request: Request, *, status: int, refused: bool = False
    ) -> HTMLResponse:
        """Ask for the link with which a password is chosen."""
        return self.page(request, "enrol.html", status, refused=refused)

    def choose(
        self, request: Request, offered: Enrolment, link: str, *, wrong: str, name: str
    ) -> HTMLResponse:
        """Let the holder of a link choose a password; ``wrong`` says what was."""
        status = 422 if wrong else 200
        return self.page(
            request,
            "choose.html",
            status,
            offered=offered,
            link=link,
            wrong=wrong,
            name=name,
        )

    def onward(
        self, request: Request, address: str, heading: str, text: str
    ) -> HTMLResponse:
        """Lead on to an address, from a page of ours.

        A redirect would not do: to the provider it is none that a form may lead to
        (CSP), and back from there it brings no cookie that is for this site alone.
        """
        return self.page(
            request, "onward.html", 200, address=address, heading=heading, text=text
        )

    def message(
        self, request: Request, status: int, heading: str, text: str
    ) -> HTMLResponse:
        """Say one thing, with the way back."""
        return self.page(request, "message.html", status, heading=heading, text=text)

    def page(
        self, request: Request, template: str, status: int, **context: object
    ) -> HTMLResponse:
        """Render a template."""
        context |= {
            "nonce": request.state.nonce,
            "provider": self.provider,
            "passwords": self.passwords,
        }
        return HTMLResponse(_ENVIRONMENT.get_template(template).render(context), status)
