"""Backups: create, verify, prune and restore them."""

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
from dispatcher.store import Store, events, settings
from dispatcher.store.vault import KeyFile

FOLDER: Final = Path("backups")
SHORTEST: Final = 12
"""Minimum bytes of a passphrase."""


@dataclass(frozen=True)
class Made:
    """A backup that was written.

    Attributes
    ----------
    backup : Backup
    checked : Checked or None
        Result of the verification; None if it was not tried.
    warnings : tuple of DispatcherError
        Failures to record it in the store, or to ship: the backup is complete
        nevertheless.
    """

    backup: Backup
    checked: Checked | None
    warnings: tuple[DispatcherError, ...]


@dataclass(frozen=True)
class BackupCheck:
    """Result of verifying a backup: its ledger lines, or the error."""

    path: Path
    lines: int = 0
    error: DispatcherError | None = None


def folder_of(workspace: Workspace, given: Path | None = None) -> Path:
    """Return the folder of the backups: the given one, else the workspace's own."""
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
    """Return the keys of a key file; by default the configured one."""
    if key_file is None:
        own = workspace.key_file
        ring = read_keyring(own.path, credential=own.credential)
    else:
        ring = read_keyring(key_file)
    return Secret(keys={key.id: key.secret for key in ring.keys})


def passphrase_secret(passphrase: bytes, *, new: bool) -> Secret:
    """Return a passphrase secret; one that seals a new backup must be long.

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
    """Write a backup of the current state, and verify it unless ``check`` is off.

    The store records the folder first, because an erasure looks for backups there.
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
            with suppress(DispatcherError), store.write() as tx:
                events.add_event(
                    tx, workspace.clock(), workspace.actor, "backup.failed", {}
                )
            raise
        with _collected(warnings):
            store.settle(afresh=True)  # the ledger has all that the backup has
    with _collected(warnings), workspace.open_store() as store, store.write() as tx:
        settings.note_backup_folder(tx, noted, made.id)
        settings.note_moment(tx, settings.BACKUP_MADE, workspace.clock())
    return Made(made, checked, tuple(warnings))


def before_upgrade(workspace: Workspace) -> Backup:
    """Back up a store with a possibly older schema, with the key file; verify it."""
    with workspace.open_store(older=True) as store:
        secret = key_secret(workspace)
        return _written(workspace, store, folder_of(workspace), secret)[0]


def found_in(folder: Path) -> tuple[list[Backup], list[Path]]:
    """Backups of a folder, the newest first, and files that are no whole backups."""
    return backup.found_in(folder)


def verify(path: Path, secret: Secret) -> Checked:
    """Verify a backup: restore it aside, and check every line and seal."""
    return backup.verify(path, secret)


def verify_all(folder: Path, secret: Secret) -> Iterator[BackupCheck]:
    """Verify all backups of a folder, one by one."""
    good, bad = backup.found_in(folder)
    for path in (*(one.path for one in good), *bad):
        try:
            yield BackupCheck(path, backup.verify(path, secret).lines)
        except DispatcherError as error:
            yield BackupCheck(path, error=error)


def prune(folder: Path, keep: int, *, dry_run: bool = False) -> Sequence[Backup]:
    """Delete all but the newest backups; return the deleted ones."""
    return backup.prune(folder, keep=keep, dry_run=dry_run)


def is_empty(folder: Path) -> bool:
    """Whether a folder has no backup and nothing that may be one."""
    return backup.found_in(folder) == ([], [])


def forget(workspace: Workspace, folder: Path) -> None:
    """Make the store no longer look for backups in a folder."""
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
    """Return the target of a restore, and the ledger to compare with.

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
        Put an existing store aside.
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
    """Restore a backup; refuse to forget what was shown since.

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
    """Collect an error and go on: the backup matters more than its record."""
    try:
        yield
    except DispatcherError as error:
        warnings.append(error)


def _noted(workspace: Workspace, folder: Path) -> str:
    """Return the name under which a store records a folder."""
    place = os.path.realpath(folder)
    return (
        settings.OWN_FOLDER
        if place == os.path.realpath(folder_of(workspace))
        else place
    )


def _take_back(store: Store, folder: Path, noted: str) -> None:
    """Remove a recorded folder if no backup was written to it."""
    if is_empty(folder):
        with store.write() as tx:
            settings.take_back_folder(tx, noted)
