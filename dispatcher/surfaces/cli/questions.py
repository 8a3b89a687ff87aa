"""``dispatcher workers qualification|gold``: made-up questions and their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.previews import count

if TYPE_CHECKING:
    from dispatcher.operations.questions import Purpose

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
    from dispatcher.operations import questions

    context: CliContext = ctx.obj
    with context.open_store() as store:
        number = questions.set_test(
            context, store, field, file, share, accept_equal=accept_equal
        )
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
    from dispatcher.operations import questions

    context: CliContext = ctx.obj
    with context.open_store() as store:
        tests = questions.list_tests(store)
    header = ("field", "questions", "pass", "passed", "failed", "open")
    lines = [(test.row.field, test.questions, *test.row[1:]) for test in tests]
    context.show(
        {
            "schema": "dispatcher.qualifications/1",
            "tests": [dict(zip(header, line, strict=True)) for line in lines],
        },
        context.table(lines, header),
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
    from dispatcher.operations import questions

    context: CliContext = ctx.obj
    with context.open_store() as store:
        added = questions.add_gold(
            context, store, field, file, accept_equal=accept_equal
        )
    new, known = added.new, added.known
    context.show(
        {"schema": "dispatcher.gold/1", "field": field, "added": new, "known": known},
        f"{field}: {count(new, 'question')} added"
        + (f", {known:,} were there already" if known else ""),
    )


@gold.command("list")
def list_gold(ctx: typer.Context) -> None:
    """List the fields that have gold: how much is left to ask, how much was right."""
    from dispatcher.operations import questions

    context: CliContext = ctx.obj
    with context.open_store() as store:
        rows = [(*one.row, one.left) for one in questions.list_gold(store)]
    header = ("field", "questions", "answered", "right", "left")
    context.show(
        {
            "schema": "dispatcher.golds/1",
            "gold": [dict(zip(header, row, strict=True)) for row in rows],
        },
        context.table(rows, header),
    )


@gold.command("drop")
def drop_gold(ctx: typer.Context, field: OneField) -> None:
    """Mix no more made-up questions among a field's real ones."""
    _drop(ctx.obj, field, "gold")


def _drop(context: CliContext, field: str, purpose: Purpose) -> None:
    from dispatcher.operations import questions

    with context.open_store() as store:
        number = questions.drop(context, store, field, purpose)
    context.show(
        {"schema": f"dispatcher.{purpose}/1", "field": field, "dropped": number},
        f"{field}: {count(number, 'question')} dropped",
    )
