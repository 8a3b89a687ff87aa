"""The pages as HTML; everything is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dispatcher.access import Operator

SECOND: Final = 1_000_000
NAMES: Final = {
    "overview": ("/", "Overview"),
    "workers": ("/workers", "Workers"),
    "properties": ("/properties", "Properties"),
    "queue": ("/queue", "Queue"),
    "records": ("/records", "Records"),
    "ledger": ("/ledger", "Ledger"),
}
"""Addresses and titles of the pages, in the order of the navigation."""

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
    """Name of the shade of a share of a limit; the number stands beside it."""
    if share >= 1:
        return "over"
    return f"near{min(4, int(share * 5))}"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("dispatcher.surfaces.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
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
        self, request: Request, *, status: int, refused: bool = False
    ) -> HTMLResponse:
        """Ask for a sign-in link."""
        response = self._html(request, "login.html", status, refused=refused)
        if status == 401:
            response.headers["www-authenticate"] = 'Link realm="console"'
        return response

    def page(
        self,
        request: Request,
        name: str,
        operator: Operator,
        now: int,
        **context: object,
    ) -> HTMLResponse:
        """Show one of :data:`NAMES`."""
        return self._html(
            request,
            f"{name}.html",
            200,
            name=name,
            title=NAMES[name][1],
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
