"""When certain things were last done well, kept as settings of the store."""

from __future__ import annotations

from typing import Final

from dispatcher.store.settings import set_setting, setting
from dispatcher.store.transaction import Tx

LEDGER_VERIFIED: Final = "ledger-verified"
BACKUP_MADE: Final = "backup-made"


def note_moment(tx: Tx, name: str, at: int) -> None:
    """Keep that it was done at a moment (microseconds UTC)."""
    set_setting(tx, name, str(at).encode())


def moment(tx: Tx, name: str) -> int | None:
    """When it was last done; None if never."""
    found = setting(tx, name)
    return None if found is None else int(found)
