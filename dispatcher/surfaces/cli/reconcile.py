"""``dispatcher connectors reconcile``: what a market has of us, against what we know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.core.errors import EXIT_TRY_LATER, Usage
from dispatcher.surfaces.cli.context import CliContext, table

if TYPE_CHECKING:
    from dispatcher.stages.reconciling import Drift

MEANING = {
    "unknown": "open there, not known here: withdraw",
    "arrived": "given up here, lies there: count as sent",
    "unwithdrawn": "withdrawn here, open there: withdraw again",
    "gone": "sent, not there any more: return to the plan",
    "refused": "the market would not withdraw it",
    "foreign": "another store's: left alone",
}


def reconcile(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A market of the settings.")],
    mend: Annotated[
        bool, typer.Option("--mend", help="Mend what differs, as the daemon does.")
    ] = False,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Also where most of what was sent is gone there."),
    ] = False,
    answers: Annotated[
        bool,
        typer.Option("--answers", help="Have all answers that lie there read again."),
    ] = False,
) -> None:
    """Hold what a market has of this store against what the store knows.

    The daemon does this every day, and mends. Exit status 1: they differ, and nothing
    was mended.
    """
    from connectors.base import TryLater
    from dispatcher.operations import connectors
    from dispatcher.stages.reconciling import Mending

    if trust and not mend:
        raise Usage(
            "--trust without --mend", why="it says what may be mended", fix="add --mend"
        )
    context: CliContext = ctx.obj
    connectors.values_of(context, name)
    with context.open_store() as store:
        try:
            how = Mending(mend=mend, trust=trust)
            drift = connectors.reconcile(context, store, name, how)
        except TryLater as error:
            typer.echo(f"LATER {error.what}", err=True)
            raise typer.Exit(EXIT_TRY_LATER) from error
        if answers:
            connectors.collect_again(store, name)
    _show(context, name, drift, mended=mend)
    if drift.differs and not mend:
        raise typer.Exit(1)


def _show(context: CliContext, name: str, drift: Drift, *, mended: bool) -> None:
    lines = [f"{drift.listed:,} offers lie at {name}"]
    found = [
        [f"{drift.counts[kind]:,}", kind, told, " ".join(drift.examples.get(kind, ()))]
        for kind, told in MEANING.items()
        if drift.counts.get(kind)
    ]
    header = ("count", "what", "so", "which")
    lines += [table(found, header)] if found else ["nothing differs"]
    if drift.doubtful:
        lines.append(
            "most of what was sent is gone there: see whether the list can be right, then"
            " --mend --trust"
        )
    elif drift.differs and not mended:
        lines.append("nothing was changed: --mend")
    context.show(
        {
            "schema": "dispatcher.connectors.reconcile/1",
            "name": name,
            "listed": drift.listed,
            "differs": drift.differs,
            "doubtful": drift.doubtful,
            "mended": mended,
            **{kind: drift.counts.get(kind, 0) for kind in MEANING},
            "examples": {k: list(v) for k, v in drift.examples.items()},
        },
        "\n".join(lines),
    )
