"""``dispatcher restore``: a backup put back, and what follows from it, in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import Usage
from dispatcher.surfaces.cli.backup import (
    KeyFileName,
    Passphrase,
    secret_of,
)
from dispatcher.surfaces.cli.context import CliContext, told_moment

if TYPE_CHECKING:
    from dispatcher.custody.restore import Restored

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


def restore(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A backup's name or file.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="A file, or the URL of an empty database. Required."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the backups are; default: backups/.", file_okay=False),
    ] = None,
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
    passphrase_file: Passphrase = None,
    key_file: KeyFileName = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Do it aside, change nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Put a store that is there aside.")
    ] = False,
) -> None:
    """Restore a backup; it refuses to forget what was shown since."""
    from dispatcher.custody.restore import Gap
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    if not to:
        raise Usage(
            "where the store is to be restored to is not said",
            why="a restore never guesses: it would take the place of another store",
            fix=f"dispatcher restore {name} --to restored.db, or --to with the URL of an "
            "empty database; add --dry-run to see what it would do",
        )
    since = None if assume_shown_since is None else _microseconds(assume_shown_since)
    target = backups.target_of(
        context, to, shipped=ledger, key_file=key_file, force=force
    )
    done = backups.restore(
        context,
        backups.path_of(backups.folder_of(context, folder), name),
        secret_of(context, passphrase_file, key_file),
        target,
        Gap(replay=replay_ledger, shown_since=since),
        dry_run=dry_run,
    )
    if dry_run:
        context.say("DRY RUN: nothing was changed")
    context.show(
        _document(done, dry_run=dry_run),
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


def _document(done: Restored, *, dry_run: bool) -> dict[str, Any]:
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
        else ", and no anchored root tells ([ledger] anchor)"
    )
    return (
        f"taken for whole: {folder} knows what was shown up to {told_moment(done.known_to)}."
        f" Whether anything was shown later its files cannot tell{roots}. If they are a"
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
