"""Overview: is everything all right, and what needs a person."""

from __future__ import annotations

from starlette.responses import Response

from dispatcher.surfaces.console.screens.rules import NEAREST, rule_rows, verdict
from dispatcher.surfaces.console.view import View


def overview(view: View) -> Response:
    """``GET /``."""
    found = view.cache.status()
    limits = view.cache.limits()
    return view.show(
        NEAREST.rows(view.request, rule_rows(limits)),
        found=found,
        limits=limits,
        verdict=verdict(limits),
        fields=found.fields,
        record_states=view.cache.record_states(),
    )
