"""Copies of the store that an erasure does not reach: they hold the values still."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dispatcher.custody.backup import Backup, found_in
from dispatcher.store import Store, copies


@dataclass(frozen=True)
class Away:
    """A folder that backups were made in, and none is found in now.

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
    """Look for backups in the settings' own folder and wherever one was written to."""
    with store.read() as tx:
        noted = copies.folders(tx)
    made: dict[Path, str] = {}
    for folder, last in noted:
        place = _real(own if folder == copies.OWN else Path(folder))
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
    """Look for backups in a folder.

    Raises
    ------
    OSError
        It, or a file of it, cannot be read.
    """
    with os.scandir(folder):
        pass  # to a glob a folder that cannot be read is an empty one
    return found_in(folder)


def _real(folder: Path) -> Path:
    """Name a folder as its path without links does, as far as those can be followed."""
    return Path(os.path.realpath(folder))
