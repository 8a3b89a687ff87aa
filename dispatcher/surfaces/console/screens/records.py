"""Records: their states, by pseudonym; and the lineage of one."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dispatcher.operations import records as operation
from dispatcher.operations.answers import side_by_side
from dispatcher.surfaces.console.tables import Column, Empty, Table, number
from dispatcher.surfaces.console.view import View

STATES: Final = ("open", "conflict", "answered")
RECORDS: Final = Table(
    "records",
    "Records",
    (
        Column(
            "record", "Record", "code", link=lambda row: f"/records/{row['record']}"
        ),
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
    number(view.request.query_params, "after", 0)
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


RECORD_FIELDS: Final = Table(
    "record-fields",
    "Fields of this record",
    (
        Column(
            "field",
            "Field",
            link=lambda row: f"/policy/playground?{urlencode({'field': row['id']})}",
        ),
        Column("state", "State", "state"),
        Column("tasks", "Tasks", "number"),
        Column("live", "Open tasks", "number"),
        Column("answers", "Answers", "number"),
        Column("held_back", "Held back", wide=True),
        Column("not_valid", "Not valid", wide=True),
    ),
    Empty("The fields of this record.", "None is asked."),
    choose=("id", "fields", ("unburn-fields",)),
)
LINEAGE: Final = Table(
    "lineage",
    "Tasks of this record, with whose they are and what came of them",
    (
        Column("field", "Field"),
        Column("alike", "Answer"),
        Column("worker", "Worker"),
        Column("connector", "Connector"),
        Column("task", "Task", "number"),
        Column("state", "State", "state"),
        Column("shown_at", "Booked", "time"),
        Column("answered_at", "Answered", "time"),
    ),
    Empty("Every task that a field of this record went out by.", "None was made yet."),
    prefix="task.",
)
_LINKED: Final = replace(
    LINEAGE,
    columns=tuple(
        replace(one, link=lambda row: f"/workers?q=worker:{row['worker']}")
        if one.key == "worker"
        else one
        for one in LINEAGE.columns
    ),
)


def show_record(view: View) -> Response:
    """``GET /records/PSEUDONYM``: its fields, and whose answers they come from."""
    name = view.request.path_params["record"]
    if view.cache.record_id(name) is None:  # a key is not looked for by an address
        raise HTTPException(404)
    _, rows = operation.show(view.store, name)
    fields = [
        {"id": f"{name}.{row[0]}"} | dict(zip(operation.FIELDS, row, strict=True))
        for row in rows
    ]
    entries = view.cache.entries_of(name, [str(one["field"]) for one in fields])
    tasks = [
        asdict(one) | {"field": entries[one.entry_id]}
        for one in side_by_side(view.store, list(entries))
    ]
    counts: dict[str, int] = {}
    for one in fields:
        counts[str(one["state"])] = counts.get(str(one["state"]), 0) + 1
    table = RECORD_FIELDS if view.may("policy.ask") else RECORD_FIELDS.unlinked()
    return view.show(
        table.rows(view.request, fields),
        (_LINKED if view.may("workers.list") else LINEAGE).rows(view.request, tasks),
        title=f"Record {name}",
        record=name,
        counts=counts,
    )
