"""``dispatcher fields``: how often fields were shown, and giving burnt ones more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import DRY_RUN, CliContext, DryRun, Limit, Reason
from dispatcher.surfaces.cli.records import AnswerState

if TYPE_CHECKING:
    from dispatcher.ledger.exhausted_fields import Shown

app = typer.Typer(
    help="How often fields were shown; more showings for those that need them.",
    no_args_is_help=True,
)


@app.command("list")
def list_fields(
    ctx: typer.Context,
    burnt: Annotated[
        bool,
        typer.Option("--burnt", help="Shown t times, and still not enough answers."),
    ] = False,
    state: Annotated[
        AnswerState | None, typer.Option(help="Only fields in this state.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """List fields with their showings and answers: no value."""
    from dispatcher.operations.fields import list_fields as fields_of

    context: CliContext = ctx.obj
    if burnt and state is not None:
        raise Usage(
            "--burnt and --state together",
            why="a burnt field is one that can get no answer any more",
            fix="leave one of them out",
        )
    with context.open_store() as store:
        wanted = state.value if state else None
        found = fields_of(store, burnt=burnt, state=wanted, limit=limit)
    listed = [_row(one, found.keys.get(one.record_id, "?")) for one in found.fields]
    context.show(
        {"schema": "dispatcher.fields/1", "fields": listed}, _table(context, listed)
    )
    if found.total > limit or (not burnt and found.total == limit):
        context.say(f"the first {limit:,}; see more with --limit")
    if burnt and listed:
        context.say(
            "next: dispatcher fields unburn FIELD --extra-showings N --reason TEXT"
        )


def _row(one: Shown, key: str) -> dict[str, Any]:
    return {
        "field": f"{key}.{one.field}",
        "run": one.run,
        "state": one.state,
        "burnt": one.burnt,
        "shown": one.showings,
        "t": one.limit,
        "answers": one.answers,
        "wanted": one.wanted,
        "open_tasks": one.live,
    }


def _table(context: CliContext, listed: Sequence[dict[str, Any]]) -> str:
    header = ("field", "run", "state", "shown", "t", "answers", "wanted", "open_tasks")
    rows = [{**one, "state": "burnt"} if one["burnt"] else one for one in listed]
    return context.table([[row[name] for name in header] for row in rows], header)


@app.command()
def unburn(
    ctx: typer.Context,
    fields: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIELD",
            help="RECORD.FIELD ...",
            autocompletion=completion.record_fields,
        ),
    ] = None,
    all_burnt: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    extra_showings: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How many more for each.")
    ] = 1,
    reason: Reason = "",
    dry_run: DryRun = False,
) -> None:
    """Let fields be shown to more workers than t says.

    The grant is a line of the ledger with its reason. It crosses no limit of a rule:
    each further showing is judged like every other. A field in conflict is open again.
    """
    from dispatcher.operations.fields import grant_showings

    context: CliContext = ctx.obj
    if bool(fields) == all_burnt:
        raise Usage(
            "which fields?" if not fields else "fields are named, and --all too",
            why="a grant is for the fields named, or for all that are burnt",
            fix="name fields as RECORD.FIELD, or write --all",
        )
    with context.open_to_book() as store:
        done = grant_showings(
            context, store, fields or None, extra_showings, reason, dry_run=dry_run
        )
    if dry_run:
        context.say(DRY_RUN)
    words = count(extra_showings, "more showing")
    context.show(
        {
            "schema": "dispatcher.unburnt/1",
            "dry_run": dry_run,
            "fields": len(done),
            "by_field": dict(Counter(one.field for one in done)),
            "extra_showings": extra_showings,
        },
        f"{count(len(done), 'field')} may have {words} each"
        if done
        else "no field is burnt",
    )
