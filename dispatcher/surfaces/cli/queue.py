"""``dispatcher queue``, ``pause`` and ``resume``: what waits to be sent, and stopping."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.surfaces.cli.context import CliContext, table, wall_clock

app = typer.Typer(
    help="What waits to be sent, and what could not be.", no_args_is_help=True
)


def _scope(everything: bool, connector: str | None, run: str | None) -> str:
    if connector is not None:
        return f"connector:{connector}"
    if run is not None:
        return f"run:{run}"
    del everything
    return "all"


All = Annotated[bool, typer.Option("--all", help="Everything (the default).")]
Connector = Annotated[str | None, typer.Option(help="Only this connector.")]
Run = Annotated[str | None, typer.Option(help="Only this run.")]


def pause(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="Why; kept and shown.")],
    everything: All = False,
    connector: Connector = None,
    run: Run = None,
) -> None:
    """Stop new showings at once; answers are still accepted."""
    from dispatcher.store import pause as pauses

    context: CliContext = ctx.obj
    scope = _scope(everything, connector, run)
    with context.open_store() as store, store.write() as tx:
        pauses.pause(tx, scope, reason, wall_clock())
    context.show({"schema": "dispatcher.pause/1", "scope": scope}, f"paused {scope}")


def resume(
    ctx: typer.Context,
    everything: All = False,
    connector: Connector = None,
    run: Run = None,
) -> None:
    """End a pause."""
    from dispatcher.store import pause as pauses

    context: CliContext = ctx.obj
    scope = _scope(everything, connector, run)
    with context.open_store() as store, store.write() as tx:
        was = pauses.resume(tx, scope)
    context.show(
        {"schema": "dispatcher.pause/1", "scope": scope, "was_paused": was},
        f"resumed {scope}" if was else f"{scope} was not paused",
    )


@app.command("list")
def list_messages(
    ctx: typer.Context,
    state: Annotated[
        str | None, typer.Option(help="Only messages in this state.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
) -> None:
    """List messages, oldest first: ids and states, no content."""
    from dispatcher.store import queue as rows

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        found = rows.messages(tx, state, limit)
    _show(context, found)


dead = typer.Typer(help="Messages that were given up.", no_args_is_help=True)
app.add_typer(dead, name="dead")


@dead.command("list")
def list_dead(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
) -> None:
    """List the messages that were given up."""
    from dispatcher.store import queue as rows

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        found = rows.messages(tx, "dead", limit)
    _show(context, found)


@app.command()
def retry(
    ctx: typer.Context,
    ids: Annotated[
        list[int] | None, typer.Argument(help="Messages; none: all.")
    ] = None,
    connector: Connector = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n")] = False,
) -> None:
    """Send dead messages once more; what they show was booked, so no gate is asked."""
    from dispatcher.store import queue as rows

    context: CliContext = ctx.obj
    with context.open_store() as store:
        with store.read() as tx:
            found = rows.dead(tx, ids or [], connector)
        if dry_run or not found:
            context.show(
                {"schema": "dispatcher.queue/1", "would_retry": found},
                f"{len(found)} dead messages would be sent again",
            )
            return
        if not ids:
            context.confirm(f"send {len(found)} dead messages again?")
        with store.write() as tx:
            count = rows.revive(tx, found, wall_clock())
    context.show(
        {"schema": "dispatcher.queue/1", "retried": count}, f"{count} wait again"
    )


def _show(context: CliContext, found: list[tuple[object, ...]]) -> None:
    header = ("id", "connector", "account", "kind", "state", "tries", "error")
    context.show(
        {
            "schema": "dispatcher.queue/1",
            "messages": [dict(zip(header, row, strict=True)) for row in found],
        },
        table(found, header),
    )
