"""``dispatcher runs``: the sets of records that work is done for, and their budgets."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import CliContext, DryRun, told_moment

if TYPE_CHECKING:
    from dispatcher.operations.runs import Pilot, RunBudget

app = typer.Typer(help="Sets of records and what they may cost.", no_args_is_help=True)

_PERCENT: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,4}))?")

RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Name of the run.", autocompletion=completion.runs
    ),
]


@app.command("budget")
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
    dry_run: DryRun = False,
) -> None:
    """Set what a run may cost; what is left out stays as it was.

    A cap below what is taken already is allowed: it stops new work and undoes nothing.
    """
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    given = {"cap": cap, "per_day": per_day, "reward": reward, "bonus": bonus}
    amounts = {
        name: runs.read_amount(text, f"--{name.replace('_', '-')}")
        for name, text in given.items()
        if text is not None and (name, text) != ("per_day", "none")
    }
    change = runs.BudgetChange(
        amounts, None if fee is None else _share(fee), no_daily_limit=per_day == "none"
    )
    with context.open_store(dry_run=dry_run) as store:
        done = runs.set_budget(context, store, run, change)
    context.show({"schema": "dispatcher.budget/1", **asdict(done)}, lay_out(done))
    if done.used_up:
        context.say("nothing new is begun: as much, or more, is taken already")


@app.command("list")
def list_runs(ctx: typer.Context) -> None:
    """List runs with the room that their budgets leave."""
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store() as store:
        budgets = {one.run: one for one in runs.budgets(context, store)}
        names = runs.list_runs(store)
    lines = [
        (name, budgets[name].cap, budgets[name].room)
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
                    "budget": asdict(budgets[name]) if name in budgets else None,
                }
                for name in names
            ],
        },
        context.table(lines, ("run", "cap", "room")),
    )


@app.command("show")
def show_run(ctx: typer.Context, run: RunName) -> None:
    """Show a run: its files, how its records went, its pilot and its budget.

    A load that is not complete was broken off, or still runs: load the file again.
    """
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = runs.show(context, store, run)
        went = _document(runs.show_pilot(context, store, run))
    loads = [
        (
            one.source,
            told_moment(one.started_at),
            one.records,
            one.rejected,
            "yes" if one.complete else "no",
        )
        for one in found.loads
    ]
    parts = [
        f"{found.run}: {found.state}, made {told_moment(found.created_at)}",
        context.table(loads, ("file", "loaded", "records", "rejected", "complete")),
    ]
    if found.exports:
        exports = [(one.path, told_moment(one.at)) for one in found.exports]
        parts.append(context.table(exports, ("written to", "at")))
    parts.append(_lay_out(went))
    if found.budget is not None:
        parts.append(lay_out(found.budget))
    context.show(
        {"schema": "dispatcher.run/1", **asdict(found), **went}, "\n".join(parts)
    )


def lay_out(one: RunBudget) -> str:
    """Lay a budget out for people."""
    day = f", {one.per_day} a day" if one.per_day else ""
    return "\n".join([
        f"{one.run}  at most {one.cap}{day}",
        f"  pays      {one.reward} a piece of work, {one.bonus} a field, markets add "
        f"{one.fee_percent} %",
        f"  paid      {one.paid}   promised or owed {one.promised}   today {one.today}",
        f"  room      {one.room}",
    ])  # fmt: skip


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


@app.command("pilot")
def begin_pilot(
    ctx: typer.Context,
    run: RunName,
    records: Annotated[int, typer.Argument(min=1, metavar="N", help="Records.")],
    dry_run: DryRun = False,
) -> None:
    """Let only N records of a run be shown, picked by chance; a larger N lets more go.

    What is loaded into the run later waits too. `records load --pilot N` does the same
    for what it loads.
    """
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        pilot = runs.begin_pilot(context, store, run, records)
    document = _document(pilot)
    context.show({"schema": "dispatcher.pilot/1", **document}, _head(document))


@app.command("accept")
def accept_pilot(ctx: typer.Context, run: RunName, dry_run: DryRun = False) -> None:
    """End a pilot: all records of the run may be shown."""
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        waited = runs.accept_pilot(context, store, run)
    context.show(
        {
            "schema": "dispatcher.pilot-accepted/1",
            "run": run,
            "let_go": waited,
        },
        f"{run}: the pilot is accepted, {count(waited, 'record')} more may be shown",
    )


def _document(pilot: Pilot) -> dict[str, Any]:
    fields = []
    for field in pilot.fields:
        own = pilot.gold.get(field.field)
        fields.append(
            {
                **asdict(field),
                "gold_answered": own.answered if own else 0,
                "gold_right": own.right if own else 0,
            }
        )
    row = pilot.row
    return {
        "run": row.name,
        "pilot": row.wanted,
        "let_go": row.opened if row.wanted is not None else None,
        "waiting": pilot.waiting,
        "answers": pilot.answers,
        "seconds": pilot.seconds,
        "fields": fields,
    }


def _head(one: dict[str, Any]) -> str:
    if one["pilot"] is None:
        return f"{one['run']}  no pilot"
    return (
        f"{one['run']}  pilot of {count(one['pilot'], 'record')}: {one['let_go']:,} let "
        f"go, {one['waiting']:,} wait for: dispatcher runs accept {one['run']}"
    )


def _lay_out(one: dict[str, Any]) -> str:
    """Lay a report out for people."""
    lines = [
        _head(one),
        f"  answers   {one['answers']:,}"
        + (f", {one['seconds']:.1f} s each" if one["answers"] else ""),
    ]
    lines += [f"  {_field_words(field)}" for field in one["fields"]]
    return "\n".join(lines)


def _field_words(row: dict[str, Any]) -> str:
    words = [f"{row['answered']:,} of {count(row['entries'], 'field')} answered"]
    if row["conflicts"]:
        words.append(f"{row['conflicts']:,} in conflict")
    if row["agreement"] is not None:
        words.append(f"confidence {row['agreement']:.2f}")
    if row["seconds"] is not None:
        words.append(f"{row['seconds']:.1f} s an answer")
    if row["gold_answered"]:
        right = f"{row['gold_right']:,} of {row['gold_answered']:,}"
        words.append(f"made-up questions {right} right")
    return f"{row['field']}: {', '.join(words)}"
