"""Where a backup is restored to, and what is there already: it is kept aside, whole."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from dispatcher.core.errors import AnotherLeads, Conflict, DispatcherError, WrongKey
from dispatcher.custody.asides import aside_of, parts_of
from dispatcher.custody.healing import refuse_led
from dispatcher.custody.witnesses import Heads, heads_of
from dispatcher.ledger.shipping import store_id
from dispatcher.store import Clock, Store, copies, open_store
from dispatcher.store.vault import KeyFile


@dataclass(frozen=True)
class Target:
    """Where a backup is restored to.

    Attributes
    ----------
    location : str
        A file, or the URL of an empty database.
    key_file : KeyFile
        Opens the values of the store.
    other_key_file : KeyFile or None
        May do so where the first one is missing or another's.
    shipped : Path or None
        Folder of the shipped ledger to compare with.
    private : bool
        Whether the URL comes from a private file.
    force : bool
        Whether a file that is there may be replaced.
    listed : tuple of Path or None
        Folders with lists of what was erased, and must not come back; that of
        ``shipped`` is read too. None: there is no such folder.
    anchor : Path or None
        File of roots that the restored store must have.
    """

    location: str
    key_file: KeyFile
    shipped: Path | None
    private: bool = False
    force: bool = False
    listed: tuple[Path | None, ...] = ()
    anchor: Path | None = None
    other_key_file: KeyFile | None = None

    @property
    def ships(self) -> bool:
        """Whether there is a shipped ledger."""
        return self.shipped is not None and any(self.shipped.glob("ledger-*.jsonl"))

    @property
    def file(self) -> Path | None:
        """The file, unless it is a database server's."""
        if "://" in self.location and not self.location.startswith("sqlite:///"):
            return None
        return Path(self.location.removeprefix("sqlite:///")).absolute()


@dataclass(frozen=True)
class There:
    """What the store knows that is to be replaced, if it is the same one.

    Attributes
    ----------
    heads : Heads
        Where its chains stand.
    folders : tuple of Noted
        Where backups of it were written to.
    """

    heads: Heads = field(default_factory=dict)
    folders: tuple[copies.Noted, ...] = ()


def opened(place: str | Path, target: Target) -> Store:
    """Open a store with whichever key file of a target is its own.

    Raises
    ------
    WrongKey
        None is.
    """
    try:
        return open_store(place, key_file=target.key_file)
    except WrongKey:
        if target.other_key_file is None:
            raise
    return open_store(place, key_file=target.other_key_file)


def check_target(target: Target, store: str, clock: Clock) -> There:
    """Look what is at a target.

    Parameters
    ----------
    target : Target
    store : str
        Id of the store that is to be restored there.
    clock : Clock

    Returns
    -------
    There
        Nothing, unless it is the same store that is there.

    Raises
    ------
    AnotherLeads
        A daemon leads it.
    Conflict
        It is not to be replaced.
    """
    if target.file is None:
        return There()  # that a database is empty is seen when it is filled
    if not target.file.exists():
        return There()
    found = There()
    try:
        with opened(target.location, target) as there:
            refuse_led(there, clock)
            if store_id(there) == store:
                with there.read() as tx:
                    found = There(heads_of(tx), tuple(copies.folders(tx)))
    except AnotherLeads:
        raise
    except DispatcherError as error:
        if not target.force:
            raise _is_there(target.file) from error
    if not target.force:
        raise _is_there(target.file)
    return found


def _is_there(file: Path) -> Conflict:
    return Conflict(
        f"{file} is there already",
        why="A restore replaces nothing by itself.",
        fix="Name another file, or say --force: it is put aside as "
        f"{aside_of(file).name}, with its log.",
    )


def put(stage: Path, file: Path) -> Path | None:
    """Put a restored file in its place; return where what was there is kept, whole."""
    stage.chmod(0o600)
    aside = aside_of(file) if any(part.exists() for part in parts_of(file)) else None
    if aside is not None:
        for part, kept in zip(parts_of(file), parts_of(aside), strict=True):
            if part.exists():
                part.replace(kept)
    shutil.move(stage, file)
    return aside
