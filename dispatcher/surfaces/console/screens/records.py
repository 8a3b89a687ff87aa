"""Records: their states, by pseudonym."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from dispatcher.surfaces.console.tables import Column, Empty, Table, number
from dispatcher.surfaces.console.view import View

STATES: Final = ("open", "conflict", "answered")
RECORDS: Final = Table(
    "records",
    "Records",
    (
        Column("record", "Record", "code"),
        Column("run", "Run"),
        Column("state", "State", "state"),
        Column("fields", "Fields", "number"),
        Column("answered", "Answered", "number"),
        Column("conflict", "Conflict", "number"),
    ),
    Empty(
        "Every record by its pseudonym, with how far its fields are.",
        "No record was loaded, or none is in this state.",
        command="dispatcher records load FILE",
    ),
)


def records(view: View) -> Response:
    """``GET /records``."""
    state = view.request.query_params.get("state") or None
    if state is not None:
        view.chosen("state", STATES, "")
    asked = view.request.query_params.get("record", "").strip()
    number(view.request, "after", 0)
    found = view.cache.record_id(asked) if asked else None

    def read(after: int, most: int) -> list[dict[str, object]]:
        if found is not None and not after:
            after = found - 1  # the list begins with it
        rows = view.cache.records(after, None if found else state, most)
        return [
            {"id": row.id, "record": row.pseudonym, "run": row.run, "state": row.state,
             "fields": row.fields, "answered": row.answered, "conflict": row.conflict}
            for row in rows
        ]  # fmt: skip

    rows = RECORDS.part(view.request, read, filtered=bool(state))
    return view.show(
        rows,
        state=state,
        states=STATES,
        counts=view.cache.record_states(),
        asked=asked,
        found=found,
    )
