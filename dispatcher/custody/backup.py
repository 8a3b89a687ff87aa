"""Backups: a snapshot of all rows, encrypted, and verified by restoring it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from dispatcher.core import progress
from dispatcher.core.errors import (
    BackupBroken,
    Conflict,
    NeedsMigration,
    NotFound,
    NotShipped,
)
from dispatcher.core.input_files import open_input
from dispatcher.core.private_files import private, sync_folder
from dispatcher.custody.sealed_file import (
    Secret,
    read_header,
    read_sealed,
    write_sealed,
)
from dispatcher.ledger.shipping import store_id
from dispatcher.ledger.shipping.checking import Checked, check_store
from dispatcher.store import Clock, Store, migrations, settings
from dispatcher.store.dumping import Lines, broken, dumped, extent, rebuilt, row_count

SUFFIX: Final = ".backup"


MIB: Final = 2**20


@dataclass(frozen=True)
class Backup:
    """Metadata of one backup, readable without a key.

    Attributes
    ----------
    path : Path
    id : str
    at : int
        Time of the snapshot, microseconds UTC.
    schema, store, dialect : str
    lines : int
        Lines of the ledger in it.
    size : int
        Bytes of the file.
    """

    path: Path
    id: str
    at: int
    schema: str
    store: str
    dialect: str
    lines: int
    size: int


def create(
    store: Store,
    folder: Path,
    secret: Secret,
    *,
    clock: Clock,
    entropy: Callable[[int], bytes] = os.urandom,
) -> Backup:
    """Write a backup of a store that may be in use.

    It is a consistent snapshot; the file appears complete and synced, or not at all.

    Parameters
    ----------
    store : Store
    folder : Path
        Created (0700) if missing.
    secret : Secret
    clock : Clock
    entropy : callable

    Raises
    ------
    Conflict
        A backup of the same second exists.
    NotShipped
        The disk there is full or cannot be written.
    """
    at = clock()
    moment = datetime.fromtimestamp(at / 1_000_000, UTC)
    name = f"bk_{moment:%Y%m%dT%H%M%SZ}"
    path = folder / f"{name}{SUFFIX}"
    if path.exists():
        raise Conflict(
            f"{path} is there already",
            why="A backup is named by its second.",
            fix="Wait a second.",
        )
    partial = folder / f".{name}.partial"
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        with open(partial, "xb", opener=private) as file:
            with store.read() as tx:
                reach = extent(tx)
                header = {
                    "format": 1,
                    "id": name,
                    "at": at,
                    "dialect": store.dialect,
                    "schema": reach.schema,
                    "store": store_id(store),
                    "lines": reach.lines,
                }
                lines = progress.counted(dumped(tx), "rows", lambda: row_count(tx))
                write_sealed(file, header, iter(lines), secret, entropy)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        sync_folder(folder)
    except OSError as error:
        raise NotShipped(
            f"the backup cannot be written to {folder}",
            why=f"{error.strerror or error}.",
            fix="Make room, or name another folder: --to DIR",
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return look(path)


def look(path: Path) -> Backup:
    """Read the header of a backup; this needs no key and verifies nothing.

    Raises
    ------
    NotFound, BackupBroken
    """
    with _open(path) as file:
        header, _ = read_header(file)
    try:
        return Backup(
            path=path,
            id=str(header["id"]),
            at=int(header["at"]),
            schema=str(header["schema"]),
            store=str(header["store"]),
            dialect=str(header["dialect"]),
            lines=int(header["lines"]),
            size=path.stat().st_size,
        )
    except (KeyError, TypeError, ValueError):
        raise broken("its header cannot be read") from None


def found_in(folder: Path) -> tuple[list[Backup], list[Path]]:
    """Find the backups in a folder, newest first, and incomplete files."""
    good, bad = [], []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            good.append(look(path))
        except (BackupBroken, NotFound):
            bad.append(path)
    return sorted(good, key=lambda b: (b.at, b.id), reverse=True), bad


def opened(path: Path, secret: Secret) -> Iterator[dict[str, Any] | list[Any]]:
    """Stream the parsed lines of a backup.

    Raises
    ------
    WrongKey, NotFound, BackupBroken
    """
    with _open(path) as file:
        _, lines = read_sealed(file, secret)
        size = path.stat().st_size / MIB
        for number, line in enumerate(lines):
            if number % progress.REPORTED == 0:
                progress.report(file.tell() / MIB, size, "MiB")
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                raise broken("a line of it cannot be read") from None
            if not isinstance(value, (dict, list)):
                raise broken("a line of it is neither a table nor a row")
            yield value


def checked_schema(backup: Backup) -> str:
    """Return the schema of a backup, unless a newer program made it.

    Raises
    ------
    NeedsMigration
        A newer version of the program made it.
    """
    if backup.schema > migrations.HEAD:
        raise NeedsMigration(
            f"the backup has schema {backup.schema}, this program works with "
            f"{migrations.HEAD}",
            why="A newer version of the program made it.",
            fix="Restore it with that version: pip install --upgrade sparsi-dispatcher",
            facts={"found": backup.schema, "wanted": migrations.HEAD},
        )
    if backup.schema not in migrations.pending(None):
        raise broken("no version of this program has its schema")
    return backup.schema


def staged(path: Path, secret: Secret, place: Path) -> Store:
    """Restore a backup into a new SQLite file, up to date; its keys are not read.

    Raises
    ------
    WrongKey, NotFound, BackupBroken
    NeedsMigration
        A newer version of the program made it.
    """
    lines: Lines = opened(path, secret)
    return rebuilt(place, lines, version=checked_schema(look(path)))


def verify(path: Path, secret: Secret) -> Checked:
    """Verify a backup by restoring it into a temporary place and checking it.

    Returns
    -------
    Checked
        Result of checking every line and every seal of its ledger.

    Raises
    ------
    WrongKey, NotFound, BackupBroken, LedgerBroken
    """
    about = look(path)
    with (
        tempfile.TemporaryDirectory(prefix=".verify-", dir=path.parent) as place,
        staged(path, secret, Path(place) / "restored.db") as store,
        store.read() as tx,
    ):
        found = check_store(tx)
    if found.lines != about.lines:
        raise broken("its ledger does not have the lines that it counts")
    return found


def prune(folder: Path, *, keep: int, dry_run: bool = False) -> list[Backup]:
    """Delete all but the newest backups; return those that go.

    Incomplete backups are neither deleted nor counted.
    """
    good, _ = found_in(folder)
    gone = good[keep:]
    if not dry_run:
        for backup in gone:
            backup.path.unlink(missing_ok=True)
        if gone:
            sync_folder(folder)
    return gone


def _open(path: Path) -> BinaryIO:
    try:
        return open_input(path)
    except OSError as error:
        raise NotFound(
            f"{path}: {error.strerror}",
            why="The backup cannot be read.",
            fix="See which there are: dispatcher backup list",
        ) from None


@dataclass(frozen=True)
class Away:
    """A folder to which backups were written and in which none is found now.

    Attributes
    ----------
    folder : Path
    why : str
        Why none is found: it cannot be read, or is empty (a disk not mounted?).
    last : str
        Name of the last backup made there, if it is known.
    """

    folder: Path
    why: str
    last: str


@dataclass(frozen=True)
class Kept:
    """Backups of a store.

    Attributes
    ----------
    backups : tuple of Backup
        Whole ones, folder by folder, the newest first.
    broken : tuple of Path
        Files of that kind that are no whole backups.
    away : tuple of Away
        Folders that may hold more.
    """

    backups: tuple[Backup, ...]
    broken: tuple[Path, ...]
    away: tuple[Away, ...]


def backups_of(store: Store, own: Path) -> Kept:
    """Find backups in the configured folder and wherever one was written."""
    with store.read() as tx:
        noted = settings.backup_folders(tx)
    made: dict[Path, str] = {}
    for folder, last in noted:
        place = _real(own if folder == settings.OWN_FOLDER else Path(folder))
        made[place] = last or made.get(place, "")
    good: list[Backup] = []
    bad: list[Path] = []
    away: list[Away] = []
    for place in dict.fromkeys([_real(own), *made]):
        try:
            found, broken = _looked(place)
        except OSError as error:
            if place in made or not isinstance(error, FileNotFoundError):
                why = error.strerror or str(error)
                away.append(Away(place, why, made.get(place, "")))
            continue
        good += found
        bad += broken
        if place in made and not found and not broken:
            away.append(Away(place, "no backup is in it", made[place]))
    return Kept(tuple(good), tuple(bad), tuple(away))


def _looked(folder: Path) -> tuple[list[Backup], list[Path]]:
    """Find the backups in a folder.

    Raises
    ------
    OSError
        It, or a file of it, cannot be read.
    """
    with os.scandir(folder):
        pass  # to a glob a folder that cannot be read is an empty one
    return found_in(folder)


def _real(folder: Path) -> Path:
    """Resolve the symbolic links of a path, as far as they can be followed."""
    return Path(os.path.realpath(folder))
