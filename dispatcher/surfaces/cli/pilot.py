"""``dispatcher runs pilot``: so many records first, and how they went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.rehearsal import count
from dispatcher.surfaces.cli.runs import RunName, spelt

if TYPE_CHECKING:
    from dispatcher.operations.runs import Pilot

app = typer.Typer(
    help="So many records of a run first; the others when you accept.",
    no_args_is_help=True,
)


@app.command()
def begin(
    ctx: typer.Context,
    run: RunName,
    records: Annotated[int, typer.Argument(min=1, metavar="N", help="Records.")],
) -> None:
    """Let only N records of a run be shown, picked by chance; a larger N lets more go.

    What is loaded into the run later waits too. `records load --pilot N` does the same
    for what it loads.
    """
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store() as store:
        pilot = runs.begin_pilot(context, store, run, records)
    document = _document(pilot, context.clock())
    context.show({"schema": "dispatcher.pilot/1", **document}, _head(document))


@app.command()
def show(ctx: typer.Context, run: RunName) -> None:
    """Report how the records of a run that were let go went: the pilot, while it lasts."""
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store() as store:
        pilot = runs.show_pilot(store, run)
    document = _document(pilot, context.clock())
    context.show({"schema": "dispatcher.pilot/1", **document}, _lay_out(document))


@app.command()
def accept(ctx: typer.Context, run: RunName) -> None:
    """End a pilot: all records of the run may be shown."""
    from dispatcher.operations import runs

    context: CliContext = ctx.obj
    with context.open_store() as store:
        waited = runs.accept_pilot(context, store, run)
    context.show(
        {
            "schema": "dispatcher.pilot/1",
            "run": run,
            "accepted": True,
            "let_go": waited,
        },
        f"{run}: the pilot is accepted, {count(waited, 'record')} more may be shown",
    )


def _document(pilot: Pilot, now: int) -> dict[str, Any]:
    told = []
    for field in pilot.fields:
        own = pilot.gold.get(field.field)
        told.append(
            {
                **field._asdict(),
                "gold_answered": own.answered if own else 0,
                "gold_right": own.right if own else 0,
            }
        )
    row, budget = pilot.row, pilot.budget
    return {
        "run": row.name,
        "pilot": row.wanted,
        "let_go": row.opened if row.wanted is not None else None,
        "waiting": pilot.waiting,
        "answers": pilot.answers,
        "seconds": pilot.seconds,
        "cost": None if budget is None else {"run": row.name, **spelt(budget, now)},
        "fields": told,
    }


def _head(one: dict[str, Any]) -> str:
    if one["pilot"] is None:
        return f"{one['run']}  no pilot"
    return (
        f"{one['run']}  pilot of {count(one['pilot'], 'record')}: {one['let_go']:,} let "
        f"go, {one['waiting']:,} wait for: dispatcher runs pilot accept {one['run']}"
    )


def _lay_out(one: dict[str, Any]) -> str:
    """Lay a report out for people."""
    cost = one["cost"]
    lines = [
        _head(one),
        f"  answers  {one['answers']:,}"
        + (f", {one['seconds']:.1f} s each" if one["answers"] else ""),
        "  cost     "
        + (
            f"{cost['paid']} paid, {cost['promised']} promised" if cost else "no budget"
        ),
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
