"""Folders that backups of the store were written to, each a setting of its own."""

from __future__ import annotations

import hashlib
import json
from typing import Final, NamedTuple

from dispatcher.store.settings import add_setting, set_setting
from dispatcher.store.transaction import Tx

OWN: Final = ""
"""The folder of the settings, wherever that is."""

_PREFIX: Final = "backup-folder."


class Noted(NamedTuple):
    """A folder, and the name of the last backup made there; "" while none was."""

    folder: str
    last: str


def folders(tx: Tx) -> list[Noted]:
    """All of them, sorted."""
    found = tx.rows("SELECT value FROM setting WHERE name LIKE ?", [f"{_PREFIX}%"])
    return sorted(Noted(*json.loads(bytes(row[0]))) for row in found)


def note_folder(tx: Tx, folder: str, last: str = "") -> None:
    """Keep that a backup was written to a folder; without ``last``, that one will be."""
    write = set_setting if last else add_setting
    write(tx, _name(folder), _value(folder, last))


def take_back(tx: Tx, folder: str) -> None:
    """Forget a folder that no backup was written to after all."""
    tx.execute(
        "DELETE FROM setting WHERE name = ? AND value = ?",
        [_name(folder), _value(folder, "")],
    )


def forget_folder(tx: Tx, folder: str) -> None:
    """Forget a folder: nothing is left of its backups."""
    tx.execute("DELETE FROM setting WHERE name = ?", [_name(folder)])


def _name(folder: str) -> str:
    return (
        _PREFIX
        + hashlib.sha256(folder.encode(errors="surrogateescape")).hexdigest()[:24]
    )


def _value(folder: str, last: str) -> bytes:
    return json.dumps([folder, last]).encode()
