"""Answers: conflicts with their answers side by side, agreement, and what was refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from dispatcher.operations import answers, fields
from dispatcher.operations.answers import GivenAnswer
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View

REFUSED_SHOWN: Final = 1_000


def _record(row: Row) -> str:
    return f"/records/{row['record']}"


CONFLICTS: Final = Table(
    "conflicts",
    "Fields in conflict, with their answers side by side",
    (
        Column("id", "Field", "code", link=_record),
        Column("run", "Run"),
        Column("answers", "Answers that mean the same", wide=True),
        Column("shown", "Shown", "number"),
        Column("t", "Of at most", "number"),
        Column("open_tasks", "Open tasks", "number"),
    ),
    Empty(
        "Fields whose answers disagree, and that nobody else is asked.",
        "No field is in conflict.",
    ),
    choose=("id", "fields", ("unburn-fields",)),
)
REFUSED: Final = Table(
    "refused",
    "Refused answers",
    (
        Column("id", "Answer", "number"),
        Column("connector", "Connector"),
        Column("reason", "Why it was refused", wide=True),
        Column("at", "Came in", "time"),
    ),
    Empty(
        "Answers that came in and fit no task, until somebody has looked at them.",
        "None was refused, or all were looked at.",
    ),
    prefix="refused.",
    choose=("id", "ids", ("dismiss-answers", "reveal-answers")),
)


def show_answers(view: View) -> Response:
    """``GET /answers``."""
    tables = [REFUSED.rows(view.request, _refused(view))]
    if view.may("fields.list"):
        tables.append(
            CONFLICTS.part(
                view.request,
                lambda after, most: conflicts(view, after, most),
                place="entry",
            )
        )
    return view.show(*tables, conflict_count=view.cache.conflicts())


def conflicts(view: View, after: int, most: int) -> Sequence[Row]:
    """Fields in conflict behind one, with who gave which answer."""
    found = fields.list_fields(view.store, state="conflict", limit=most, after=after)
    given: dict[int, list[GivenAnswer]] = defaultdict(list)
    for one in answers.side_by_side(view.store, [one.entry_id for one in found.fields]):
        given[one.entry_id].append(one)
    return [
        {
            "entry": one.entry_id,
            "id": f"{found.pseudonyms[one.record_id]}.{one.field}",
            "record": found.pseudonyms[one.record_id],
            "run": one.run,
            "answers": _alike(given[one.entry_id]),
            "shown": one.showings,
            "t": one.limit,
            "open_tasks": one.live,
        }
        for one in found.fields
    ]


def _alike(given: Sequence[GivenAnswer]) -> str:
    """``A: a3, a7; B: a5``: who gave answers that mean the same, the most first."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for one in given:
        if one.answered_at is not None:
            by_name[one.alike or "not valid"].append(one.worker)
    ranked = sorted(by_name.items(), key=lambda one: (-len(one[1]), one[0]))
    return "; ".join(f"{name}: {', '.join(workers)}" for name, workers in ranked)


def _refused(view: View) -> list[Row]:
    found = answers.list_refused(view.store, limit=REFUSED_SHOWN)
    return [
        {"id": one.id, "connector": one.connector, "reason": one.reason, "at": one.at}
        for one in found
    ]
