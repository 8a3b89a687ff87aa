"""``dispatcher backup``."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import EXIT_FAILED, EXIT_PARTLY, Invalid, Usage
from dispatcher.core.input_files import read_input
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    leave,
    told_moment,
)

if TYPE_CHECKING:
    from dispatcher.custody.backup import Backup
    from dispatcher.custody.restore import Restored
    from dispatcher.custody.sealed_file import Secret

app = typer.Typer(
    help="Keep sealed copies of the store, prove them, restore one.",
    no_args_is_help=True,
)

Folder = Annotated[
    Path | None,
    typer.Option(help="Where the backups are; default: backups/.", file_okay=False),
]
Passphrase = Annotated[
    str | None,
    typer.Option(help="File with the passphrase, - for stdin; else the key file."),
]
KeyFileName = Annotated[
    Path | None,
    typer.Option("--key-file", help="Another key file than the settings' own."),
]


@app.command()
def create(
    ctx: typer.Context,
    folder: Folder = None,
    passphrase_from: Passphrase = None,
    key_file: KeyFileName = None,
    check: Annotated[
        bool,
        typer.Option("--verify/--no-verify", help="Prove it by restoring it aside."),
    ] = True,
    dry_run: DryRun = False,
) -> None:
    """Write a backup of this moment; the store may be in use."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    secret = secret_of(context, passphrase_from, key_file, fresh=True)
    place = backups.folder_of(context, folder)
    if dry_run:
        context.say(DRY_RUN)
        context.show(
            {
                "schema": "dispatcher.backup/1",
                "dry_run": True,
                "folder": str(place),
            },
            f"would write a backup to {place}",
        )
        return
    done = backups.create(context, secret, place, check=check)
    for warning in done.warnings:
        context.say(f"WARN {warning.what}. {warning.why}")
    made = done.backup
    verdict = (
        "not verified" if done.checked is None else "verified by restoring it aside: ok"
    )
    context.show(
        _document(made) | {"schema": "dispatcher.backup/1", "verified": check},
        f"{made.id}  {made.size:,} bytes  {made.lines:,} ledger lines  {verdict}",
    )
    context.say(str(made.path))


@app.command("list")
def list_backups(ctx: typer.Context, folder: Folder = None) -> None:
    """List backups, the newest first; no key is needed."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    good, bad = backups.found_in(backups.folder_of(context, folder))
    context.show(
        {"schema": "dispatcher.backups/1", "backups": [_document(b) for b in good]},
        context.table(
            [(b.id, told_moment(b.at), f"{b.size:,}", f"{b.lines:,}", b.dialect)
             for b in good],
            ("backup", "moment", "bytes", "ledger lines", "from"),
        ),
    )  # fmt: skip
    for path in bad:
        context.say(f"WARN {path} is no whole backup")


@app.command()
def verify(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A backup's name or file; default: all.")
    ] = None,
    folder: Folder = None,
    passphrase_from: Passphrase = None,
    key_file: KeyFileName = None,
) -> None:
    """Prove backups: each is restored aside, every line and seal checked."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    place = backups.folder_of(context, folder)
    secret = secret_of(context, passphrase_from, key_file)
    found: list[dict[str, Any]] = []
    if name is not None:
        path = backups.path_of(place, name)
        lines = backups.verify(path, secret).lines
        found.append({"file": str(path), "ok": True, "lines": lines})
    for proof in backups.verify_all(place, secret) if name is None else ():
        if proof.error is None:
            found.append({"file": str(proof.path), "ok": True, "lines": proof.lines})
        else:
            error = proof.error
            found.append({"file": str(proof.path), "ok": False, "code": error.code})
            context.say(f"FAIL {proof.path}: {error.what}. {error.why}")
    wrong = sum(not one["ok"] for one in found)
    context.show(
        {"schema": "dispatcher.backup-check/1", "backups": found},
        "\n".join(f"{'ok' if one['ok'] else 'FAIL'}\t{one['file']}" for one in found),
    )
    if wrong:
        leave(EXIT_FAILED if wrong == len(found) else EXIT_PARTLY)


@app.command()
def prune(
    ctx: typer.Context,
    keep: Annotated[int, typer.Option(min=1, help="Keep so many, the newest.")],
    folder: Folder = None,
    dry_run: DryRun = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="If none is there any more, look there for none again."
        ),
    ] = False,
) -> None:
    """Delete all but the newest backups."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    place = backups.folder_of(context, folder)
    going = backups.prune(place, keep, dry_run=True)
    if going and not dry_run:
        context.confirm(f"delete {len(going)} backups of {place}?")
        going = backups.prune(place, keep)
    if forget and not dry_run and backups.is_empty(place):
        context.confirm(f"no backup is found in {place}: look there for none again?")
        backups.forget(context, place)
    context.show(
        {
            "schema": "dispatcher.pruned/1",
            "dry_run": dry_run,
            "backups": [b.id for b in going],
        },
        "\n".join(f"{'would delete' if dry_run else 'deleted'} {b.id}" for b in going),
    )


def secret_of(
    context: CliContext,
    source: str | None,
    key_file: Path | None,
    *,
    fresh: bool = False,
) -> Secret:
    """What the backup is sealed with: a passphrase, or the keys of a key file."""
    from dispatcher.operations import backups

    if source is None:
        return backups.key_secret(context, key_file)
    if key_file is not None:
        raise Usage(
            "--passphrase-from and --key-file together",
            why="A backup is sealed with one of them.",
            fix="Leave one of them out.",
        )
    try:
        data = sys.stdin.buffer.read() if source == "-" else read_input(Path(source))
    except OSError as error:
        raise Invalid(
            f"{source}: {error.strerror}",
            why="the passphrase cannot be read",
            fix="check the path and its permissions",
        ) from None
    return backups.passphrase_secret(data.rstrip(b"\r\n"), new=fresh)


def _document(made: Backup) -> dict[str, Any]:
    return {
        "id": made.id,
        "file": str(made.path),
        "at": made.at,
        "bytes": made.size,
        "ledger_lines": made.lines,
        "schema_of_store": made.schema,
        "from": made.dialect,
    }


AFTERWARDS = (
    "all is paused, and workers need new links: blocks, pauses and revoked links since the"
    " backup are in no ledger. Repeat them, then: dispatcher resume --all"
)
UNLISTED = (
    "WARN there is no list of erasures (erasures.jsonl), neither beside dispatcher.toml nor"
    " with the shipped ledger: whoever was erased after the backup is back, with all"
    " values. Put the list beside dispatcher.toml: dispatcher up erases them again before"
    " anything is shown. Or erase them yourself (dispatcher subject erase) before you resume"
)


@app.command()
def restore(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A backup's name or file.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="A file, or the URL of an empty database. Required."),
    ] = None,
    folder: Folder = None,
    replay_ledger: Annotated[
        bool,
        typer.Option("--replay-ledger", help="Book what was shipped since."),
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Folder of the shipped ledger, if not the settings' own."),
    ] = None,
    assume_shown_since: Annotated[
        str | None,
        typer.Option(
            help="The ledger is lost: what may have been shown since counts as shown."
        ),
    ] = None,
    passphrase_from: Passphrase = None,
    key_file: KeyFileName = None,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Put a store that is there aside.")
    ] = False,
) -> None:
    """Restore a backup; it refuses to forget what was shown since."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    backup = backups.path_of(backups.folder_of(context, folder), name)
    if not to:
        raise Usage(
            "where the store is to be restored to is not said",
            why="a restore never guesses: it would take the place of another store",
            fix=f"dispatcher backup restore {name} --to restored.db, or --to with the URL of an "
            "empty database; add --dry-run to see what it would do",
        )
    since = None if assume_shown_since is None else _microseconds(assume_shown_since)
    target = backups.target_of(
        context, to, shipped=ledger, key_file=key_file, force=force
    )
    done = backups.restore(
        context,
        backup,
        secret_of(context, passphrase_from, key_file),
        target,
        replay=replay_ledger,
        shown_since=since,
        dry_run=dry_run,
    )
    if dry_run:
        context.say(DRY_RUN)
    context.show(
        _restored_document(done, dry_run=dry_run),
        f"{done.backup.id} restored to {to}: {done.lines:,} ledger lines,"
        f" {done.replayed:,} of them replayed, {done.assumed:,} showings assumed",
    )
    if done.known_to:
        context.say(_known_to(done, target.shipped))
    if done.other_key:
        context.say(
            f"{key_file} opens the store: copy it to {context.key_file.path}, or name it"
            " as key_file in dispatcher.toml"
        )
    _say_what_follows(context, done)


def _restored_document(done: Restored, *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": "dispatcher.restored/1",
        "dry_run": dry_run,
        "backup": done.backup.id,
        "lines": done.lines,
        "replayed": done.replayed,
        "assumed": done.assumed,
        "recused": done.recused,
        "lost_records": done.lost,
        "erased_again": done.erased,
        "erasures_listed": done.listed,
        "known_to": done.known_to or None,
        "anchored_roots": done.anchored,
        "put_aside": None if done.aside is None else str(done.aside),
    }


def _known_to(done: Restored, folder: Path | None) -> str:
    roots = (
        f"; all {done.anchored:,} anchored roots are in it"
        if done.anchored
        else ", and no roots are anchored ([ledger] anchor)"
    )
    return (
        f"taken for whole: {folder} knows what was shown up to {told_moment(done.known_to)}."
        f" Its files cannot show whether anything was shown later{roots}. If they are a"
        " copy from before the last showing, throw this store away and restore with the"
        " folder that the ledger was last shipped to"
    )


def _say_what_follows(context: CliContext, done: Restored) -> None:
    if done.aside is not None:
        context.say(
            f"what was there is kept as {done.aside}, with all its values: delete it when"
            " it is not needed any more"
        )
    if done.lost:
        context.say(
            f"{done.lost:,} records were loaded after the backup: load their files again,"
            " and what was shown of them counts"
        )
    if not done.listed:
        context.say(UNLISTED)
    context.say(AFTERWARDS)
    if done.recused:
        context.say(
            f"{done.recused:,} pairs of a worker and a record or person are closed for"
            " good: new workers are needed for these (docs/howto/operators/backup.md)"
        )


def _microseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(re.sub(r"Z$", "+00:00", text.strip()))
    except ValueError:
        raise Usage(
            f"{text!r} is no time",
            why="A time is written as in ISO 8601.",
            fix="Write it like 2026-11-27T02:00:00Z; without a zone it is UTC.",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)
