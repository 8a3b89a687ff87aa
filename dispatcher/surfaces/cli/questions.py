"""``dispatcher questions``: made-up questions, as tests and as gold among real ones."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.core.plurals import count
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import CliContext, DryRun

app = typer.Typer(
    help="Made-up questions: tests before real work, and gold among it.",
    no_args_is_help=True,
)


class Purpose(StrEnum):
    """What made-up questions are for: the values of ``operations.questions.Purpose``."""

    TEST = "test"
    GOLD = "gold"


OneField = Annotated[
    str,
    typer.Argument(
        metavar="FIELD", help="Of the policy.", autocompletion=completion.fields
    ),
]
PurposeOption = Annotated[
    Purpose,
    typer.Option(
        help="test: before a worker's first real field; gold: mixed among real ones."
    ),
]


@app.command()
def add(
    ctx: typer.Context,
    field: OneField,
    file: Annotated[
        Path,
        typer.Argument(
            dir_okay=False,
            help="Made-up questions: columns shown (or image) and answer.",
        ),
    ],
    purpose: PurposeOption,
    share: Annotated[
        float,
        typer.Option("--pass", help="Test: share of right answers that passes."),
    ] = 0.8,
    accept_equal: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="As many rows as show what a loaded record shows, exactly.",
        ),
    ] = 0,
    dry_run: DryRun = False,
) -> None:
    """Add made-up questions to a field; nothing of a record may be in the file.

    A test: each worker answers all of its questions on the task page before the first
    real field, and who fails may try once more after a day. It takes the place of an
    earlier one; who passed that has passed.

    Gold: questions that look like real ones and come at the rate of [quality] gold.
    They are no answers and touch no rule; each is asked of as many workers as a real
    field may be shown to.
    """
    from dispatcher.operations import questions

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        if purpose is Purpose.TEST:
            new, known = (
                questions.set_test(
                    context, store, field, file, share, accept_equal=accept_equal
                ),
                0,
            )
        else:
            added = questions.add_gold(
                context, store, field, file, accept_equal=accept_equal
            )
            new, known = added.new, added.known
    words = f"{field}: {count(new, 'question')} added"
    if purpose is Purpose.TEST:
        words += f", {share:.0%} right passes"
    if known:
        words += f", {known:,} were there already"
    context.show(
        {
            "schema": "dispatcher.questions-added/1",
            "field": field,
            "purpose": purpose.value,
            "added": new,
            "known": known,
            "pass": share if purpose is Purpose.TEST else None,
        },
        words,
    )


@app.command("list")
def list_questions(ctx: typer.Context) -> None:
    """List the fields with made-up questions, and how workers answered them."""
    from dispatcher.operations import questions

    context: CliContext = ctx.obj
    with context.open_store() as store:
        tests, gold = questions.list_tests(store), questions.list_gold(store)
    header = ("field", "purpose", "questions", "pass", "passed", "failed", "open",
              "answered", "right", "left")  # fmt: skip
    rows: list[tuple[Any, ...]] = [
        (one.row.field, "test", one.questions, *one.row[1:], None, None, None)
        for one in tests
    ]
    for own in gold:
        field, asked, *answers = own.row
        rows.append((field, "gold", asked, None, None, None, None, *answers, own.left))
    context.show(
        {
            "schema": "dispatcher.questions/1",
            "questions": [dict(zip(header, row, strict=True)) for row in rows],
        },
        context.table(
            [["-" if cell is None else cell for cell in row] for row in rows], header
        ),
    )


@app.command()
def drop(
    ctx: typer.Context,
    field: OneField,
    purpose: PurposeOption,
    dry_run: DryRun = False,
) -> None:
    """Drop a field's made-up questions: no test, or no gold, any more."""
    from dispatcher.operations import questions

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        number = questions.drop(context, store, field, purpose.value)
    context.show(
        {
            "schema": "dispatcher.questions-dropped/1",
            "field": field,
            "purpose": purpose.value,
            "dropped": number,
        },
        f"{field}: {count(number, 'question')} dropped",
    )
