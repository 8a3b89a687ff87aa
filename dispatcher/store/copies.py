"""Folders that backups of the store were written to, kept as a setting of it."""

from __future__ import annotations

import json
from typing import Final

from dispatcher.store.settings import set_setting, setting
from dispatcher.store.transaction import Tx

FOLDERS: Final = "backup-folders"


def folders(tx: Tx) -> list[str]:
    """Paths of all of them, sorted."""
    found = setting(tx, FOLDERS)
    return [] if found is None else list(json.loads(found))


def note_folder(tx: Tx, path: str) -> None:
    """Keep that backups are written to a folder."""
    known = folders(tx)
    if path not in known:
        set_setting(tx, FOLDERS, json.dumps(sorted([*known, path])).encode())
