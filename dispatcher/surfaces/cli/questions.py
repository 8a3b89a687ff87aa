"""``dispatcher workers qualification|gold``: made-up questions and their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dispatcher.core.errors import Invalid
from dispatcher.surfaces.cli.context import CliContext, table, wall_clock
from dispatcher.surfaces.cli.rehearsal import count

if TYPE_CHECKING:
    from dispatcher.stages.intake.questions import Questions
    from dispatcher.store import Store, Tx

qualification = typer.Typer(
    help="Tests that workers of the task page pass before a field's first record.",
    no_args_is_help=True,
)
gold = typer.Typer(
    help="Made-up questions among the real ones, to see how good workers are.",
    no_args_is_help=True,
)

OneField = Annotated[str, typer.Argument(metavar="FIELD", help="Of the policy.")]
QuestionFile = Annotated[
    Path,
    typer.Argument(
        dir_okay=False,
        help="Made-up questions: columns shown (or image) and answer.",
    ),
]
AcceptEqual = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="As many rows as show what a loaded record shows, exactly.",
    ),
]
_TOLD: Final = 10


@qualification.command("set")
def set_test(
    ctx: typer.Context,
    field: OneField,
    file: QuestionFile,
    share: Annotated[
        float,
        typer.Option("--pass", help="Share of right answers that passes, up to 1."),
    ] = 0.8,
    accept_equal: AcceptEqual = 0,
) -> None:
    """Let a field ask for a passed test of made-up questions, in place of an earlier one.

    Each worker answers all of them on the task page before the first real field; who
    fails may try once more after a day. Who passed an earlier test of the field has
    passed. Nothing of a record may be in the file.
    """
    from dispatcher.stages.intake import questions as stage

    if not 0 < share <= 1:
        raise Invalid(
            f"--pass is {share}, expected a share above 0 and at most 1",
            why="it is the share of the test's answers that have to be right",
            fix="write --pass 0.8 for eight of ten",
        )
    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = _read(store, file, field, accept_equal)
        stage.set_test(store, found, share, wall_clock())
    number = len(found.found)
    context.show(
        {
            "schema": "dispatcher.qualification/1",
            "field": field,
            "questions": number,
            "pass": share,
        },
        f"{field}: {count(number, 'question')}, {share:.0%} right passes",
    )


@qualification.command("list")
def list_tests(ctx: typer.Context) -> None:
    """List the fields that ask for a test, and how workers stand with them."""
    from dispatcher.store import proficiency

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        rows = proficiency.standings(tx)
        asked = {r.field: r.questions for r in proficiency.stock(tx, "test")}
    header = ("field", "questions", "pass", "passed", "failed", "open")
    lines = [(r.field, asked.get(r.field, 0), *r[1:]) for r in rows]
    context.show(
        {
            "schema": "dispatcher.qualifications/1",
            "tests": [dict(zip(header, line, strict=True)) for line in lines],
        },
        table(lines, header),
    )


@qualification.command("drop")
def drop_test(ctx: typer.Context, field: OneField) -> None:
    """Let a field ask for no test any more."""
    _drop(ctx.obj, field, "test")


@gold.command("add")
def add_gold(
    ctx: typer.Context,
    field: OneField,
    file: QuestionFile,
    accept_equal: AcceptEqual = 0,
) -> None:
    """Mix made-up questions among the real ones of a field.

    They look like real ones, come at the rate of [quality] gold, are no answers and
    touch no rule; each is asked of as many workers as a real field may be shown to.
    Nothing of a record may be in the file.
    """
    from dispatcher.stages.intake import questions as stage

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = _read(store, file, field, accept_equal)
        new = stage.add_gold(store, found, wall_clock())
    known = len(found.found) - new
    context.show(
        {"schema": "dispatcher.gold/1", "field": field, "added": new, "known": known},
        f"{field}: {count(new, 'question')} added"
        + (f", {known:,} were there already" if known else ""),
    )


@gold.command("list")
def list_gold(ctx: typer.Context) -> None:
    """List the fields that have gold: how much is left to ask, how much was right."""
    from dispatcher.store import proficiency

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        left = gold_left(tx)
        rows = [(*row, left[row.field]) for row in proficiency.stock(tx, "gold")]
    header = ("field", "questions", "answered", "right", "left")
    context.show(
        {
            "schema": "dispatcher.golds/1",
            "gold": [dict(zip(header, row, strict=True)) for row in rows],
        },
        table(rows, header),
    )


def gold_left(tx: Tx) -> dict[str, int]:
    """Gold that somebody may still be asked, by field."""
    from dispatcher.ledger.standing import current_policy
    from dispatcher.store import proficiency

    force = current_policy(tx)
    fields = {} if force is None else force.fields
    return proficiency.gold_left(tx, {n: one.showings for n, one in fields.items()})


@gold.command("drop")
def drop_gold(ctx: typer.Context, field: OneField) -> None:
    """Mix no more made-up questions among a field's real ones."""
    _drop(ctx.obj, field, "gold")


def _drop(context: CliContext, field: str, purpose: str) -> None:
    from dispatcher.stages.intake import questions as stage

    with context.open_store() as store:
        number = stage.drop(store, field, purpose, wall_clock())
    context.show(
        {"schema": f"dispatcher.{purpose}/1", "field": field, "dropped": number},
        f"{field}: {count(number, 'question')} dropped",
    )


def _read(store: Store, file: Path, field: str, accept_equal: int) -> Questions:
    """Read a file of questions; those that show what a record shows must be accepted."""
    from dispatcher.stages.intake import questions as stage

    found = stage.read_questions(store, file, field)
    lines = stage.equal_to_stored(store, found)
    if len(lines) != accept_equal:
        told = ", ".join(str(line) for line in lines[:_TOLD])
        if len(lines) > _TOLD:
            told += f" and {len(lines) - _TOLD:,} more"
        rows = count(len(lines), "row shows", "rows show")
        raise Invalid(
            f"{rows} what a loaded record shows (line {told})"
            if lines
            else f"no row shows what a loaded record shows, not {accept_equal}",
            why="a question taken from a record would be seen without being booked",
            fix="make the questions up; where a field has few values, so that equal "
            f"ones say nothing of a record: --accept-equal {len(lines)}",
            facts={"equal": len(lines)},
        )
    return found
