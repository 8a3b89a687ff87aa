"""``dispatcher notices``: who is told what happens, and what became of each notice."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.surfaces.cli.context import (
    CliContext,
    DryRun,
    Limit,
    leave,
    told_moment,
)

if TYPE_CHECKING:
    from dispatcher.operations.notices import NewSecret

Webhook = Annotated[
    int, typer.Argument(metavar="ID", min=1, help="As notices list shows it.")
]
Receiver = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a webhook, or: mail.")
]

app = typer.Typer(
    help="Who is told what happens: webhooks, mail, and what became of each notice.",
    no_args_is_help=True,
)


@app.command("list")
def list_receivers(ctx: typer.Context) -> None:
    """List webhooks, and whether mail is set up."""
    from dispatcher.operations import notices

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = notices.list_receivers(context, store)
    rows: list[tuple[object, ...]] = [
        (one.id, one.url, one.state, one.failed, " ".join(one.types) or "all")
        for one in found.webhooks
    ]
    if found.mail is not None:
        to = ", ".join(found.mail.to)
        rows.append(("mail", to, "set up", found.mail.failed, "the urgent ones"))
    context.show(
        {
            "schema": "dispatcher.notice-receivers/1",
            "webhooks": [asdict(one) for one in found.webhooks],
            "mail": None if found.mail is None else asdict(found.mail),
        },
        context.table(rows, ("id", "to", "state", "failed", "notices")),
    )
    if found.mail is None:
        context.say("mail is not set up: [notices] in dispatcher.toml")


@app.command("add")
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="Where to post notices: https://...")],
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--event", help="Only notices of this type; several may be given."
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Add a webhook and print the secret that its messages are signed with, this once.

    The receiver checks signatures with any library for Standard Webhooks.
    """
    from dispatcher.operations import notices

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        made = notices.add_webhook(context, store, url, types or ())
    _show_secret(context, made)
    context.say(f"webhook {made.id}; try it: dispatcher notices test {made.id}")


@app.command("remove")
def remove(ctx: typer.Context, number: Webhook, dry_run: DryRun = False) -> None:
    """Remove a webhook with its log; what waits for it is not delivered."""
    from dispatcher.operations import notices

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        notices.remove_webhook(store, number)
    context.show(
        {"schema": "dispatcher.webhook-removed/1", "id": number},
        f"webhook {number} is removed",
    )


@app.command("rotate")
def rotate(ctx: typer.Context, number: Webhook, dry_run: DryRun = False) -> None:
    """Give a webhook a new secret and print it, this once.

    For 24 hours messages are signed with the secret of before too.
    """
    from dispatcher.operations import notices

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        made = notices.rotate_secret(context, store, number)
    _show_secret(context, made)
    if made.old_until is not None:
        context.say(f"the old secret signs until {told_moment(made.old_until)} too")


def _show_secret(context: CliContext, made: NewSecret) -> None:
    context.show(
        {
            "schema": "dispatcher.webhook-secret/1",
            "id": made.id,
            "secret": made.secret,
            "old_until": made.old_until,
        },
        made.secret,
    )


@app.command("test")
def test(ctx: typer.Context, receiver: Receiver) -> None:
    """Send a test to a webhook or by mail, now; exit 1 if it does not arrive.

    A webhook that was disabled gets notices again if it takes the test.
    """
    from dispatcher.operations import notices

    context: CliContext = ctx.obj
    to = notices.read_receiver(receiver)
    with context.open_store() as store:
        tried = notices.send_test(context, store, to)
    context.show(
        {"schema": "dispatcher.notice-test/1", **asdict(tried)},
        f"{tried.receiver}: {tried.error or 'it arrived'}",
    )
    if tried.error is not None:
        leave(1)


@app.command("deliveries")
def deliveries(
    ctx: typer.Context,
    receiver: Receiver,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only those that were given up.")
    ] = False,
    limit: Limit = 50,
) -> None:
    """List deliveries to a webhook or by mail, the newest first."""
    from dispatcher.operations import notices

    context: CliContext = ctx.obj
    to = notices.read_receiver(receiver)
    with context.open_store() as store:
        found = notices.deliveries(store, to, failed=failed, limit=limit)
    rows = [
        (
            one.id,
            told_moment(one.at),
            one.type,
            one.state,
            one.attempts,
            told_moment(one.due) if one.state == "ready" else "-",
            one.error or "-",
            one.message,
        )
        for one in found
    ]
    header = ("id", "at", "notice", "state", "tries", "next", "error", "message")
    context.show(
        {
            "schema": "dispatcher.notice-deliveries/1",
            "deliveries": [asdict(one) for one in found],
        },
        context.table(rows, header),
    )


@app.command("redeliver")
def redeliver(
    ctx: typer.Context,
    number: Annotated[
        int,
        typer.Argument(metavar="ID", min=1, help="As notices deliveries shows it."),
    ],
    dry_run: DryRun = False,
) -> None:
    """Have the daemon make a delivery again, under the same message id."""
    from dispatcher.operations import notices

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        notices.redeliver(context, store, number)
    context.show(
        {"schema": "dispatcher.notice-redelivered/1", "id": number},
        f"delivery {number} is made again by the daemon",
    )
