"""One long operation: how far it is, and what came of it."""

from __future__ import annotations

from starlette.responses import Response

from dispatcher.surfaces.console.view import View


def show_operation(view: View) -> Response:
    """``GET /operations/ID``, for whoever began it."""
    number = view.request.path_params["operation"]
    found = view.site.shared.requests.show(view.operator.name, number)
    told = found.model_dump(mode="json")
    return view.show(
        title=found.operation.removeprefix("console "),
        operation=found.operation.replace("_", " ")
        .removeprefix("console ")
        .capitalize(),
        state=found.state,
        result=told["result"],
        problem=told["problem"],
    )
