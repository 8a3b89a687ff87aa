"""The pages' content: from what was read to what is shown. No value of a field."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dispatcher.access import Operator
from dispatcher.model import TRANSITIONS
from dispatcher.store import Clock
from dispatcher.surfaces.console.looks import Limit, Looks
from dispatcher.surfaces.console.pages import Pages

PAGE: Final = 50
MESSAGES: Final = 100
SEALS: Final = 20
_LARGEST: Final = 2**62
_RECORD_STATES: Final = ("open", "conflict", "answered")


class Views:
    """One method a page; each runs in a thread."""

    def __init__(self, looks: Looks, pages: Pages, clock: Clock) -> None:
        self._looks = looks
        self._pages = pages
        self._clock = clock

    def overview(self, request: Request, operator: Operator) -> Response:
        """``GET /``."""
        found = self._looks.status()
        limits = self._looks.limits()
        fields = {**found["results"], "open": 0}  # without an answer there is no row
        fields["open"] = max(0, found["counts"]["entries"] - sum(fields.values()))
        return self._show(
            request,
            operator,
            "overview",
            found=found,
            limits=limits,
            verdict=verdict(limits),
            fields=fields,
            record_states=self._looks.record_states(),
        )

    def workers(self, request: Request, operator: Operator) -> Response:
        """``GET /workers``."""
        page = _number(request, "page", 1)
        if page < 1:
            raise HTTPException(400)
        workers, total = self._looks.workers(page, PAGE)
        pages = max(1, -(-total // PAGE))
        return self._show(
            request,
            operator,
            "workers",
            workers=workers,
            accounts=self._looks.accounts(),
            limits=self._looks.limits(),
            page=page,
            pages=pages,
            total=total,
        )

    def properties(self, request: Request, operator: Operator) -> Response:
        """``GET /properties``."""
        limits = self._looks.limits()
        return self._show(
            request, operator, "properties", limits=limits, verdict=verdict(limits)
        )

    def queue(self, request: Request, operator: Operator) -> Response:
        """``GET /queue``."""
        state = request.query_params.get("state", "dead")
        if state not in TRANSITIONS["outbox"]:
            raise HTTPException(400)
        messages = self._looks.messages(state, MESSAGES + 1)
        return self._show(
            request,
            operator,
            "queue",
            state=state,
            states=list(TRANSITIONS["outbox"]),
            waiting=self._looks.waiting(),
            messages=messages[:MESSAGES],
            more=len(messages) > MESSAGES,
        )

    def records(self, request: Request, operator: Operator) -> Response:
        """``GET /records``."""
        state = request.query_params.get("state") or None
        if state is not None and state not in _RECORD_STATES:
            raise HTTPException(400)
        after = _number(request, "after", 0)
        rows = self._looks.records(after, state, PAGE + 1)
        return self._show(
            request,
            operator,
            "records",
            state=state,
            states=_RECORD_STATES,
            counts=self._looks.record_states(),
            records=rows[:PAGE],
            after=after,
            following=rows[PAGE - 1].id if len(rows) > PAGE else None,
        )

    def ledger(self, request: Request, operator: Operator) -> Response:
        """``GET /ledger``."""
        sealed = self._looks.ledger(SEALS)
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
    if not nearest.share:
        return "OK", "No limit is crossed. Nobody is near any."
    word = "worker" if nearest.at_worst == 1 else "workers"
    return (
        "OK",
        f"No limit is crossed. Worst share {nearest.share:.2f} of {nearest.name} "
        f"({nearest.at_worst:,} {word}).",
    )


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise HTTPException(400)
    return min(int(text), _LARGEST)
