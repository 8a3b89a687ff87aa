"""Figures over time and over fields: what the charts of the console draw, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Query

from dispatcher.operations import agreement, figures
from dispatcher.operations.figures import HOUR, SECOND
from dispatcher.surfaces.api import documents as d
from dispatcher.surfaces.api.calls import Called, Only, take

_SINCE: Final = 48
Hours = Annotated[
    int, Query(ge=1, le=2160, description="So far back; samples are kept for 90 days.")
]


def show_answer_rate(call: Called, hours: Hours | None = None) -> d.AnswerRate:
    """Show how many answers came in, by period and connector."""
    window = None if hours is None else hours * HOUR
    found = figures.answer_rate(call.store, call.workspace.clock(), window=window)
    seconds = {"period_seconds": found.period // SECOND}
    return d.AnswerRate.model_validate({**vars(found), **seconds})


def show_burn_down(call: Called, hours: Hours = _SINCE) -> d.BurnDown:
    """Show how many fields were left over time, and when none will be."""
    since = call.workspace.clock() - hours * HOUR
    return take(d.BurnDown, figures.burn_down(call.store, since=since))


def show_coverage(call: Called) -> d.Coverage:
    """Show how far each field is: answered, in conflict, held back, open."""
    return take(d.Coverage, figures.coverage(call.store))


def list_durations(call: Called) -> Sequence[d.AnswerTimes]:
    """Show how long the newest answers took, by field."""
    return [take(d.AnswerTimes, one) for one in figures.durations(call.store)]


def show_agreement(call: Called, worker: Only = None) -> d.Agreement:
    """Show how far workers agree beyond chance, and what each takes for what."""
    return take(d.Agreement, agreement.agreement(call.store, worker=worker or ""))


def show_exposure_map(call: Called) -> d.ExposureMap:
    """Show who is nearest to which limit, and how many are how near."""
    found = figures.exposure_map(call.store, call.shared.usages)
    return take(d.ExposureMap, found)


def list_connector_calls(call: Called, hours: Hours = 24) -> Sequence[d.ConnectorCalls]:
    """Show latency and outcomes of calls to connectors, by hour."""
    found = figures.connector_calls(
        call.store, call.workspace.clock(), window=hours * HOUR
    )
    return [take(d.ConnectorCalls, one) for one in found]


def show_waiting(call: Called, hours: Hours = 24) -> d.WaitingMessages:
    """Show what waits for connectors, and how old the oldest was over time."""
    found = figures.waiting(call.store, call.workspace.clock(), window=hours * HOUR)
    return take(d.WaitingMessages, found)


def list_failing(call: Called) -> Sequence[d.FailingMessages]:
    """Show what is tried again or was given up, by connector and last error."""
    return [take(d.FailingMessages, one) for one in figures.failing(call.store)]


def show_growth(call: Called, hours: Hours = 20 * 24) -> d.Growth:
    """Show how the ledger and the store have grown."""
    since = call.workspace.clock() - hours * HOUR
    return take(d.Growth, figures.growth(call.store, since=since))
