"""Answers: conflicts with their answers side by side, agreement, and what was refused."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from dispatcher.operations import answers
from dispatcher.operations.agreement import Agreement
from dispatcher.operations.answers import Disputed
from dispatcher.surfaces import charts
from dispatcher.surfaces.console.judging import Sitting, next_conflict
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table, number
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

CONFUSIONS: Final = Table(
    "confusions",
    "Who takes which declared value for which",
    (
        Column("worker", "Worker"),
        Column("field", "Field"),
        Column("answers", "Answers", "number"),
        Column("right", "Right", "percent"),
        Column("worst", "Most frequent error", wide=True),
        Column("share", "How often", "percent"),
    ),
    Empty(
        "Who takes which declared value for which, as far as the others tell.",
        "No field with declared values was answered twice yet.",
    ),
    prefix="confusion.",
)


def show_answers(view: View) -> Response:
    """``GET /answers``."""
    tables = [REFUSED.rows(view.request, _refused(view))]
    if view.may("answers.conflicts"):
        tables.append(
            CONFLICTS.part(
                view.request,
                lambda after, most: conflicts(view, after, most),
                place="entry",
            )
        )
    if not view.may("answers.agreement"):
        return view.show(*tables, conflict_count=view.cache.conflicts())
    found = view.cache.agreement()
    table = CONFUSIONS
    if view.may("workers.list"):
        first, *others = table.columns
        linked = replace(first, link=lambda row: f"/workers?q=worker:{row['worker']}")
        table = replace(table, columns=(linked, *others))
    return view.show(
        *tables,
        table.rows(view.request, _confused(found)),
        conflict_count=view.cache.conflicts(),
        reliability=charts.reliability(found),
        confusions_of_all=[charts.confusion(one) for one in found.of("")],
    )


def _confused(found: Agreement) -> list[Row]:
    """One row a worker and field: how often right, and the most frequent error."""
    return [
        {
            "worker": one.worker,
            "field": one.field,
            "answers": one.answers,
            "right": one.right,
            "worst": "" if one.worst is None else f"{one.worst[0]} as {one.worst[1]}",
            "share": None if one.worst is None else one.worst[2],
        }
        for one in found.confusions
        if one.worker
    ]


def conflicts(view: View, after: int, most: int) -> Sequence[Row]:
    """Fields in conflict behind one, with who gave which answer."""
    return [
        {
            "entry": one.entry_id,
            "id": one.id,
            "record": one.record,
            "run": one.run,
            "answers": "; ".join(map(_givers, one.choices)),
            "shown": one.showings,
            "t": one.limit,
            "open_tasks": one.open_tasks,
        }
        for one in answers.list_conflicts(view.store, limit=most, after=after)
    ]


def _givers(choice: answers.Choice) -> str:
    """``A: a3, a7``: who gave answers that mean the same."""
    return f"{choice.letter}: {', '.join(one.worker for one in choice.givers)}"


def judge(view: View) -> Response:
    """``GET /answers/judge``: the next conflict, whose values stay hidden."""
    return show_conflict(
        view, Sitting(after=number(view.request.query_params, "after", 0))
    )


def show_conflict(view: View, sitting: Sitting) -> Response:
    """Show the next conflict, as far as this sitting has come."""
    found: Disputed | None = next_conflict(view, sitting.after)
    return view.show(
        status=403 if sitting.unproven else (sitting.problem or {}).get("status", 200),
        sitting=sitting,
        conflict=found,
        left=view.cache.conflicts(),
        reason=view.form.get("reason", ""),
        key=secrets.token_urlsafe(18),
    )


def _refused(view: View) -> list[Row]:
    found = answers.list_refused(view.store, limit=REFUSED_SHOWN)
    return [
        {"id": one.id, "connector": one.connector, "reason": one.reason, "at": one.at}
        for one in found
    ]
