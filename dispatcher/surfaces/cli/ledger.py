"""``dispatcher ledger``: the ledger looked at, checked, anchored, and proven from."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import EXIT_FAILED, Invalid, Usage
from dispatcher.core.input_files import read_input
from dispatcher.core.private_files import write_private
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    KeyFrom,
    Limit,
    Output,
    leave,
    told_moment,
)

if TYPE_CHECKING:
    from dispatcher.operations.ledger import ExposureProof, Verification

app = typer.Typer(
    help="Check, follow, export and anchor the ledger; prove who saw what.",
    no_args_is_help=True,
)

Heads = Annotated[
    list[str] | None,
    typer.Option("--head", help="Root of a seal noted earlier; it must be in it."),
]


@app.command()
def verify(ctx: typer.Context, head: Heads = None) -> None:
    """Check every line and seal, in the store and as shipped, and that both agree.

    What the gate trusts beside the ledger must be as its lines say.
    """
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = ledger.verify(context, store, head or ())
    context.show(
        {
            "schema": "dispatcher.ledger-check/1",
            "ok": found.holds,
            "lines": found.lines,
            "chains": found.chains,
            "seals": found.seals,
            "root": found.root,
            "shipped": found.shipped,
            "heads": found.noted,
            "missing_heads": list(found.missing),
            "edited": [one.column for one in found.edited],
            "acts": found.acts,
        },
        _verdict(found),
    )
    found.raise_if_edited()
    if not found.holds:
        leave(EXIT_FAILED)


def _verdict(found: Verification) -> str:
    lines = [
        f"{found.lines:,} lines of {found.chains:,} chains follow from each other,"
        f" {found.seals:,} seals hold",
        f"audit log: {found.acts:,} acts follow from each other",
        f"last root {found.root or 'none: nothing was sealed yet'}",
        "not shipped"
        if found.shipped is None
        else f"shipped {found.shipped:,} lines, the same as in the store",
    ]
    if found.noted:
        there = found.noted - len(found.missing)
        lines.append(f"{there:,} of {found.noted:,} noted roots are in it")
    lines += [
        f"MISSING root {root}: this ledger is not the one it was"
        for root in found.missing
    ]
    return "\n".join(lines)


@app.command()
def tail(
    ctx: typer.Context,
    limit: Limit = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the last lines of the shipped ledger, as JSON lines; ids only, no value."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    last, more = ledger.last_lines(ledger.shipped_folder(context), limit)
    sys.stdout.writelines(last)
    sys.stdout.flush()
    if follow:
        with suppress(KeyboardInterrupt):
            for text in more:
                sys.stdout.write(text)
                sys.stdout.flush()


@app.command()
def export(
    ctx: typer.Context,
    output: Output = None,
) -> None:
    """Write the whole ledger of the store as JSON lines, as in evidence."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    with context.open_store() as store:
        if output is None:
            sys.stdout.writelines(ledger.export(store))
            return
        context.spare(output)
        try:
            write_private(output, "".join(ledger.export(store)))
        except OSError as error:
            raise Invalid(
                f"{output}: {error.strerror}",
                why="the file cannot be written",
                fix="name another file",
            ) from None
    context.say(f"wrote {output}")


@app.command()
def root(
    ctx: typer.Context,
    seal: Annotated[
        bool, typer.Option("--seal", help="Seal what was written since, first.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Print the root of the last seal: note it down, and no later rewrite goes unseen."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    with context.open_store() as store:
        last = ledger.last_root(context, store, seal=seal and not dry_run)
    if seal and dry_run:
        context.say(f"{DRY_RUN}: a seal after this one would be written")
    context.show(
        {
            "schema": "dispatcher.root/1",
            "root": last.root,
            "seq": last.seq,
            "at": last.at,
        },
        last.root,
    )
    context.say(f"seal {last.seq} of {told_moment(last.at)}")


@app.command()
def replay(ctx: typer.Context, dry_run: DryRun = False) -> None:
    """Book what the store has forgotten from its shipped ledger, in place."""
    from dispatcher.operations import ledger
    from dispatcher.surfaces.cli.backup import AFTERWARDS, UNLISTED

    context: CliContext = ctx.obj
    with context.open_to_book(dry_run=dry_run) as store:
        done = ledger.replay(context, store)
    context.show(
        {
            "schema": "dispatcher.replayed/1",
            "lines": done.lines,
            "erased_again": done.erased,
            "erasures_listed": done.listed,
        },
        f"{done.lines:,} lines replayed; store and shipped ledger agree",
    )
    if done.erased:
        context.say(f"{done.erased:,} people and records were erased again")
    if done.lines and not done.listed:
        context.say(UNLISTED)
    if done.lines or done.erased:
        context.say(AFTERWARDS)


@app.command()
def prove(
    ctx: typer.Context,
    about: Annotated[
        str | None,
        typer.Argument(
            help="RECORD.FIELD, or a subject's pseudonym (s...).",
            autocompletion=completion.record_fields,
        ),
    ] = None,
    key_from: KeyFrom = None,
    output: Output = None,
) -> None:
    """Say who saw what, with a proof up to the root of the last seal."""
    from dispatcher.operations import ledger

    context: CliContext = ctx.obj
    if (about is None) == (key_from is None):
        raise Usage(
            "prove what?",
            why="a proof is about one field, or about one person",
            fix="name RECORD.FIELD or a pseudonym, or give --key-from FILE",
        )
    with context.open_store() as store:
        proof = (
            ledger.prove(store, about)
            if about is not None
            else ledger.prove_subject(store, _key_from(key_from or "-"))
        )
    words = showings(context, proof.showings)
    if output is not None:
        context.spare(output)
        write_private(output, json.dumps(proof.document, ensure_ascii=False) + "\n")
        context.say(f"wrote {output}; check it: dispatcher audit verify {output}")
        context.show(showings_document(proof), words)
    else:
        context.show(proof.document, words)
    context.say(f"{len(proof.showings)} showings, root {proof.root}")


def showings_document(proof: ExposureProof) -> dict[str, Any]:
    """Write what a proof proves, for ``--json``."""
    return {
        "schema": "dispatcher.showings/1",
        "root": proof.root,
        "showings": [
            {name: line[name] for name in ("at", "account", "entry", "cause", "chain")}
            for line in proof.showings
        ],
    }


def showings(context: CliContext, found: list[dict[str, Any]]) -> str:
    """Lay showings out for people."""
    rows = [
        (told_moment(line["at"]), line["account"], line["entry"], line["cause"])
        for line in found
    ]
    return context.table(rows, ("shown", "account", "entry", "cause"))


def _key_from(source: str) -> str:
    try:
        text = sys.stdin.read() if source == "-" else read_input(Path(source)).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Invalid(
            f"{source}: {reason}", why="the key cannot be read", fix="check the path"
        ) from None
    return text.strip("\r\n")
