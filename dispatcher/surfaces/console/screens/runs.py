"""Runs and plans: how far each run is, what plans are worth, and what is proven of them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dispatcher.operations import figures, plans, runs
from dispatcher.stages.planning.plan_summary import lack
from dispatcher.surfaces import charts
from dispatcher.surfaces.charts.frontier import frontier
from dispatcher.surfaces.charts.plot import Chart
from dispatcher.surfaces.console.pages import SECOND
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table, number
from dispatcher.surfaces.console.view import View
from policies.planning.frontier import AdversariesNeeded, Frontier, Point
from policies.solvers import Verdict

RUNS: Final = Table(
    "runs",
    "Runs and how far they are",
    (
        Column("run", "Run", link=lambda row: f"/runs/{quote(row['run'], safe='')}"),
        Column("state", "State", "state"),
        Column("done", "Answered", "percent"),
        Column("records", "Records", "number"),
        Column("fields", "Fields", "number"),
        Column("conflict", "In conflict", "number"),
        Column("created", "Begun", "time"),
        Column("paused", "Why paused", wide=True),
    ),
    Empty(
        "Every run: a named set of records, how far it is, and whether it is paused.",
        "No record was loaded.",
        command="dispatcher records load FILE",
    ),
)
PLANS: Final = Table(
    "plans",
    "Plans, the newest first",
    (
        Column("plan", "Plan", "number", link=lambda row: f"/plans/{row['plan']}"),
        Column("state", "State", "state"),
        Column("made", "Made", "time"),
        Column("algorithm", "Algorithm"),
        Column("utility", "Utility", "percent"),
        Column("gap", "Gap, at most", "percent"),
        Column("worst", "Worst share", "share"),
        Column("rule", "Nearest rule"),
        Column("pairs", "Showings", "number"),
        Column("held", "Held back", "number"),
        Column("workers", "Workers", "number"),
        Column("safe", "Workers needed", "number"),
    ),
    Empty(
        "Every plan: its value, what is proven of it, and how near it comes to a limit.",
        "Nothing is planned. A plan changes nothing before it is applied.",
        button="Plan",
        href="/do/draft-plan",
    ),
    prefix="p.",
)
FILES: Final = Table(
    "files",
    "Files of this run",
    (
        Column("name", "File"),
        Column("state", "State", "state"),
        Column("at", "When", "time"),
        Column("records", "Records", "number"),
        Column("rejected", "Rejected", "number"),
    ),
    Empty("Files that were loaded into it or written from it.", "There is none yet."),
)
MEASURES: Final = Table(
    "comparison",
    "Two plans, measure by measure",
    (
        Column("measure", "Measure"),
        Column("one", "First", "figure"),
        Column("other", "Second", "figure"),
        Column("change", "Change", "figure"),
    ),
    Empty("Two plans beside each other.", "Choose two plans."),
)
_PERCENT: Final = ("Utility", "Gap, at most", "Worst share")


def budget_terms(budget: Mapping[str, Any]) -> dict[str, str]:
    """Fill in the form of a run's budget with what it is now."""
    given = {"run": str(budget["run"])}
    for name in ("cap", "per_day", "reward", "bonus"):
        if budget.get(name):
            text = str(budget[name])  # GBP 1.20
            given |= {f"{name}.amount": text[4:], f"{name}.currency": text[:3]}
    return given


def list_runs(view: View) -> Response:
    """``GET /runs``."""
    found = view.cache.runs()
    tables = [RUNS.rows(view.request, [_run_row(one) for one in found])]
    every = []
    if view.may("plan.list"):
        every = plans.list_plans(view.store)
        rows = [_plan_row(one) for one in every]
        tables.append(PLANS.rows(view.request, rows, sort="-plan"))
    return view.show(
        *tables,
        plan=next((one for one in every if one.row.state == "applied"), None),
        draft=next((one for one in every if one.row.state == "draft"), None),
        numbers=[one.row.id for one in every],
        plan_row=_plan_row,
        coverage=charts.coverage(figures.coverage(view.store)),
        swept=_last_sweep(view),
    )


def show_run(view: View) -> Response:
    """``GET /runs/NAME``."""
    name = view.request.path_params["run"]
    found = runs.show(view.workspace, view.store, name)
    progress = next(one for one in view.cache.runs() if one.run == name)
    files = [
        {"name": one.source, "state": "loaded" if one.complete else "interrupted",
         "at": one.started_at, "records": one.records, "rejected": one.rejected}
        for one in found.loads
    ] + [{"name": one.path, "state": "exported", "at": one.at} for one in found.exports]  # fmt: skip
    pilot = None
    if progress.state == "pilot":
        pilot = runs.show_pilot(view.workspace, view.store, name)
    return view.show(
        FILES.rows(view.request, files, sort="-at"),
        title=name,
        run=found,
        progress=progress,
        pilot=pilot,
        terms=budget_terms(vars(found.budget) if found.budget else {"run": name}),
    )


def show_plan(view: View) -> Response:
    """``GET /plans/NUMBER``."""
    found = plans.show(view.store, view.request.path_params["plan"])
    others = [
        one.row.id for one in plans.list_plans(view.store) if one.row.id != found.row.id
    ]
    return view.show(
        title=f"Plan {found.row.id}",
        plan=found,
        row=_plan_row(found),
        summary=found.summary,
        lacks=[(lack(one), one["why"]) for one in found.summary.get("cores", ())],
        others=others[:50],
    )


def compare_plans(view: View) -> Response:
    """``GET /plans/compare?one=1&other=2``."""
    one, other = (
        plans.show(view.store, _asked(view, name)) for name in ("one", "other")
    )
    pairs = zip(_measures(one).items(), _measures(other).values(), strict=True)
    rows = [
        {"measure": name, "one": first, "other": second, "change": _change(first, second)}
        for (name, first), second in pairs
    ]  # fmt: skip
    return view.show(
        MEASURES.rows(view.request, rows),
        title=f"Plans {one.row.id} and {other.row.id}",
        one=one,
        other=other,
        same=one.summary.get("sha256") == other.summary.get("sha256"),
    )


def _asked(view: View, name: str) -> int:
    found = number(view.request.query_params, name, 0)
    if not found:
        raise HTTPException(400)
    return found


def _run_row(one: runs.RunProgress) -> Row:
    return {
        "run": one.run,
        "state": one.state,
        "done": one.share if one.fields else None,
        "records": one.records,
        "fields": one.fields,
        "conflict": one.conflict,
        "created": one.created_at,
        "paused": one.paused,
    }


def _plan_row(plan: plans.StoredPlan) -> Row:
    found = plan.summary
    worst = found.get("worst") or {}
    return {
        "plan": plan.row.id,
        "state": plan.row.state,
        "made": plan.row.created_at,
        "algorithm": plan.row.algorithm,
        "utility": _share_of_best(found),
        "gap": found.get("gap"),
        "worst": worst.get("share"),
        "rule": worst.get("rule"),
        "pairs": found.get("pairs"),
        "held": found.get("held"),
        "workers": found.get("adversaries"),
        "safe": found.get("safe_with"),
    }


def _share_of_best(found: Mapping[str, Any]) -> float | None:
    """Utility as a share of what would be had without any limit."""
    best = Fraction(found["best"])
    return float(Fraction(found["utility"]) / best) if best else None


def _measures(plan: plans.StoredPlan) -> dict[str, Any]:
    row, found = _plan_row(plan), plan.summary
    return {
        "Utility": row["utility"],
        "Gap, at most": row["gap"],
        "Worst share": row["worst"],
        "Complete sets": found.get("complete"),
        "Showings": row["pairs"],
        "Fields": found.get("fields"),
        "Fields held back": row["held"],
        "Workers": row["workers"],
        "Workers needed": row["safe"],
        "Showings in reserve": found.get("spare"),
    }


def _change(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else other - one


# -- the frontier --------------------------------------------------------------------------


def _last_sweep(view: View) -> tuple[int, list[Chart]] | None:
    """Draw the frontier that who looks asked for last."""
    found = view.site.shared.requests.latest(view.operator.name, "sweep_frontier")
    if found is None:
        return None
    ended = found.ended_at or found.started_at
    return int(ended.timestamp() * SECOND), frontier_charts(found.result)


def frontier_charts(document: Any) -> list[Chart]:  # noqa: ANN401 - as JSON has it
    """Draw a frontier from the document of the API."""
    if "policy" not in document:  # swept by an earlier version
        return []
    return frontier(
        Frontier(
            tuple(_point(one) for one in document["points"]),
            _point(document["policy"]),
            document["adversaries"],
            document["answers"],
        )
    )


def _point(one: Mapping[str, Any]) -> Point:
    def ratio(name: str) -> Fraction | None:
        return None if one[name] is None else Fraction(one[name])

    return Point(
        ratio("limit"),
        Verdict(one["verdict"]),
        ratio("utility"),
        ratio("utility_at_most"),
        ratio("worst_f"),
        AdversariesNeeded(
            one["workers_least"], one["workers_enough"], never=one["workers_never"]
        ),
    )
