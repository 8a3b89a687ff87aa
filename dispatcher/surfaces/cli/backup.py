"""``dispatcher backup``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import (
    EXIT_FAILED,
    EXIT_PARTLY,
    Invalid,
    Usage,
)
from dispatcher.surfaces.cli.context import (
    CliContext,
    leave,
    table,
    told_moment,
)

if TYPE_CHECKING:
    from dispatcher.custody.backup import Backup
    from dispatcher.custody.sealed_file import Secret

app = typer.Typer(
    help="Keep sealed copies of the store, and prove them.", no_args_is_help=True
)

To = Annotated[
    Path | None,
    typer.Option("--to", help="Folder; default: backups/.", file_okay=False),
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
    to: To = None,
    passphrase_file: Passphrase = None,
    key_file: KeyFileName = None,
    check: Annotated[
        bool,
        typer.Option("--verify/--no-verify", help="Prove it by restoring it aside."),
    ] = True,
) -> None:
    """Write a backup of this moment; the store may be in use."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    secret = secret_of(context, passphrase_file, key_file, fresh=True)
    folder = backups.folder_of(context, to)
    done = backups.create(context, secret, folder, check=check)
    for warning in done.warnings:
        context.say(f"WARN {warning.what}. {warning.why}")
    made = done.backup
    told = (
        "not verified" if done.checked is None else "verified by restoring it aside: ok"
    )
    context.show(
        _document(made) | {"schema": "dispatcher.backup/1", "verified": check},
        f"{made.id}  {made.size:,} bytes  {made.lines:,} ledger lines  {told}",
    )
    context.say(str(made.path))


@app.command("list")
def list_backups(ctx: typer.Context, to: To = None) -> None:
    """List backups, the newest first; no key is needed."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    good, bad = backups.found_in(backups.folder_of(context, to))
    context.show(
        {"schema": "dispatcher.backups/1", "backups": [_document(b) for b in good]},
        table(
            [(b.id, told_moment(b.at), f"{b.size:,}", f"{b.lines:,}", b.dialect)
             for b in good],
            ("BACKUP", "MOMENT", "BYTES", "LEDGER LINES", "FROM"),
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
    to: To = None,
    passphrase_file: Passphrase = None,
    key_file: KeyFileName = None,
) -> None:
    """Prove backups: each is restored aside, every line and seal checked."""
    from dispatcher.operations import backups

    context: CliContext = ctx.obj
    folder = backups.folder_of(context, to)
    secret = secret_of(context, passphrase_file, key_file)
    found: list[dict[str, Any]] = []
    if name is not None:
        path = backups.path_of(folder, name)
        lines = backups.verify(path, secret).lines
        found.append({"file": str(path), "ok": True, "lines": lines})
    for proof in backups.verify_all(folder, secret) if name is None else ():
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
    to: To = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would go.")
    ] = False,
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
    folder = backups.folder_of(context, to)
    going = backups.prune(folder, keep, dry_run=True)
    if going and not dry_run:
        context.confirm(f"delete {len(going)} backups of {folder}?")
        going = backups.prune(folder, keep)
    if forget and not dry_run and backups.is_empty(folder):
        context.confirm(f"no backup is found in {folder}: look there for none again?")
        backups.forget(context, folder)
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
            "--passphrase-file and --key-file together",
            why="A backup is sealed with one of them.",
            fix="Leave one of them out.",
        )
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
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
