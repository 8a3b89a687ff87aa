"""``dispatcher queue``, ``pause`` and ``resume``: what waits to be sent, and stopping."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.core.errors import NotFound, Usage
from dispatcher.surfaces.cli.context import CliContext, table, wall_clock

if TYPE_CHECKING:
    from dispatcher.store import Tx

app = typer.Typer(
    help="What waits to be sent, and what could not be.", no_args_is_help=True
)


All = Annotated[bool, typer.Option("--all", help="Everything (the default).")]
Connector = Annotated[str | None, typer.Option(help="Only this connector.")]
Run = Annotated[str | None, typer.Option(help="Only this run.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")]


class State(StrEnum):
    """States of a message."""

    READY = "ready"
    LEASED = "leased"
    SENT = "sent"
    DEAD = "dead"
    CANCELLED = "cancelled"


def _scope(
    context: CliContext,
    tx: Tx,
    everything: bool,
    connector: str | None,
    run: str | None,
) -> str:
    """Name what is to be stopped or let go, and check that it is there."""
    from dispatcher.store import status as rows

    if everything + (connector is not None) + (run is not None) > 1:
        raise Usage(
            "--all, --connector and --run exclude each other",
            why="a pause is for everything, for one connector or for one run",
            fix="repeat the command for each of them",
        )
    if connector is not None:
        known: Sequence[str] = sorted(context.config.connectors)
        what, name = "connector", connector
    elif run is not None:
        known, what, name = rows.runs(tx), "run", run
    else:
        return "all"
    if name not in known:
        raise NotFound(
            f"there is no {what} {name!r}",
            why=f"there are: {', '.join(known) or 'none'}",
            fix="check its name",
        )
    return f"{what}:{name}"


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
    if not reason.strip() or not reason.isprintable():
        raise Usage(
            "the reason of a pause is one line of text",
            why="it is shown to whoever asks why nothing moves",
            fix='--reason "market token expired"',
        )
    with context.open_store() as store, store.write() as tx:
        scope = _scope(context, tx, everything, connector, run)
        pauses.pause(tx, scope, reason, wall_clock())
    context.show(
        {"schema": "dispatcher.pause/1", "scope": scope, "reason": reason},
        f"paused {scope}",
    )


def resume(
    ctx: typer.Context,
    everything: All = False,
    connector: Connector = None,
    run: Run = None,
) -> None:
    """End a pause; other pauses stay."""
    from dispatcher.store import pause as pauses

    context: CliContext = ctx.obj
    with context.open_store() as store, store.write() as tx:
        scope = _scope(context, tx, everything, connector, run)
        was = pauses.resume(tx, scope)
        left = list(pauses.paused(tx))
    context.show(
        {
            "schema": "dispatcher.pause/1",
            "scope": scope,
            "was_paused": was,
            "still_paused": left,
        },
        f"resumed {scope}" if was else f"{scope} was not paused",
    )
    if left:
        context.say(f"still paused: {', '.join(left)}")


@app.command("list")
def list_messages(
    ctx: typer.Context,
    state: Annotated[
        State | None, typer.Option(help="Only messages in this state.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """List messages, oldest first: ids and states, no content."""
    from dispatcher.store import queue as rows

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        found = rows.messages(tx, state.value if state else None, limit)
    _show(context, found)


dead = typer.Typer(help="Messages that were given up.", no_args_is_help=True)
app.add_typer(dead, name="dead")


@dead.command("list")
def list_dead(
    ctx: typer.Context,
    limit: Limit = 100,
) -> None:
    """List the messages that were given up."""
    from dispatcher.store import queue as rows

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        found = rows.messages(tx, "dead", limit)
    _show(context, found)


@app.command()
@dead.command()
def retry(
    ctx: typer.Context,
    ids: Annotated[
        list[int] | None, typer.Argument(help="Messages; none: all.")
    ] = None,
    connector: Connector = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Change nothing.")
    ] = False,
) -> None:
    """Send dead messages once more.

    What they show was booked when they were written and counts as seen. A field that a
    merge or a new version made unsafe since then stays here all the same.
    """
    from dispatcher.ledger.recall import revive
    from dispatcher.ledger.standing import current_policy
    from dispatcher.store import queue as rows

    context: CliContext = ctx.obj
    with context.open_store() as store:
        with store.read() as tx:
            found = rows.dead(tx, ids or [], connector)
        missing = sorted(set(ids or []) - set(found))
        if missing:
            raise NotFound(
                f"no dead message {', '.join(map(str, missing[:10]))}",
                why="only messages that were given up can be sent once more"
                + (f"; of connector {connector}" if connector else ""),
                fix="dispatcher queue dead list",
            )
        if dry_run:
            context.say("DRY RUN - nothing was changed")
            context.show(
                {"schema": "dispatcher.queue/1", "would_retry": found},
                f"{len(found)} dead messages would be sent again",
            )
            return
        if found and not ids:
            context.confirm(f"send {len(found)} dead messages again?")
        with store.write() as tx:
            force = current_policy(tx)
            count, kept = revive(tx, force, found, wall_clock())
    told = f"{count} wait again"
    if kept:
        told += f"; {kept} of their fields stay here: past a limit by now"
    context.show(
        {"schema": "dispatcher.queue/1", "retried": count, "kept_back": kept}, told
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
