"""Connectors: whether each works, since when it does not, and what it has to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from starlette.responses import Response

from dispatcher.operations import connectors, figures, runs
from dispatcher.surfaces.console.screens.runs import budget_terms
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View


def _queue(row: Row) -> str:
    return f"/queue?state=ready&connector={row['name']}"


CONNECTORS: Final = Table(
    "connectors",
    "Connectors and their state",
    (
        Column("name", "Connector"),
        Column("state", "State", "state"),
        Column("since", "Since", "time"),
        Column("why", "Why", wide=True),
        Column("circuit", "Circuit", "state"),
        Column("retry_at", "Next try", "time"),
        Column("succeeded_in", "Last success", "time"),
        Column("balance", "Balance"),
    ),
    Empty(
        "Every market and page that tasks go out by.",
        "None is set up:",
        command="dispatcher connectors add NAME --kind KIND",
    ),
    acts=(
        ("test-connector", lambda row: {"connector": row["name"]}),
        (
            "set-secret",
            lambda row: {"connector": row["name"]} if row["secret"] else None,
        ),
        (
            "disable-connector",
            lambda row: (
                {"connector": row["name"]} if row["state"] != "disabled" else None
            ),
        ),
        (
            "enable-connector",
            lambda row: (
                {"connector": row["name"]} if row["state"] == "disabled" else None
            ),
        ),
    ),
)


WORK: Final = Table(
    "work",
    "What each connector has to do",
    (
        Column("name", "Connector"),
        Column("kind", "Kind"),
        Column("open", "Open tasks", "number"),
        Column("answered", "Answered", "number"),
        Column("in_doubt", "In doubt", "number"),
        Column("messages", "Messages", "number", link=_queue),
        Column("calls", "Calls a day", "number"),
    ),
    Empty("What each connector has to do.", "None is set up."),
    prefix="work.",
)
BUDGETS: Final = Table(
    "budgets",
    "Budgets of runs, which all connectors spend from",
    (
        Column("run", "Run", link=lambda row: f"/runs/{row['run']}"),
        Column("used_up", "State"),
        Column("cap", "Budget"),
        Column("room", "Left"),
        Column("promised", "Promised"),
        Column("paid", "Paid"),
        Column("per_day", "A day, at most"),
        Column("today", "Today"),
    ),
    Empty(
        "What each run may cost, and what is left of it.",
        "No run has a budget: what its work costs is not limited.",
    ),
    prefix="budget.",
    acts=(("set-budget", budget_terms),),
)


def list_connectors(view: View) -> Response:
    """``GET /connectors``."""
    found = view.cache.status()
    work = {one.connector: one for one in found.connectors}
    down = {one.connector: one for one in found.down}
    calls = {
        one.connector: one for one in figures.connector_calls(view.store, found.at)
    }
    waits: dict[str, int] = {}
    for row in view.cache.waiting():
        if row.state in ("ready", "leased"):
            waits[row.connector] = waits.get(row.connector, 0) + row.messages
    fares = connectors.health(view.workspace, view.store)
    rows = []
    for one in connectors.list_connectors(view.workspace):
        paused = found.paused.get(f"connector:{one.name}")
        own, called = work.get(one.name), calls.get(one.name)
        retry_at = own.retry_at if own else None
        since, why, health = None, "", fares[one.name]
        if paused is not None:
            state, since, why = "disabled", paused.since, paused.reason
        elif one.name in down:
            state, since, why = "down", health.since, down[one.name].error
        elif health.circuit != "closed":
            state, since, why = "degraded", health.since, health.error
        else:
            state = "up" if retry_at is None else "degraded"
        succeeded = (
            [hour.at for hour in called.hours if hour.calls["ok"]] if called else []
        )
        rows.append(
            {
                "name": one.name,
                "kind": one.kind,
                "secret": "secret_file" in view.workspace.config.connectors[one.name],
                "state": state,
                "since": since,
                "why": why,
                "circuit": health.circuit,
                "balance": health.balance,
                "open": own.open if own else 0,
                "answered": own.answered if own else 0,
                "in_doubt": own.in_doubt if own else 0,
                "messages": waits.get(one.name, 0),
                "retry_at": health.next_try or retry_at,
                "succeeded_in": max(succeeded, default=None),
                "calls": sum(called.whole.calls.values()) if called else 0,
            }
        )
    listed = CONNECTORS.rows(view.request, rows)
    tables = [listed, WORK.rows(view.request, rows)]
    if view.may("runs.show"):
        budgets = [
            asdict(one)
            | {"used_up": f"used up: {one.used_up}" if one.used_up else "has room"}
            for one in runs.budgets(view.workspace, view.store)
        ]
        tables.append(BUDGETS.rows(view.request, budgets))
    counts = {state: sum(r["state"] == state for r in rows) for state in _STATES}
    return view.show(*tables, counts=counts)


_STATES: Final = ("up", "degraded", "down", "disabled")
