"""``dispatcher backup``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import (
    EXIT_FAILED,
    EXIT_PARTLY,
    DispatcherError,
    Invalid,
    NotFound,
    Usage,
)
from dispatcher.surfaces.cli.context import (
    CliContext,
    leave,
    table,
    told_moment,
    wall_clock,
)

if TYPE_CHECKING:
    from dispatcher.custody.backup import Backup
    from dispatcher.custody.sealed_file import Secret
    from dispatcher.ledger.shipping.checking import Checked
    from dispatcher.store import Store

app = typer.Typer(
    help="Keep sealed copies of the store, and prove them.", no_args_is_help=True
)

FOLDER = Path("backups")
SHORTEST = 12
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
    from dispatcher.store import copies, moments

    context: CliContext = ctx.obj
    secret = secret_of(context, passphrase_file, key_file, fresh=True)
    folder = folder_of(context, to)
    noted = _noted(context, folder)
    with context.open_store() as store:
        with _warned(context), store.write() as tx:
            copies.note_folder(tx, noted)  # first: an erasure looks for backups there
        try:
            made, proven = written(store, folder, secret, check=check)
        except DispatcherError:
            with suppress(DispatcherError, OSError):
                _take_back(store, folder, noted)
            raise
        with _warned(context):
            store.settle(afresh=True)  # the ledger has all that the backup has
    with _warned(context), context.open_store() as store, store.write() as tx:
        copies.note_folder(tx, noted, made.id)
        moments.note_moment(tx, moments.BACKUP_MADE, wall_clock())
    told = "not verified" if proven is None else "verified by restoring it aside: ok"
    context.show(
        _document(made) | {"schema": "dispatcher.backup/1", "verified": check},
        f"{made.id}  {made.size:,} bytes  {made.lines:,} ledger lines  {told}",
    )
    context.say(str(made.path))


@contextmanager
def _warned(context: CliContext) -> Iterator[None]:
    """Tell an error, and go on: a backup is worth more than a note of it."""
    try:
        yield
    except DispatcherError as error:
        context.say(f"WARN {error.what}. {error.why}")


def _noted(context: CliContext, folder: Path) -> str:
    """What a store calls a folder."""
    from dispatcher.store import copies

    place = os.path.realpath(folder)
    return copies.OWN if place == os.path.realpath(folder_of(context, None)) else place


def _take_back(store: Store, folder: Path, noted: str) -> None:
    """Let a store forget a folder if no backup was written to it."""
    from dispatcher.custody import backup
    from dispatcher.store import copies

    if backup.found_in(folder) == ([], []):
        with store.write() as tx:
            copies.take_back(tx, noted)


def written(
    store: Store, folder: Path, secret: Secret, *, check: bool = True
) -> tuple[Backup, Checked | None]:
    """Write a backup, and prove it unless ``check`` is off."""
    from dispatcher.custody import backup

    made = backup.create(store, folder, secret, clock=wall_clock)
    return made, backup.verify(made.path, secret) if check else None


def before_upgrade(context: CliContext) -> Backup:
    """Back up a store whose schema may be older, with the key file; prove the backup."""
    with context.open_store(older=True) as store:
        made, _ = written(
            store, folder_of(context, None), secret_of(context, None, None)
        )
    return made


@app.command("list")
def list_backups(ctx: typer.Context, to: To = None) -> None:
    """List backups, the newest first; no key is needed."""
    from dispatcher.custody import backup

    context: CliContext = ctx.obj
    good, bad = backup.found_in(folder_of(context, to))
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
    from dispatcher.custody import backup

    context: CliContext = ctx.obj
    folder = folder_of(context, to)
    secret = secret_of(context, passphrase_file, key_file)
    if name is not None:
        paths = [path_of(folder, name)]
    else:
        good, bad = backup.found_in(folder)
        paths = [*(b.path for b in good), *bad]
    found: list[dict[str, Any]] = []
    for path in paths:
        try:
            proven = backup.verify(path, secret)
        except DispatcherError as error:
            if name is not None:
                raise
            found.append({"file": str(path), "ok": False, "code": error.code})
            context.say(f"FAIL {path}: {error.what}. {error.why}")
        else:
            found.append({"file": str(path), "ok": True, "lines": proven.lines})
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
    from dispatcher.custody import backup

    context: CliContext = ctx.obj
    folder = folder_of(context, to)
    going = backup.prune(folder, keep=keep, dry_run=True)
    if going and not dry_run:
        context.confirm(f"delete {len(going)} backups of {folder}?")
        going = backup.prune(folder, keep=keep)
    if forget and not dry_run and backup.found_in(folder) == ([], []):
        _forget(context, folder)
    context.show(
        {
            "schema": "dispatcher.pruned/1",
            "dry_run": dry_run,
            "backups": [b.id for b in going],
        },
        "\n".join(f"{'would delete' if dry_run else 'deleted'} {b.id}" for b in going),
    )


def _forget(context: CliContext, folder: Path) -> None:
    """Let the store forget a folder, once the operator says that it holds none."""
    from dispatcher.store import copies

    context.confirm(f"no backup is found in {folder}: look there for none again?")
    with context.open_store() as store, store.write() as tx:
        for name in (_noted(context, folder), os.path.realpath(folder)):
            copies.forget_folder(tx, name)  # a restore notes the path of any folder


def folder_of(context: CliContext, given: Path | None) -> Path:
    """Folder of the backups: the one that is given, else the settings' own."""
    return given if given is not None else context.directory / FOLDER


def path_of(folder: Path, name: str) -> Path:
    """File of a backup, named by its path or its name.

    Raises
    ------
    NotFound
    """
    for path in (Path(name), folder / name, folder / f"{name}.backup"):
        if path.is_file():
            return path
    raise NotFound(
        f"there is no backup {name}",
        why=f"Neither a file of that name nor {folder / name}.backup is there.",
        fix="See which there are: dispatcher backup list",
    )


def secret_of(
    context: CliContext,
    source: str | None,
    key_file: Path | None,
    *,
    fresh: bool = False,
) -> Secret:
    """What the backup is sealed with: a passphrase, or the keys of a key file."""
    from dispatcher.core.keyring import read_keyring
    from dispatcher.custody.sealed_file import Secret

    if source is None:
        file = context.key_file
        ring = (
            read_keyring(file.path, credential=file.credential)
            if key_file is None
            else read_keyring(key_file)
        )
        return Secret(keys={key.id: key.secret for key in ring.keys})
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
            why="the passphrase can not be read",
            fix="check the path and its permissions",
        ) from None
    words = data.rstrip(b"\r\n")
    if fresh and len(words) < SHORTEST:
        raise Usage(
            f"the passphrase has fewer than {SHORTEST} bytes",
            why="Whoever gets a backup can try short ones all.",
            fix="Take six random words, or the key file (no option).",
        )
    return Secret(passphrase=words)


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
