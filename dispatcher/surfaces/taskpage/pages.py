"""The pages as HTML; every value is escaped, none is ever part of an attribute's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse

from connectors.base import Notice
from dispatcher.stages.serving import DAYS, OwnWork, Showing, asked, spread
from dispatcher.surfaces.web import templates

_ENVIRONMENT: Final = templates("dispatcher.surfaces.taskpage")


class Pages:
    """Renders the pages of one installation.

    Parameters
    ----------
    contact : str
        Whom workers may ask, in the operator's words; empty shows nothing.
    lease : float
        Seconds that a task is leased for.
    """

    def __init__(self, *, contact: str, lease: float) -> None:
        self._contact = contact
        self._lease = lease

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

    def notice(self, request: Request, connector: str, notice: Notice) -> HTMLResponse:
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
    ) -> HTMLResponse:
        """Offer *Start*, or *Continue* where a task is waiting.

        `stopped`: the worker is below the floor, and the page says so.
        """
        return self._page(
            request,
            "ready.html",
            form_token=form_token,
            continues=continues,
            saved=saved,
            stopped=stopped,
            minutes=in_words(self._lease),
        )

    def nothing(
        self, request: Request, form_token: str, way_out: str = ""
    ) -> HTMLResponse:
        """Say that there is nothing: the one page for every reason.

        Parameters
        ----------
        form_token : str
        way_out : str
            Link that reports to the market that the worker is done; empty for none.
        """
        return self._page(
            request, "nothing.html", form_token=form_token, way_out=way_out
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
        )

    def task(
        self,
        request: Request,
        form_token: str,
        showing: Showing,
        crop_id: str,
        error: str = "",
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
        """
        image = showing.media.startswith("image/")
        return self._page(
            request,
            "task.html",
            422 if error else 200,
            form_token=form_token,
            token=showing.token,
            draft_mark=showing.draft_mark,
            field=asked(showing.field, showing.draft),
            values=spread(showing.field, showing.draft),
            crop=crop_id if image else "",
            what="The part to read",
            of_test=showing.of_test,
            text="" if image else showing.text,
            left=showing.left,
            lease=round(self._lease),
            minutes=in_clock(showing.left),
            error=error[:1].upper() + error[1:] + "." if error else "",
        )

    def message(
        self, request: Request, status: int, heading: str, text: str
    ) -> HTMLResponse:
        """Say one thing, with the way back."""
        return self._page(request, "message.html", status, heading=heading, text=text)

    def _page(
        self, request: Request, template: str, status: int = 200, **context: object
    ) -> HTMLResponse:
        shared: Mapping[str, object] = {
            "nonce": request.state.nonce,
            "contact": self._contact,
        }
        html = _ENVIRONMENT.get_template(template).render({**shared, **context})
        return HTMLResponse(html, status)


def in_clock(seconds: int) -> str:
    """Minutes and seconds: ``9:05``."""
    return f"{seconds // 60}:{seconds % 60:02}"


def in_words(seconds: float) -> str:
    """A length of time for a sentence: ``10 minutes``."""
    if seconds < 90:
        return f"{round(seconds)} seconds"
    return f"{round(seconds / 60)} minutes"
