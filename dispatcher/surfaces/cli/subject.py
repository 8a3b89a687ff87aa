"""``dispatcher subject``: what is there about a person, and its erasure."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import EXIT_PARTLY, Invalid, Usage
from dispatcher.core.input_files import read_input
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli.context import DRY_RUN, CliContext, DryRun, KeyFrom, leave

if TYPE_CHECKING:
    from dispatcher.custody.backup import Kept
    from dispatcher.custody.erasure import Scope
    from dispatcher.operations.subjects import Erasure

app = typer.Typer(
    help="Find what there is about a person, report it, erase it.",
    no_args_is_help=True,
)

Confirm = Annotated[
    str, typer.Option(help="What the message asks to be typed once more.")
]
KINDS = {"s": "subject", "r": "record"}


@app.command()
def find(
    ctx: typer.Context,
    key_from: KeyFrom = "-",
) -> None:
    """Find a person (or record) by the key in the operator's files, never by argument.

    A key on the command line would be in the shell's history and the process list.
    """
    from dispatcher.operations import subjects

    context: CliContext = ctx.obj
    key = _key(key_from or "-")
    with context.open_store() as store:
        found = subjects.find(store, key)
    context.show(
        {"schema": "dispatcher.subjects/1", "found": [_document(one) for one in found]},
        "\n".join(_line(one) for one in found),
    )


@app.command()
def report(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(help="As `subject find` gives it.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write it (0600)."),
    ],
    name_recipients: Annotated[
        bool, typer.Option(help="Name the workers, not only their connectors.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Write all there is about a person: data, answers, who was shown what and when.

    It is a zip file, and contains values.
    """
    from dispatcher.operations import subjects

    context: CliContext = ctx.obj
    context.spare(output)
    with context.open_store() as store:
        if dry_run:
            found = subjects.scope(store, id)
            context.show(
                {
                    "schema": "dispatcher.subject-report/1",
                    "dry_run": True,
                    **_document(found),
                },
                f"{DRY_RUN}\nwould write {output}: {_line(found)}",
            )
            return
        done = subjects.report(context, store, id, output, with_names=name_recipients)
    context.show(
        {"schema": "dispatcher.subject-report/1", "output": str(output), **done},
        f"{count(done['records'], 'record')}, {count(done['showings'], 'showing')} -> "
        f"{output}",
    )


@app.command()
def erase(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(help="As `subject find` gives it.")],
    dry_run: DryRun = False,
    confirm: Confirm = "",
) -> None:
    """Erase a person's values for good; the ledger stays, without a link to them."""
    from dispatcher.operations import subjects

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = subjects.scope(store, id)
        if dry_run:
            context.show(
                {"schema": "dispatcher.erasure/1", "dry_run": True, **_document(found)},
                f"{DRY_RUN}\n{_plan(found)}",
            )
            return
        if confirm != id:
            raise Usage(
                f"erasing {id} cannot be undone, and was not confirmed",
                why=_plan(found),
                fix=f"repeat the command with --confirm={id}",
            )
        done = subjects.erase(context, store, id)
    show_erasure(context, done, id)


def show_erasure(context: CliContext, erasure: Erasure, what: str) -> None:
    """Say what an erasure did, and what it could not: then exit 3."""
    done, backups, receipt = erasure.erased, erasure.backups, erasure.receipt
    gone = ", ".join(f"{n:,} {kind}" for kind, n in done.deleted.items() if n)
    words = [f"erased {what}: {gone or 'nothing was there any more'}"]
    for name, tasks in done.recalled.items():
        words.append(f"recalled   {count(tasks, 'open task')} from {name}")
    for name, tasks in done.beyond.items():
        what = count(tasks, "task")
        words.append(f"NOT recalled  {what} at {name}: it cannot take back")
    if done.exports:
        words.append(f"exports written anew: {', '.join(done.exports)}")
    words += [f"STILL THERE  {place}" for place in done.left]
    words += [
        f"STILL THERE  {place}: a store that a restore put aside; delete it"
        for place in done.aside
    ]
    if not done.scrubbed:
        words.append("the store's files were in use: run `dispatcher db scrub` later")
    words += _still_kept(backups)
    if receipt is not None:
        words.append(f"receipt {receipt.name} (signed)  {receipt.path}")
    context.show(
        {
            "schema": "dispatcher.erasure/1",
            "dry_run": False,
            "receipt": None if receipt is None else str(receipt.path),
            "what": what,
            "deleted": dict(done.deleted),
            "recalled": dict(done.recalled),
            "not_recalled": dict(done.beyond),
            "quarantined": done.strange,
            "exports": done.exports,
            "left": done.left,
            "put_aside": done.aside,
            "backups": [str(one.path) for one in backups.backups],
            "backups_broken": [str(path) for path in backups.broken],
            "backup_folders_away": [str(one.folder) for one in backups.away],
            "scrubbed": done.scrubbed,
        },
        "\n".join(words),
    )
    if not erasure.is_complete:
        leave(EXIT_PARTLY)


def _still_kept(backups: Kept) -> list[str]:
    words = ["backups made before now still hold the values until they are pruned"]
    counts = Counter(one.path.parent for one in backups.backups)
    words += [f"  {count:,} in {folder}" for folder, count in counts.items()]
    words += [f"  {path}: broken, but may hold them" for path in backups.broken]
    for one in backups.away:
        made = f"{one.last} was made there" if one.last else "backups may be there"
        words.append(f"  NOT LOOKED INTO {one.folder}: {one.why}, and {made}")
    return words


def _key(source: str) -> str:
    if source == "-":
        text = sys.stdin.readline()
    else:
        try:
            text = read_input(Path(source)).decode()
        except UnicodeDecodeError:
            raise Invalid(
                "the file with the key is not UTF-8",
                why="the key is text, one line",
                fix="save it as UTF-8",
            ) from None
    key = text.rstrip("\r\n")
    if not key or "\n" in key:
        raise Usage(
            "no key was given" if not key else "more than one key was given",
            why="the key is read from stdin or a file, one line",
            fix="dispatcher subject find --key-from - , then type the key",
        )
    return key


def _plan(found: Scope) -> str:
    counts = ", ".join(f"{n:,} {kind}" for kind, n in found.counts.items() if n)
    tasks = ", ".join(f"{n} at {name}" for name, n in found.open_tasks.items())
    kept = found.showings
    return (
        f"would delete  {counts or 'nothing, it is erased'}\n"
        f"open tasks    {tasks or 'none'}\n"
        f"would keep    {count(kept.lines, 'ledger entry', 'ledger entries')}, by "
        "pseudonym only\n"
        f"cannot undo   what {_seen_by(kept.adversaries)} already seen"
    )


def _seen_by(workers: int) -> str:
    return "1 worker has" if workers == 1 else f"{workers:,} workers have"


def _line(found: Scope) -> str:
    counts, kept = found.counts, found.showings
    words = (
        f"{KINDS[found.id[0]]} {found.id}   {count(counts['records'], 'record')} · "
        f"{count(counts['fields'], 'field')} · {count(kept.lines, 'showing')} to "
        f"{count(kept.adversaries, 'worker')}"
    )
    if kept.first_at is not None and kept.last_at is not None:
        words += f" · first {_day(kept.first_at)} last {_day(kept.last_at)}"
    if found.erased_at is not None:
        words += f" · erased {_day(found.erased_at)}"
    return words


def _document(found: Scope) -> dict[str, Any]:
    kept = found.showings
    return {
        "id": found.id,
        "kind": KINDS[found.id[0]],
        **found.counts,
        "open_tasks": dict(found.open_tasks),
        "showings": kept.lines,
        "adversaries": kept.adversaries,
        "first_at": kept.first_at,
        "last_at": kept.last_at,
        "erased_at": found.erased_at,
    }


def _day(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1e6, UTC).date().isoformat()
