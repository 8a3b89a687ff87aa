"""``dispatcher audit``: evidence for a privacy officer, and its check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from dispatcher.core.errors import EXIT_FAILED, Invalid
from dispatcher.core.input_files import read_input
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    Limit,
    leave,
    told_moment,
)
from dispatcher.surfaces.cli.ledger import Heads, showings, showings_document

SPOKEN: Final = {"accepted": "findings past a limit that were accepted"}
"""Names of counts that say too little by themselves."""

Actor = Annotated[
    str | None, typer.Option(help="Only what this one did, as the log names it.")
]

app = typer.Typer(
    help="Export evidence and verify it; read the audit log.", no_args_is_help=True
)


@app.command()
def export(
    ctx: typer.Context,
    directory: Annotated[
        Path, typer.Argument(help="A new directory.", file_okay=False)
    ],
    dry_run: DryRun = False,
) -> None:
    """Write a seal and the evidence bundle: ids, facts and lines, no field value."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    if dry_run:
        context.say(
            f"{DRY_RUN}: evidence would be written to {directory}, after a seal"
        )
        return
    with context.open_store() as store:
        bundle = ledger.export_evidence(context, store, directory)
    context.show(
        {
            "schema": "dispatcher.evidence/1",
            "directory": str(directory),
            "root": bundle.root,
            "lines": bundle.lines,
            "acts": bundle.acts,
            "last_act": bundle.last_act,
            **bundle.counts,
        },
        f"wrote {directory}: {bundle.lines:,} ledger lines, "
        + ", ".join(
            f"{count:,} {SPOKEN.get(name, name)}"
            for name, count in bundle.counts.items()
        )
        + f"\nroot {bundle.root}   note it down: no later rewrite goes unseen"
        f"\naudit log: {bundle.acts:,} acts, the last {bundle.last_act}"
        f"\nnext: dispatcher audit verify {directory} --head {bundle.root}",
    )


@app.command()
def verify(
    ctx: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(
            help="A bundle (audit export), a proof (ledger prove) or an erasure's "
            "receipt (receipts/)."
        ),
    ],
    head: Heads = None,
    public_key: Annotated[
        str,
        typer.Option(help="Receipts: 64 hex digits; default: this store's own key."),
    ] = "",
) -> None:
    """Check what was handed out: evidence, a proof, or the receipt of an erasure.

    A bundle is checked by the verifier in a process of its own, whose exit status it
    has: 0 verified, 1 violated, 2 broken. A proof needs no store, and a receipt none
    with --public-key.
    """
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    if path.is_dir():
        _verify_bundle(context, path, head or ())
    document = read_document(path)
    if document.get("schema") == ledger.PROOF:
        _verify_proof(context, document, head or ())
    else:
        _verify_receipt(context, path, public_key)


def read_document(path: Path) -> dict[str, Any]:
    """Read a JSON document that was handed out.

    Raises
    ------
    Invalid
        It cannot be read, or is none.
    """
    try:
        found = json.loads(read_input(path))
        if isinstance(found, dict):
            return found
        reason = "it is no JSON object"
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error.strerror) if isinstance(error, OSError) else "it is not JSON"
    raise Invalid(
        f"{path}: {reason}",
        why="a bundle is a directory, a proof and a receipt are JSON files",
        fix="check the path",
    )


def _verify_bundle(context: CliContext, path: Path, head: Sequence[str]) -> NoReturn:
    from dispatcher.operations import ledger

    verdict = ledger.verify_evidence(path, head)
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
    actor: Actor = None,
    operation: Annotated[
        str | None,
        typer.Option(metavar="NOUN", help="Only this noun, or this NOUN.VERB."),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(help="From this time on (UTC).")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Before this time (UTC).")
    ] = None,
    limit: Limit = 100,
) -> None:
    """Show who did what, and why, by command, API and console; the newest first.

    Records and people stand there by their pseudonyms. The lines form a chain of their
    own, which ledger verify checks and audit export hands out.
    """
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = people.audit_lines(
            store,
            actor=actor,
            operation=operation,
            since=_micros(since, 0),
            until=_micros(until, 2**63 - 1),
            limit=limit,
        )
    lines = [
        (
            told_moment(one.at),
            one.actor,
            one.surface,
            one.operation,
            one.target or "-",
            one.outcome,
            one.reason,
        )
        for one in found
    ]
    header = ("at", "actor", "by", "operation", "on", "outcome", "reason")
    context.show(
        {
            "schema": "dispatcher.audit-log/1",
            "lines": [asdict(one) for one in found],
        },
        context.table(lines, header),
    )
    _more(context, len(found), limit)


def _micros(moment: datetime | None, default: int) -> int:
    if moment is None:
        return default
    return round(moment.replace(tzinfo=UTC).timestamp() * 1_000_000)


def _more(context: CliContext, shown: int, limit: int) -> None:
    if shown == limit:
        context.say(f"the newest {limit:,}; see more with --limit")


@app.command()
def events(
    ctx: typer.Context,
    actor: Actor = None,
    action: Annotated[
        str | None, typer.Option(help="Only this, such as worker.merged.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """Show what happened, also by workers and the daemon: ids and numbers, no value."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = ledger.list_events(store, actor=actor, action=action, limit=limit)
    lines = [
        (told_moment(one.at), one.actor, one.action, json.dumps(dict(one.detail)))
        for one in found
    ]
    context.show(
        {"schema": "dispatcher.events/1", "lines": [asdict(one) for one in found]},
        context.table(lines, ("at", "actor", "action", "detail")),
    )
    _more(context, len(found), limit)


def _verify_proof(
    context: CliContext, document: dict[str, Any], head: Sequence[str]
) -> None:
    from dispatcher.operations import ledger

    found = ledger.check_proof(document, head)
    context.show(showings_document(found), showings(context, found.showings))
    context.say(f"{len(found.showings)} showings, proven under root {found.root}")


def _verify_receipt(context: CliContext, path: Path, public_key: str) -> None:
    from dispatcher.operations import subjects

    check = subjects.check_receipt(context, path, public_key)
    ok, found = check.holds, check.receipt
    day = datetime.fromtimestamp(found["at"] / 1e6, UTC).date() if ok else ""
    context.show(
        {"schema": "dispatcher.receipt-check/1", "ok": ok, "receipt": found},
        f"VERIFIED {found['receipt']}: {found['erased']} was erased {day}; signed under "
        f"key {check.key}"
        if ok
        else f"BROKEN: {path} was changed, or signed by another store",
    )
    if not ok:
        leave(EXIT_FAILED)
