"""``dispatcher demo``: the main job, end to end, on invented prescriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.core.errors import EXIT_FAILED
from dispatcher.surfaces.cli.context import CliContext, Seed, leave


def demo(
    ctx: typer.Context,
    directory: Annotated[
        Path, typer.Argument(help="A new directory to run in.", file_okay=False)
    ] = Path("demo"),
    records: Annotated[
        int, typer.Option(min=1, max=10_000, help="Prescriptions to draw.")
    ] = 100,
    workers: Annotated[
        int,
        typer.Option(
            min=5,
            max=200,
            help="A fifth work by folder; fewer than 11 cannot finish every form.",
        ),
    ] = 20,
    seed: Seed = 7,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Give up after so many.")
    ] = 10.0,
    patience: Annotated[
        float, typer.Option(min=1, help="Or after so many seconds without an answer.")
    ] = 30.0,
    keep: Annotated[
        bool, typer.Option("--leave-up", help="Leave the daemon running at the end.")
    ] = False,
) -> None:
    """Run it all: drawn forms, simulated workers over HTTP and files, the proof."""
    from dispatcher.surfaces.demo.show import Scenario, run

    context: CliContext = ctx.obj
    scenario = Scenario(
        directory=directory.absolute(),
        records=records,
        workers=workers,
        seed=7 if seed is None else seed,
        seconds=minutes * 60,
        patience=patience,
        keep=keep,
    )
    outcome = run(scenario, context.say)
    context.show(
        {
            "schema": "dispatcher.demo/1",
            "good": outcome.good,
            "seconds": round(outcome.seconds, 1),
            **outcome.found.document(),
        },
        outcome.found.text(outcome.seconds),
    )
    if not outcome.good:
        leave(EXIT_FAILED)
