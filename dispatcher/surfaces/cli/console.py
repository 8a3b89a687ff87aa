"""``dispatcher console``: sign-in links of the operators' console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from dispatcher.surfaces.cli.context import CliContext, wall_clock

if TYPE_CHECKING:
    from dispatcher.core.config import Config
    from dispatcher.store import Store

app = typer.Typer(
    help="Sign in to the operators' console, and out.", no_args_is_help=True
)


@app.command("link")
def link(ctx: typer.Context) -> None:
    """Make a link that opens the console once, within ten minutes.

    Whoever opens it first is signed in, for 12 hours at most and until half an hour
    goes by without a look.
    """
    context: CliContext = ctx.obj
    with context.open_store() as store:
        made = make(store, context.config)
    context.show({"schema": "dispatcher.console-link/1", "link": made}, made)
    context.say("it works once, within 10 minutes; the console is served by: up")


@app.command("sign-out")
def sign_out(ctx: typer.Context) -> None:
    """End every session of the console, and every link that was not used."""
    from dispatcher import access

    context: CliContext = ctx.obj
    with context.open_store() as store:
        ended = access.sign_everybody_out(store, wall_clock())
    words = f"{ended} {'session' if ended == 1 else 'sessions'} ended"
    context.show({"schema": "dispatcher.console-sign-out/1", "ended": ended}, words)


def make(store: Store, config: Config, base: str | None = None) -> str:
    """Make a link; its base is ``operator_url``, else where the console listens."""
    from dispatcher import access
    from dispatcher.surfaces.console.app import sign_in_link

    where = config.surfaces.operator_url or base
    where = where or f"http://{config.surfaces.operators}"
    return sign_in_link(where, access.make_link(store, wall_clock()))
