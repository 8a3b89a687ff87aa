"""Copies of the store that an erasure does not reach: they hold the values still."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dispatcher.custody.backup import Backup, found_in
from dispatcher.store import Store, copies

_ASIDE: Final = re.compile(r".+\.replaced(-[0-9]+)?(-wal)?")


@dataclass(frozen=True)
class Kept:
    """Backups of a store.

    Attributes
    ----------
    backups : tuple of Backup
        Whole ones, folder by folder, the newest first.
    broken : tuple of Path
        Files of that kind that are no whole backups.
    away : tuple of Path
        Folders that were written to, and can not be looked into now.
    """

    backups: tuple[Backup, ...]
    broken: tuple[Path, ...]
    away: tuple[Path, ...]


def backups_of(store: Store, own: Path) -> Kept:
    """Look for backups in the settings' own folder and wherever one was written to."""
    with store.read() as tx:
        noted = [Path(path) for path in copies.folders(tx)]
    good: list[Backup] = []
    bad: list[Path] = []
    away = [path for path in noted if not path.is_dir()]
    for folder in _once([own, *noted]):
        found, broken = found_in(folder)
        good += found
        bad += broken
    return Kept(tuple(good), tuple(bad), tuple(away))


def put_aside(store: Store) -> list[str]:
    """Files beside a store that a restore has put aside, each with its log."""
    if store.path is None:
        return []
    return sorted(
        str(path)
        for path in store.path.parent.iterdir()
        if _ASIDE.fullmatch(path.name) and path.is_file()
    )


def _once(folders: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(folder.resolve() for folder in folders))
