"""One long operation: how far it is, and what came of it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from dispatcher.surfaces.api import evidence
from dispatcher.surfaces.console.screens.runs import frontier_charts
from dispatcher.surfaces.console.view import View


def show_operation(view: View) -> Response:
    """``GET /operations/ID``, for whoever began it."""
    number = view.request.path_params["operation"]
    found = view.site.shared.requests.show(view.operator.name, number)
    told = found.model_dump(mode="json")
    result = told["result"]
    swept = found.operation == "sweep_frontier" and result is not None
    return view.show(
        title=found.operation.removeprefix("console "),
        operation=found.operation.replace("_", " ")
        .removeprefix("console ")
        .capitalize(),
        state=found.state,
        result=result,
        problem=told["problem"],
        charts=frontier_charts(result) if swept else [],
        onward=_onward(number, found.operation, result),
    )


def fetch_file(view: View) -> Response:
    """``GET /operations/ID/file``: what it wrote, once."""
    requests, number = view.site.shared.requests, view.request.path_params["operation"]
    return evidence.sent(*requests.take(view.operator.principal, number))


def _onward(number: str, operation: str, result: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    """Where to go on from a result."""
    if result is None:
        return []
    match operation:
        case "draft_plan" if result["plan"] is not None:
            return [(f"/plans/{result['plan']}", "Look at the plan"), ("/runs", "Runs")]
        case "sweep_frontier":
            return [("/runs", "Runs and plans")]
        case "export_evidence" | "export_run" | "report_subject":
            return [(f"/operations/{number}/file", "Fetch the file (once)")]
        case "verify_ledger" | "erase_subject" | "purge_records":
            return [("/audit", "Audit")]
        case _:
            return []
