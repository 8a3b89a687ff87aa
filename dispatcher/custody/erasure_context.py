"""What an erasure works with, and what it comes to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dispatcher.core.keys import task_tokens
from dispatcher.custody import erasures
from dispatcher.store import Clock, Store

Connectors = Mapping[str, object]
Rewrite = Callable[[str, Path], None]
"""Writes the whole records of a run to a file anew."""


@dataclass
class Erased:
    """What an erasure did, and what it could not do.

    Attributes
    ----------
    deleted : Counter of str
        Rows by kind.
    recalled, beyond : Counter of str
        Tasks by connector: open ones taken back, and content out of reach.
    strange : int
        Things in quarantine that told of them.
    exports : list of str
        Files of whole records that were written anew, or deleted.
    left : list of str
        Files that still hold something.
    aside : list of str
        Stores that a restore has put aside: they hold all values still.
    scrubbed : bool
        Whether the store's files hold nothing of it any more (SQLite).
    """

    deleted: Counter[str] = field(default_factory=Counter)
    recalled: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    strange: int = 0
    exports: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    scrubbed: bool = False

    def add(self, other: Erased) -> None:
        """Take in what one transaction did, once it is kept."""
        self.deleted = other.deleted + self.deleted
        self.recalled += other.recalled
        self.beyond += other.beyond
        self.strange += other.strange

    def tidy(self) -> None:
        """Name each file once."""
        self.exports = sorted(set(self.exports))
        self.left = sorted(set(self.left))


@dataclass(frozen=True)
class ErasureContext:
    """What an erasure works with.

    Attributes
    ----------
    store : Store
    connectors : Mapping
        By the operator's names.
    clock : Clock
    rewrite : Callable
        Writes an export anew.
    directory : Path or None
        Where a list of erasures lies, and where to look for files that still hold
        something.
    wait : Callable
        Waits for so many seconds.
    shipped : Path or None
        Folder of the shipped ledger: the list is kept there too.
    """

    store: Store
    connectors: Connectors
    clock: Clock
    rewrite: Rewrite
    directory: Path | None = None
    wait: Callable[[float], None] = time.sleep
    shipped: Path | None = None

    @property
    def lists(self) -> list[Path]:
        """Files that erasures are noted in."""
        return erasures.places(self.directory, self.shipped)


def tokens(store: Store, task_ids: Sequence[int]) -> list[str]:
    """Return what the world calls tasks."""
    return task_tokens(store.key("task-key"), task_ids) if task_ids else []
