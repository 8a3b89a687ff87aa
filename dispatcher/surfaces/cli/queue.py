"""``dispatcher queue``, ``pause`` and ``resume``: what waits to be sent, and stopping."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dispatcher.core.errors import Usage
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    Limit,
    OnlyConnector,
    OnlyRun,
    Reason,
)

app = typer.Typer(
    help="What waits to be sent, and what could not be.", no_args_is_help=True
)


All = Annotated[bool, typer.Option("--all", help="All of them.")]


class MessageState(StrEnum):
    """States of a message."""

    READY = "ready"
    LEASED = "leased"
    SENT = "sent"
    DEAD = "dead"
    CANCELLED = "cancelled"


def _check_scope(everything: bool, connector: str | None, run: str | None) -> None:
    if everything + (connector is not None) + (run is not None) > 1:
        raise Usage(
            "--all, --connector and --run exclude each other",
            why="a pause is for everything, for one connector or for one run",
            fix="repeat the command for each of them",
        )


def pause(
    ctx: typer.Context,
    reason: Reason,
    everything: All = False,
    connector: OnlyConnector = None,
    run: OnlyRun = None,
    dry_run: DryRun = False,
) -> None:
    """Stop new showings at once; answers are still accepted."""
    from dispatcher.operations import queue

    context: CliContext = ctx.obj
    _check_scope(everything, connector, run)
    with context.open_store(dry_run=dry_run) as store:
        scope = queue.pause(context, store, reason, connector=connector, run=run)
    context.show(
        {"schema": "dispatcher.pause/1", "scope": scope, "reason": reason},
        f"paused {scope}",
    )


def resume(
    ctx: typer.Context,
    everything: All = False,
    connector: OnlyConnector = None,
    run: OnlyRun = None,
    dry_run: DryRun = False,
) -> None:
    """End a pause; other pauses stay."""
    from dispatcher.operations import queue

    context: CliContext = ctx.obj
    _check_scope(everything, connector, run)
    with context.open_store(dry_run=dry_run) as store:
        done = queue.resume(context, store, connector=connector, run=run)
    scope, left = done.scope, list(done.still_paused)
    context.show(
        {
            "schema": "dispatcher.pause/1",
            "scope": scope,
            "was_paused": done.was_paused,
            "still_paused": left,
        },
        f"resumed {scope}" if done.was_paused else f"{scope} was not paused",
    )
    if left:
        context.say(f"still paused: {', '.join(left)}")


@app.command("list")
def list_messages(
    ctx: typer.Context,
    state: Annotated[
        MessageState | None, typer.Option(help="Only messages in this state.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """List messages, oldest first: ids and states, no content."""
    from dispatcher.operations import queue

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = queue.list_messages(store, state.value if state else None, limit)
    _show(context, found)


@app.command()
def retry(
    ctx: typer.Context,
    ids: Annotated[
        list[int] | None, typer.Argument(help="Messages; none: all.")
    ] = None,
    connector: OnlyConnector = None,
    dry_run: DryRun = False,
) -> None:
    """Send dead messages once more.

    What they show was booked when they were written and counts as seen. A field that a
    merge or a new version made unsafe since then stays here all the same.
    """
    from dispatcher.operations import queue

    context: CliContext = ctx.obj
    with context.open_to_book() as store:
        found = queue.find_dead(store, ids or (), connector)
        if dry_run:
            context.say(DRY_RUN)
            context.show(
                {"schema": "dispatcher.queue/1", "would_retry": found},
                f"{len(found)} dead messages would be sent again",
            )
            return
        if found and not ids:
            context.confirm(f"send {len(found)} dead messages again?")
        done = queue.retry(context, store, found)
    text = f"{done.messages} wait again"
    if done.kept_back:
        text += f"; {done.kept_back} of their fields stay here: past a limit by now"
    context.show(
        {
            "schema": "dispatcher.queue/1",
            "retried": done.messages,
            "kept_back": done.kept_back,
        },
        text,
    )


@app.command()
def withdraw(
    ctx: typer.Context,
    ids: Annotated[list[int], typer.Argument(help="Messages to take back.")],
    dry_run: DryRun = False,
) -> None:
    """Take messages back with their tasks, which are planned anew.

    Messages that never left, those that were given up, and those at a connector that can
    withdraw tasks. What they show was booked when they were written and counts as seen.
    """
    from dispatcher.operations import queue

    context: CliContext = ctx.obj
    with context.open_to_book(dry_run=dry_run) as store:
        done = queue.withdraw(context, store, ids)
    context.show(
        {
            "schema": "dispatcher.queue/1",
            "withdrawn": done.messages,
            "tasks_ended": done.tasks,
            "left": list(done.left),
        },
        f"{done.messages} taken back, {done.tasks} tasks ended"
        + (f"; {len(done.left)} go on" if done.left else ""),
    )


def _show(context: CliContext, found: list[tuple[object, ...]]) -> None:
    header = ("id", "connector", "account", "kind", "state", "tries", "error")
    context.show(
        {
            "schema": "dispatcher.queue/1",
            "messages": [dict(zip(header, row, strict=True)) for row in found],
        },
        context.table(found, header),
    )
