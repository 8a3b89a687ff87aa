"""``dispatcher console``: sign-in links of the operators' console."""

from __future__ import annotations

import typer

from dispatcher.surfaces.cli.context import CliContext

app = typer.Typer(
    help="Sign in to the operators' console, and out.", no_args_is_help=True
)


@app.command("link")
def link(ctx: typer.Context) -> None:
    """Make a link that opens the console once, within ten minutes.

    Whoever opens it first is signed in, for 12 hours at most and until half an hour
    goes by without a look.
    """
    from dispatcher.operations import operators

    context: CliContext = ctx.obj
    with context.open_store() as store:
        made = operators.make_sign_in_link(context, store)
    context.show({"schema": "dispatcher.console-link/1", "link": made}, made)
    context.say("it works once, within 10 minutes; the console is served by: up")


@app.command("sign-out")
def sign_out(ctx: typer.Context) -> None:
    """End every session of the console, and every link that was not used."""
    from dispatcher.operations import operators

    context: CliContext = ctx.obj
    with context.open_store() as store:
        ended = operators.sign_everybody_out(context, store)
    words = f"{ended} {'session' if ended == 1 else 'sessions'} ended"
    context.show({"schema": "dispatcher.console-sign-out/1", "ended": ended}, words)
