"""``dispatcher payments``: what is owed, what waits for a person, what was done."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.core.errors import Usage
from dispatcher.surfaces.cli.context import CliContext, table, told_moment
from dispatcher.surfaces.cli.rehearsal import count

if TYPE_CHECKING:
    from dispatcher.store import Tx
    from dispatcher.store.money import PaymentRow

app = typer.Typer(
    help="What workers are owed and paid, and what waits for you.",
    no_args_is_help=True,
)


class State(StrEnum):
    """States of a payment."""

    RESERVED = "reserved"
    RELEASED = "released"
    DUE = "due"
    HELD = "held"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    PAID = "paid"


OPEN = (State.HELD, State.UNKNOWN, State.DUE)

Names = Annotated[
    list[str], typer.Argument(metavar="PAYMENT...", help="Such as reward-12.")
]
Because = Annotated[
    str, typer.Option("--because", help="Why; kept with the payment. No field value.")
]


@app.command("list")
def list_payments(
    ctx: typer.Context,
    state: Annotated[
        list[State] | None, typer.Option(help="Only these (default: what is open).")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    connector: Annotated[str | None, typer.Option(help="Only of this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most.")] = 100,
) -> None:
    """List payments, the latest change first."""
    from dispatcher import money
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
            str(money.money_of(row.amount, row.currency)),
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
        table(lines, header),
    )


@app.command("history")
def history(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="PAYMENT", help="Such as reward-12.")],
) -> None:
    """Show every change of a payment: when, to what, by whom and why."""
    from dispatcher import money
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = payments.history(store, name)
    header = ("at", "state", "amount", "by", "why")
    lines = [
        (
            told_moment(row.at),
            row.state,
            str(money.money_of(row.amount, row.currency)),
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
        table(lines, header),
    )


@app.command("owed")
def owed(ctx: typer.Context) -> None:
    """Show what you owe to workers whom no market pays, by run and account."""
    from dispatcher import money
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = payments.list_owed(store)
    header = ("run", "account", "amount", "fields")
    lines = [
        (
            row.run,
            row.account,
            str(money.money_of(row.amount, row.currency)),
            row.payments,
        )
        for row in found
    ]
    context.show(
        {
            "schema": "dispatcher.owed/1",
            "owed": [dict(zip(header, line, strict=True)) for line in lines],
        },
        table(lines, header),
    )


@app.command("settle")
def settle(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="PAYMENT...", help="These.")
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(metavar="CONNECTOR/ID", help="All that this worker is owed."),
    ] = None,
    because: Because = "",
) -> None:
    """Book as paid what you have paid yourself: on your payroll, or at the market."""
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    if bool(names) == (account is not None):
        raise Usage(
            "which payments?",
            why="they are named, or all that one worker is owed is meant",
            fix="name payments, or write --account CONNECTOR/ID",
        )

    def find(tx: Tx) -> list[PaymentRow]:
        if account is None:
            return payments.named(tx, names or [], together=["unknown"])
        return payments.owed_to(tx, account)

    _decide(context, find, payments.settle, "settled", because)


@app.command("approve")
def approve(ctx: typer.Context, names: Names, because: Because = "") -> None:
    """Have a market pay what was held, refused or is unknown, after you have looked.

    Of a payment whose outcome is unknown, look at the market first: it is asked to pay
    as if it had never been asked.
    """
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    context.confirm(f"have {count(len(names), 'payment')} made?")
    _decide(
        context,
        lambda tx: payments.named(tx, names),
        payments.approve,
        "approved",
        because,
    )


@app.command("refuse")
def refuse(ctx: typer.Context, names: Names, because: Because = "") -> None:
    """Pay nothing for work; its money is room in the budget again.

    At the market nothing is rejected: do that there if it has to be.
    """
    from dispatcher.operations import payments

    context: CliContext = ctx.obj
    _decide(
        context,
        lambda tx: payments.named(tx, names),
        payments.refuse,
        "refused",
        because,
    )


def _decide(
    context: CliContext,
    find: Callable[[Tx], list[PaymentRow]],
    decision: Callable[..., None],
    verb: str,
    because: str,
) -> None:
    from dispatcher.operations import payments

    with context.open_store() as store:
        found = payments.decide(context, store, find, decision, because)
    context.show(
        {"schema": "dispatcher.payments.decided/1", verb: found},
        f"{verb}: {count(len(found), 'payment')}",
    )
