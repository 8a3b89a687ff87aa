"""Stores that a restore has put aside: choosing their names, and finding them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Final

from dispatcher.store import Store

ASIDE: Final = ".replaced"
"""Suffix of a store that was put aside; from the second one on a number follows."""

_NAMED: Final = re.compile(rf".+{re.escape(ASIDE)}(-[0-9]+)?(-wal)?")


def put_aside(store: Store) -> list[str]:
    """Find the stores beside a store that a restore has put aside, with their logs."""
    if store.path is None:
        return []
    return sorted(
        str(path)
        for path in store.path.parent.iterdir()
        if _NAMED.fullmatch(path.name) and path.is_file()
    )


def aside_of(file: Path) -> Path:
    """Return the first free name for a file put aside and its log."""
    for number in itertools.count(1):
        tail = "" if number == 1 else f"-{number}"
        aside = file.with_name(f"{file.name}{ASIDE}{tail}")
        if not any(part.exists() for part in parts_of(aside)):
            break
    return aside


def parts_of(file: Path) -> list[Path]:
    """Return the files of a store, the log first."""
    return [file.with_name(file.name + tail) for tail in ("-wal", "-shm", "")]
