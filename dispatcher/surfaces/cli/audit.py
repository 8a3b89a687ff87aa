"""``dispatcher audit``: evidence for a privacy officer, and its check."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from dispatcher.surfaces.cli.context import CliContext, leave, told_moment

SPOKEN: Final = {"accepted": "findings past a limit that were accepted"}
"""Names of counts that say too little by themselves."""

app = typer.Typer(
    help="Export evidence and verify it; read the audit log.", no_args_is_help=True
)


@app.command()
def export(
    ctx: typer.Context,
    directory: Annotated[
        Path, typer.Argument(help="A new directory.", file_okay=False)
    ],
) -> None:
    """Write a seal and the evidence bundle: ids, facts and lines, no field value."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    with context.open_store() as store:
        bundle = ledger.export_evidence(context, store, directory)
    context.show(
        {
            "schema": "dispatcher.evidence/1",
            "directory": str(directory),
            "root": bundle.root,
            "lines": bundle.lines,
            **bundle.counts,
        },
        f"wrote {directory}: {bundle.lines:,} ledger lines, "
        + ", ".join(
            f"{count:,} {SPOKEN.get(name, name)}"
            for name, count in bundle.counts.items()
        )
        + f"\nroot {bundle.root}   note it down: no later rewrite goes unseen"
        f"\nnext: dispatcher audit verify {directory} --head {bundle.root}",
    )


@app.command()
def verify(
    ctx: typer.Context,
    directory: Annotated[
        Path, typer.Argument(help="A bundle, as export wrote it.", file_okay=False)
    ],
    head: Annotated[
        list[str] | None,
        typer.Option(help="Root of a seal noted earlier; it must be in the ledger."),
    ] = None,
) -> None:
    """Check a bundle with the verifier, in a process of its own.

    The exit status is the verifier's: 0 verified, 1 violated, 2 broken.
    """
    from dispatcher.operations import ledger

    verdict = ledger.verify_evidence(directory, head or ())
    context: CliContext = ctx.obj
    document = {
        "schema": "dispatcher.verdict/1",
        "verdict": verdict.first.partition(" ")[0].rstrip(":"),
        "status": verdict.status,
        "text": verdict.text,
    }
    context.show(document, verdict.text, end="")
    leave(verdict.status)


@app.command()
def log(
    ctx: typer.Context,
    actor: Annotated[
        str | None, typer.Option(help="Only what this one did, as the log names it.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this, such as worker.merged.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="At most so many.")
    ] = 100,
) -> None:
    """Show who did what, the newest first: ids, numbers and reasons, no value."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = ledger.audit_log(store, actor=actor, action=action, limit=limit)
    lines = [
        (told_moment(one.at), one.actor, one.action, json.dumps(dict(one.detail)))
        for one in found
    ]
    context.show(
        {
            "schema": "dispatcher.audit-log/1",
            "lines": [asdict(one) for one in found],
        },
        context.table(lines, ("at", "actor", "action", "detail")),
    )
    if len(found) == limit:
        context.say(f"the newest {limit:,}; see more with --limit")
