"""``dispatcher answers``: what came in and was refused, until somebody has looked."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dispatcher.core.errors import Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli.context import CliContext, DryRun, Limit, Reason, zulu

app = typer.Typer(
    help="Answers that were refused: look at them, then dismiss them.",
    no_args_is_help=True,
)


@app.command("list")
def list_answers(
    ctx: typer.Context,
    dismissed: Annotated[
        bool, typer.Option("--dismissed", help="Dismissed ones too.")
    ] = False,
    show_values: Annotated[
        bool,
        typer.Option("--show-values", help="Show values too."),
    ] = False,
    reason: Reason = "",
    limit: Limit = 100,
) -> None:
    """List answers that fit no task, the newest first; values stay hidden.

    With --show-values they are shown, for a --reason that the audit log keeps.

    An answer is refused when it names no task, or another worker's, or a field that is
    no longer asked for. It never counts; it is kept so that you can see what went wrong
    at its connector.
    """
    from dispatcher.operations import answers

    context: CliContext = ctx.obj
    if show_values:
        answers.check_reason(reason, "values are shown")
    with context.open_store() as store:
        found = answers.list_refused(store, dismissed=dismissed, limit=limit)
        ids = [row.id for row in found]
        contents = answers.reveal(context, store, ids, reason) if show_values else {}
    header: tuple[str, ...] = ("id", "connector", "at", "reason", "dismissed")
    lines: list[tuple[object, ...]] = [
        (row.id, row.connector, zulu(row.at), row.reason, row.dismissed_why or "-")
        for row in found
    ]
    document: list[dict[str, Any]] = [
        dict(zip(header, line, strict=True)) for line in lines
    ]
    for one, row in zip(document, found, strict=True):
        one["dismissed"] = row.dismissed_why
        if row.id in contents:
            one["said"] = _said(contents[row.id])
    if contents:
        header = (*header, "said")
        lines = [
            (*line, json.dumps(one.get("said"), ensure_ascii=False))
            for line, one in zip(lines, document, strict=True)
        ]
    context.show(
        {"schema": "dispatcher.refused-answers/1", "answers": document},
        context.table(lines, header),
    )
    if len(found) == limit:
        context.say(f"the newest {limit:,}; see more with --limit")
    if any(row.dismissed_at is None for row in found):
        context.say("next: dispatcher answers dismiss ID ... --reason TEXT")


@app.command()
def dismiss(
    ctx: typer.Context,
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID", help="As answers list shows.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
) -> None:
    """Note that refused answers were looked at: status names them no more."""
    from dispatcher.operations import answers

    context: CliContext = ctx.obj
    if bool(ids) == everything:
        raise Usage(
            "which answers?" if not ids else "ids are named, and --all too",
            why="those named are dismissed, or all that are not yet",
            fix="dispatcher answers list; then name ids, or --all",
        )
    with context.open_store(dry_run=dry_run) as store:
        done = answers.dismiss(context, store, ids or None, reason)
    context.show(
        {"schema": "dispatcher.dismissed/1", "dismissed": done, "reason": reason},
        f"{count(done, 'answer')} dismissed",
    )


def _said(payload: bytes) -> Any:  # noqa: ANN401 (what was sent, as it was sent)
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode("utf-8", "replace")
