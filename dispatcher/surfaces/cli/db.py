"""``dispatcher db``: the schema of the store."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.errors import EXIT_MIGRATE, EXIT_NO_STORE
from dispatcher.surfaces.cli.context import CliContext, leave

app = typer.Typer(help="Look at the store's schema and bring it up to date.")


@app.command()
def upgrade(
    ctx: typer.Context,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements; change nothing.")
    ] = False,
) -> None:
    """Apply the migrations that the store lacks, all or none."""
    from dispatcher.store import upgrades

    context: CliContext = ctx.obj
    private = context.store_is_private
    if sql:
        print(upgrades.script(context.store_url, password_allowed=private), end="")
        return
    before = upgrades.upgrade(context.store_url, password_allowed=private)
    applied = ", ".join(before.steps) or "none, it was up to date"
    context.show(
        {"found": before.found, "schema": before.wanted, "applied": list(before.steps)},
        f"schema {before.wanted}  migrations applied: {applied}",
    )


@app.command()
def status(ctx: typer.Context) -> None:
    """Say which schema the store has; exit 13 when it is not this program's."""
    from dispatcher.store import upgrades

    context: CliContext = ctx.obj
    now = upgrades.state(context.store_url, password_allowed=context.store_is_private)
    context.show(
        {
            "store": now.place,
            "found": now.found,
            "wanted": now.wanted,
            "steps": list(now.steps),
            "ready": now.ready,
        },
        f"store {now.found or 'empty'}, this program wants {now.wanted}"
        f" ({len(now.steps)} {'step' if len(now.steps) == 1 else 'steps'})",
    )
    if now.ready:
        return
    if now.newer:
        context.say("A newer program has changed the store: run that one.")
        leave(EXIT_MIGRATE)
    context.say("Run: dispatcher db upgrade")
    leave(EXIT_NO_STORE if now.found is None else EXIT_MIGRATE)


@app.command()
def check(ctx: typer.Context) -> None:
    """Compare the store's tables with this program's; exit 13 when they differ."""
    from dispatcher.store import upgrades

    context: CliContext = ctx.obj
    upgrades.check(context.store_url, password_allowed=context.store_is_private)
    context.show({"ok": True}, "the store's tables are as this program has them")
