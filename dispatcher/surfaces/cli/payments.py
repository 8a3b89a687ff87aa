"""``dispatcher payments``: what is owed, what waits for a person, what was done."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dispatcher.core.errors import Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli.context import (
    CliContext,
    DryRun,
    Limit,
    OneWorker,
    OnlyConnector,
    OnlyRun,
    Reason,
    told_moment,
)

app = typer.Typer(
    help="What workers are owed and paid, and what waits for you.",
    no_args_is_help=True,
)


class PaymentState(StrEnum):
    """States of a payment."""

    RESERVED = "reserved"
    RELEASED = "released"
    DUE = "due"
    HELD = "held"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    PAID = "paid"


OPEN = (PaymentState.HELD, PaymentState.UNKNOWN, PaymentState.DUE)

Names = Annotated[
    list[str], typer.Argument(metavar="PAYMENT...", help="Such as reward-12.")
]


@app.command("list")
def list_payments(
    ctx: typer.Context,
    state: Annotated[
        list[PaymentState] | None,
        typer.Option(help="Only these (default: what is open)."),
    ] = None,
    run: OnlyRun = None,
    connector: OnlyConnector = None,
    limit: Limit = 100,
) -> None:
    """List payments, the latest change first."""
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    states = [one.value for one in state or OPEN]
    with context.open_store() as store:
        found = payments.list_payments(
            store, states, run=run, connector=connector, limit=limit
        )
    header = ("payment", "run", "account", "amount", "state", "why")
    lines = [
        (
            f"{row.kind}-{row.about}",
            row.run,
            row.account,
            payments.amount_of(row),
            row.state,
            row.why or "",
        )
        for row in found
    ]
    context.show(
        {
            "schema": "dispatcher.payments/1",
            "payments": [dict(zip(header, line, strict=True)) for line in lines],
        },
        context.table(lines, header),
    )


@app.command("show")
def show_payment(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="PAYMENT", help="Such as reward-12.")],
) -> None:
    """Show every change of a payment: when, to what, by whom and why."""
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = payments.history(store, name)
    header = ("at", "state", "amount", "by", "why")
    lines = [
        (
            told_moment(row.at),
            row.state,
            payments.amount_of(row),
            row.actor,
            row.why or "",
        )
        for row in found
    ]
    context.show(
        {
            "schema": "dispatcher.payments.history/1",
            "payment": name,
            "changes": [dict(zip(header, line, strict=True)) for line in lines],
        },
        context.table(lines, header),
    )


@app.command("owed")
def owed(ctx: typer.Context) -> None:
    """Show what you owe to workers whom no market pays, by run and account."""
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = payments.list_owed(store)
    header = ("run", "account", "amount", "fields")
    lines = [
        (
            row.run,
            row.account,
            payments.amount_of(row),
            row.payments,
        )
        for row in found
    ]
    context.show(
        {
            "schema": "dispatcher.owed/1",
            "owed": [dict(zip(header, line, strict=True)) for line in lines],
        },
        context.table(lines, header),
    )


@app.command("settle")
def settle(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="PAYMENT...", help="These.")
    ] = None,
    worker: OneWorker = None,
    reason: Reason = "",
    dry_run: DryRun = False,
) -> None:
    """Book as paid what you have paid yourself: on your payroll, or at the market."""
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    if bool(names) == (worker is not None):
        raise Usage(
            "which payments?",
            why="they are named, or all that one worker is owed is meant",
            fix="name payments, or write --worker CONNECTOR/NAME",
        )
    with context.open_store(dry_run=dry_run) as store:
        found = payments.settle(context, store, names or [], reason, account=worker)
    _show(context, found, "settled")


@app.command("approve")
def approve(
    ctx: typer.Context, names: Names, reason: Reason = "", dry_run: DryRun = False
) -> None:
    """Have a market pay what was held, refused or is unknown, after you have looked.

    Of a payment whose outcome is unknown, look at the market first: it is asked to pay
    as if it had never been asked.
    """
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    if not dry_run:
        context.confirm(f"have {count(len(names), 'payment')} made?")
    with context.open_store(dry_run=dry_run) as store:
        found = payments.approve(context, store, names, reason)
    _show(context, found, "approved")


@app.command("refuse")
def refuse(
    ctx: typer.Context, names: Names, reason: Reason = "", dry_run: DryRun = False
) -> None:
    """Pay nothing for work; its money is room in the budget again.

    At the market nothing is rejected: do that there if it has to be.
    """
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        found = payments.refuse(context, store, names, reason)
    _show(context, found, "refused")


def _show(context: CliContext, found: list[str], verb: str) -> None:
    context.show(
        {"schema": "dispatcher.payments.decided/1", verb: found},
        f"{verb}: {count(len(found), 'payment')}",
    )
