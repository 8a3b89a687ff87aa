"""``dispatcher records list|show``: keys and states of records, never a value."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dispatcher.surfaces.cli.context import CliContext, table


class State(StrEnum):
    """How far a field is: its answers; or a record: all its fields together."""

    OPEN = "open"
    CONFLICT = "conflict"
    ANSWERED = "answered"


def list_records(
    ctx: typer.Context,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    state: Annotated[
        State | None, typer.Option(help="Only records in this state.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="At most so many.")
    ] = 100,
) -> None:
    """List records with the states of their fields: no value."""
    from dispatcher.operations import records

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = records.list_records(store, run, state.value if state else None, limit)
    header = ("record", "run", "state", "fields", "answered", "conflict")
    context.show(
        {
            "schema": "dispatcher.records/1",
            "records": [dict(zip(header, row, strict=True)) for row in found],
        },
        table(found, header),
    )
    if len(found) == limit:
        context.say(f"the first {limit:,}; see more with --limit")


def show_record(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(help="The record's key, as it was loaded.")],
) -> None:
    """Show the fields of a record: state, showings, tasks and answers; no value."""
    from dispatcher.operations import records

    context: CliContext = ctx.obj
    with context.open_store() as store:
        name, found = records.show(store, key)
    header = records.FIELDS
    context.show(
        {
            "schema": "dispatcher.record/1",
            "record": key,
            "pseudonym": name,
            "fields": [dict(zip(header, row, strict=True)) for row in found],
        },
        table(found, header),
    )
