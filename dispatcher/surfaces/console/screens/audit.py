"""Audit: what the ledger proves, when that was checked last, and who did what."""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dispatcher.core.keys import is_pseudonym
from dispatcher.operations import ledger, people, subjects
from dispatcher.surfaces.console.screens.ledger import SEALS, seal_row
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View

LONGEST: Final = 200
"""Characters of a filter."""
SEALS_SHOWN: Final = 20
_NEWEST: Final = 2**63 - 1
ACTS: Final = Table(
    "acts",
    "Who did what, the newest first",
    (
        Column("seq", "Line", "number"),
        Column("at", "When", "time"),
        Column("actor", "Who"),
        Column("surface", "Through"),
        Column("operation", "What", "code"),
        Column("target", "To what", wide=True),
        Column("reason", "Why", wide=True),
        Column("outcome", "Outcome", "state"),
    ),
    Empty(
        "Every act of a person, a token or a command: who, what, to what, and why.",
        "Nobody has done anything yet.",
    ),
)
EVENTS: Final = Table(
    "events",
    "What happened, also by workers and the daemon, the newest first",
    (
        Column("id", "Line", "number"),
        Column("at", "When", "time"),
        Column("actor", "Who"),
        Column("action", "What", "code"),
        Column("detail", "Ids and numbers", wide=True),
    ),
    Empty("What happened, in order.", "Nothing has happened yet."),
)


def audit(view: View) -> Response:
    """``GET /audit``."""
    sealed = view.cache.ledger(SEALS_SHOWN)
    tables = [SEALS.rows(view.request, [seal_row(one) for one in sealed.seals])]
    actor, operation = _word(view, "actor"), _word(view, "operation")
    if view.may("audit.log"):

        def read(after: int, most: int) -> list[Row]:
            found = people.audit_lines(
                view.store,
                actor=actor,
                operation=operation,
                before=after or _NEWEST,
                limit=most,
            )
            return [vars(one) for one in found]

        filtered = bool(actor or operation)
        tables.append(ACTS.part(view.request, read, place="seq", filtered=filtered))
    return view.show(
        *tables,
        sealed=sealed,
        actor=actor or "",
        operation=operation or "",
        checked=view.site.shared.requests.latest(view.operator.name, "verify_ledger"),
    )


def events(view: View) -> Response:
    """``GET /audit/events``."""
    actor, action = _word(view, "actor"), _word(view, "action")

    def read(after: int, most: int) -> list[Row]:
        found = ledger.list_events(
            view.store,
            actor=actor,
            action=action,
            limit=most,
            before=after or _NEWEST,
        )
        return [{**vars(one), "detail": _told(one.detail)} for one in found]

    return view.show(
        EVENTS.part(view.request, read, filtered=bool(actor or action)),
        actor=actor or "",
        action=action or "",
    )


def _told(detail: Any) -> str:  # noqa: ANN401 - what JSON can be
    return ", ".join(f"{name} {value}" for name, value in detail.items())


def _word(view: View, name: str) -> str | None:
    """Read a filter of the address; None: it has none."""
    text = view.request.query_params.get(name, "").strip()
    if len(text) > LONGEST:
        raise HTTPException(400)
    return text or None


def show_person(view: View) -> Response:
    """``GET /audit/people/PSEUDONYM``: how much there is of them, and what to do."""
    name = view.request.path_params["subject"]
    if not is_pseudonym(name):  # a key is not looked for by an address
        raise HTTPException(404)
    found = subjects.scope(view.store, name)
    person = {
        "id": found.id,
        "showings": found.showings.lines,
        "adversaries": found.showings.adversaries,
        "counts": found.counts,
        "open_tasks": found.open_tasks,
    }
    return view.show(title=f"Person {found.id}", person=person)
