"""Fields: how far each is, which are burnt, and asking more workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from dispatcher.operations import fields
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View

STATES: Final = ("burnt", "open", "conflict", "answered")


def _record(row: Row) -> str:
    return f"/records/{row['record']}"


FIELDS: Final = Table(
    "fields",
    "Fields with their showings and answers",
    (
        Column("id", "Field", "code", link=_record),
        Column("run", "Run"),
        Column("state", "State", "state"),
        Column("shown", "Shown", "number"),
        Column("t", "Of at most", "number"),
        Column("answers", "Answers", "number"),
        Column("wanted", "Wanted", "number"),
        Column("open_tasks", "Open tasks", "number"),
    ),
    Empty("", ""),
)
_AGAIN: Final = ("id", "fields", ("unburn-fields",))
_MEANINGS: Final = {
    "burnt": "Fields that were shown t times and still lack answers.",
    "open": "Fields that wait for answers.",
    "conflict": "Fields whose answers disagree.",
    "answered": "Fields that are done.",
}


def list_fields(view: View) -> Response:
    """``GET /fields``."""
    counts = view.cache.field_states()
    first = next((one for one in STATES if counts.get(one)), "open")
    state = view.chosen("state", STATES, first)

    def read(after: int, most: int) -> Sequence[Row]:
        found = fields.list_fields(
            view.store,
            burnt=state == "burnt",
            state=None if state == "burnt" else state,
            limit=most,
            after=after,
            exact=False,
        )
        return [
            {
                "entry": one.entry_id,
                "id": f"{found.pseudonyms[one.record_id]}.{one.field}",
                "record": found.pseudonyms[one.record_id],
                "run": one.run,
                "state": "burnt" if one.burnt else one.state,
                "shown": one.showings,
                "t": one.limit,
                "answers": one.answers,
                "wanted": one.wanted,
                "open_tasks": one.live,
            }
            for one in found.fields
        ]

    table = replace(
        FIELDS,
        empty=Empty(_MEANINGS[state], f"No field is {state}."),
        choose=_AGAIN if state in ("burnt", "conflict") else None,
    )
    return view.show(
        table.part(view.request, read, place="entry"),
        state=state,
        states=STATES,
        counts=counts,
    )
