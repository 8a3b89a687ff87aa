"""``dispatcher runs``: the sets of records that work is done for, and their budgets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import Usage
from dispatcher.surfaces.cli.context import CliContext, table

if TYPE_CHECKING:
    from connectors.money import Money
    from dispatcher.store import Tx
    from dispatcher.store.money import BudgetRow

app = typer.Typer(help="Sets of records and what they may cost.", no_args_is_help=True)
budget = typer.Typer(help="What a run may cost.", no_args_is_help=True)
app.add_typer(budget, name="budget")

_PERCENT: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,4}))?")

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Name of the run.")]


@budget.command("set")
def set_budget(
    ctx: typer.Context,
    run: RunName,
    cap: Annotated[
        str | None,
        typer.Option(metavar="GBP:100", help="Most that is ever promised and paid."),
    ] = None,
    per_day: Annotated[
        str | None,
        typer.Option(metavar="GBP:20", help="Most of it a day (UTC); none: no limit."),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="GBP:1.20",
            help="For one piece of work at a market that pays: a study, a HIT.",
        ),
    ] = None,
    bonus: Annotated[
        str | None,
        typer.Option(metavar="GBP:0.12", help="For each field that is answered."),
    ] = None,
    fee: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="What markets add to what they pay."),
    ] = None,
) -> None:
    """Set what a run may cost; what is left out stays as it was.

    A cap below what is taken already is allowed: it stops new work and undoes nothing.
    """
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    told = {"cap": cap, "per_day": per_day, "reward": reward, "bonus": bonus}
    amounts = {
        name: _money(text, name)
        for name, text in told.items()
        if text is not None and (name, text) != ("per_day", "none")
    }
    change = runs.BudgetChange(
        amounts, None if fee is None else _share(fee), no_daily_limit=per_day == "none"
    )
    with context.open_store() as store:
        row = runs.set_budget(context, store, run, change)
    now = context.clock()
    document = {"run": run, **spelt(row, now)}
    context.show({"schema": "dispatcher.budget/1", **document}, lay_out(document))
    if row.used_up(now):
        context.say("nothing new is begun: as much, or more, is taken already")


@budget.command("show")
def show_budget(
    ctx: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Only this run.")
    ] = None,
) -> None:
    """Show budgets: what is set, what is promised or owed, what is paid."""
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store() as store:
        budgets = runs.budgets(store, run)
    found = [{"run": name, **spelt(row, context.clock())} for name, row in budgets]
    context.show(
        {"schema": "dispatcher.budgets/1", "budgets": found},
        "\n".join(lay_out(one) for one in found),
    )
    if not found:
        context.say("no budget is set: dispatcher runs budget set RUN --cap GBP:100")


@app.command("list")
def list_runs(ctx: typer.Context) -> None:
    """List runs with the room that their budgets leave."""
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store() as store:
        now = context.clock()
        budgets = {name: spelt(row, now) for name, row in runs.budgets(store)}
        names = runs.list_runs(store)
    lines = [
        (name, budgets[name]["cap"], budgets[name]["room"])
        if name in budgets
        else (name, "none", "-")
        for name in names
    ]
    context.show(
        {
            "schema": "dispatcher.runs/1",
            "runs": [
                {
                    "run": name,
                    "budget": {"run": name, **budgets[name]}
                    if name in budgets
                    else None,
                }
                for name in names
            ],
        },
        table(lines, ("run", "cap", "room")),
    )


def documents(tx: Tx, now: int, run_id: int | None = None) -> list[dict[str, Any]]:
    """Budgets in words, by the names of their runs."""
    from dispatcher.operations.runs import budgets_in

    return [{"run": name, **spelt(row, now)} for name, row in budgets_in(tx, run_id)]


def spelt(row: BudgetRow, now: int) -> dict[str, Any]:
    """Spell a budget out; amounts as exact text."""
    from dispatcher import money

    def text(parts: int) -> str:
        sign = "-" if parts < 0 else ""
        return f"{sign}{money.money_of(abs(parts), row.currency)}"

    return {
        "cap": text(row.cap),
        "per_day": None if row.per_day is None else text(row.per_day),
        "reward": text(row.reward),
        "bonus": text(row.bonus),
        "fee_percent": f"{row.fee / 10_000:g}",
        "promised": text(row.taken - row.paid),
        "paid": text(row.paid),
        "today": text(row.taken_today(now)),
        "room": text(row.room(now)),
        "used_up": row.used_up(now),
    }


def lay_out(one: dict[str, Any]) -> str:
    """Lay a budget out for people."""
    day = f", {one['per_day']} a day" if one["per_day"] else ""
    return "\n".join([
        f"{one['run']}  at most {one['cap']}{day}",
        f"  pays      {one['reward']} a piece of work, {one['bonus']} a field, markets "
        f"add {one['fee_percent']} %",
        f"  paid      {one['paid']}   promised or owed {one['promised']}   today "
        f"{one['today']}",
        f"  room      {one['room']}",
    ])  # fmt: skip


def _money(text: str, name: str) -> Money:
    from connectors.money import Money

    try:
        return Money.read(text)
    except ValueError:
        raise Usage(
            f"--{name.replace('_', '-')} is no amount of money",
            why="it is a currency of three capital letters, a colon and a number",
            fix="write it like GBP:0.12",
        ) from None


def _share(text: str) -> int:
    """Read per cent as millionths of the whole."""
    found = _PERCENT.fullmatch(text)
    if found is None or int(found[1]) > 100:
        raise Usage(
            "--fee is no share",
            why="it is per cent of what a market pays: 0 to 100, four decimals at most",
            fix="write it like 33.3",
        )
    return int(found[1]) * 10_000 + int((found[2] or "").ljust(4, "0"))
