"""Backups: made, proven, pruned, and put back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dispatcher.core.errors import DispatcherError, NotFound, Usage
from dispatcher.core.keyring import read_keyring
from dispatcher.custody import backup
from dispatcher.custody import restore as restoring
from dispatcher.custody.backup import Backup
from dispatcher.custody.restore import Gap, Restored, Target
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.shipping.checking import Checked
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, settings
from dispatcher.store.vault import KeyFile

FOLDER: Final = Path("backups")
SHORTEST: Final = 12
"""Bytes of a passphrase, at least."""


@dataclass(frozen=True)
class Made:
    """A backup that was written.

    Attributes
    ----------
    backup : Backup
    checked : Checked or None
        What restoring it aside proved; None if it was not tried.
    warnings : tuple of DispatcherError
        What could not be noted in the store, or shipped: the backup is whole all the same.
    """

    backup: Backup
    checked: Checked | None
    warnings: tuple[DispatcherError, ...]


@dataclass(frozen=True)
class Proof:
    """What restoring a backup aside came to: its ledger lines, or what is wrong."""

    path: Path
    lines: int = 0
    error: DispatcherError | None = None


def folder_of(workspace: Workspace, given: Path | None = None) -> Path:
    """Folder of the backups: the one that is given, else the workspace's own."""
    return given if given is not None else workspace.directory / FOLDER


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


def key_secret(workspace: Workspace, key_file: Path | None = None) -> Secret:
    """The keys of a key file, the settings' own if none is given."""
    if key_file is None:
        own = workspace.key_file
        ring = read_keyring(own.path, credential=own.credential)
    else:
        ring = read_keyring(key_file)
    return Secret(keys={key.id: key.secret for key in ring.keys})


def passphrase_secret(passphrase: bytes, *, new: bool) -> Secret:
    """A passphrase; one that is to seal a new backup must be long.

    Raises
    ------
    Usage
        It is short.
    """
    if new and len(passphrase) < SHORTEST:
        raise Usage(
            f"the passphrase has fewer than {SHORTEST} bytes",
            why="Whoever gets a backup can try short ones all.",
            fix="Take six random words, or the key file (no option).",
        )
    return Secret(passphrase=passphrase)


def create(
    workspace: Workspace, secret: Secret, folder: Path, *, check: bool = True
) -> Made:
    """Write a backup of this moment, and prove it unless ``check`` is off.

    The store notes the folder first, because an erasure looks for backups there.
    """
    noted = _noted(workspace, folder)
    warnings: list[DispatcherError] = []
    with workspace.open_store() as store:
        with _collected(warnings), store.write() as tx:
            settings.note_backup_folder(tx, noted)
        try:
            made, checked = _written(workspace, store, folder, secret, check=check)
        except DispatcherError:
            with suppress(DispatcherError, OSError):
                _take_back(store, folder, noted)
            raise
        with _collected(warnings):
            store.settle(afresh=True)  # the ledger has all that the backup has
    with _collected(warnings), workspace.open_store() as store, store.write() as tx:
        settings.note_backup_folder(tx, noted, made.id)
        settings.note_moment(tx, settings.BACKUP_MADE, workspace.clock())
    return Made(made, checked, tuple(warnings))


def before_upgrade(workspace: Workspace) -> Backup:
    """Back up a store whose schema may be older, with the key file; prove the backup."""
    with workspace.open_store(older=True) as store:
        secret = key_secret(workspace)
        return _written(workspace, store, folder_of(workspace), secret)[0]


def found_in(folder: Path) -> tuple[list[Backup], list[Path]]:
    """Backups of a folder, the newest first, and files that are no whole backups."""
    return backup.found_in(folder)


def verify(path: Path, secret: Secret) -> Checked:
    """Prove a backup: it is restored aside, every line and seal checked."""
    return backup.verify(path, secret)


def verify_all(folder: Path, secret: Secret) -> Iterator[Proof]:
    """Prove all backups of a folder, one after another."""
    good, bad = backup.found_in(folder)
    for path in (*(one.path for one in good), *bad):
        try:
            yield Proof(path, backup.verify(path, secret).lines)
        except DispatcherError as error:
            yield Proof(path, error=error)


def prune(folder: Path, keep: int, *, dry_run: bool = False) -> Sequence[Backup]:
    """Delete all but the newest backups; return those that go."""
    return backup.prune(folder, keep=keep, dry_run=dry_run)


def is_empty(folder: Path) -> bool:
    """Whether a folder has no backup, and nothing that may be one."""
    return backup.found_in(folder) == ([], [])


def forget(workspace: Workspace, folder: Path) -> None:
    """Let the store look for backups in a folder no more."""
    with workspace.open_store() as store, store.write() as tx:
        for name in (_noted(workspace, folder), os.path.realpath(folder)):
            # a restore notes the path of any folder
            settings.forget_backup_folder(tx, name)


def target_of(
    workspace: Workspace,
    location: str,
    *,
    shipped: Path | None = None,
    key_file: Path | None = None,
    force: bool = False,
) -> Target:
    """Where a backup is put back, and what is asked whether it forgets anything.

    Parameters
    ----------
    workspace : Workspace
    location : str
        A file, or the URL of an empty database.
    shipped : Path, optional
        Folder of the shipped ledger; None: the settings' own.
    key_file : Path, optional
        Another key file than the settings' own.
    force : bool
        Put a store that is there aside.
    """
    in_directory = str(workspace.directory / location)
    return Target(
        location=location if "://" in location else in_directory,
        key_file=workspace.key_file,
        shipped=shipped or workspace.shipped,
        force=force,
        listed=(workspace.directory, workspace.shipped),
        anchor=workspace.anchor,
        other_key_file=None if key_file is None else KeyFile(key_file),
    )


def restore(
    workspace: Workspace,
    path: Path,
    secret: Secret,
    target: Target,
    *,
    replay: bool = False,
    shown_since: int | None = None,
    dry_run: bool = False,
) -> Restored:
    """Restore a backup; it refuses to forget what was shown since.

    Parameters
    ----------
    workspace : Workspace
    path : Path
    secret : Secret
    target : Target
    replay : bool
        Book what was shipped since.
    shown_since : int, optional
        The ledger is lost: what may have been shown since counts as shown.
    dry_run : bool
        Restore aside, change nothing.
    """
    gap = Gap(replay=replay, shown_since=shown_since)
    clock = workspace.clock
    return restoring.restore(path, secret, target, gap, clock=clock, dry_run=dry_run)


def _written(
    workspace: Workspace,
    store: Store,
    folder: Path,
    secret: Secret,
    *,
    check: bool = True,
) -> tuple[Backup, Checked | None]:
    made = backup.create(store, folder, secret, clock=workspace.clock)
    return made, backup.verify(made.path, secret) if check else None


@contextmanager
def _collected(warnings: list[DispatcherError]) -> Iterator[None]:
    """Keep an error, and go on: a backup is worth more than a note of it."""
    try:
        yield
    except DispatcherError as error:
        warnings.append(error)


def _noted(workspace: Workspace, folder: Path) -> str:
    """What a store calls a folder."""
    place = os.path.realpath(folder)
    return (
        settings.OWN_FOLDER
        if place == os.path.realpath(folder_of(workspace))
        else place
    )


def _take_back(store: Store, folder: Path, noted: str) -> None:
    """Let a store forget a folder if no backup was written to it."""
    if is_empty(folder):
        with store.write() as tx:
            settings.take_back_folder(tx, noted)
