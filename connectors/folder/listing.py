"""The listing of the batches in the workers' directories, by their keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connectors.base import Listed, Posted
from connectors.folder.names import key_of

PAGE: Final = 1000
"""Batches after which a page ends, with the directory reached."""


def batches_behind(root: Path, homes: Sequence[str], cursor: str) -> Listed:
    """List the batches of the directories after one, up to the size of a page.

    Parameters
    ----------
    root : Path
    homes : sequence of str
        The workers' directories, sorted.
    cursor : str
        Name of the last directory of the previous page.
    """
    posted: list[Posted] = []
    for home in homes:
        if home <= cursor:
            continue
        with os.scandir(root / home) as entries:
            posted += [
                Posted(key_of(entry.name), f"{home}/{entry.name}", open=True)
                for entry in entries
                if key_of(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
        if len(posted) >= PAGE:
            return Listed(tuple(posted), home)
    return Listed(tuple(posted))
