"""The inbox: a folder whose files are loaded as they arrive.

A file counts as complete when neither its size nor its time changed between two ticks
(network disks send no notifications). Loaded files are moved to ``loaded/``, rejected
ones to ``refused/`` with a note of the reason; pages of images stay.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dispatcher.core.errors import DispatcherError, Invalid, StaleLease
from dispatcher.core.log import get_logger
from dispatcher.core.private_files import private
from dispatcher.stages.intake.loading import Loaded, LoadProgress, load
from dispatcher.stages.intake.opening import SUFFIXES
from dispatcher.stages.intake.rejects import rejects_path
from dispatcher.store import Clock, Store, lease

LOADED: Final = "loaded"
REFUSED: Final = "refused"

Mark = tuple[int, int]
"""Size and time of change of a file."""


class Inbox:
    """The stage; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    folder : Path
        Made if it is not there.
    clock : Clock
    """

    def __init__(self, store: Store, folder: Path, clock: Clock) -> None:
        self._store = store
        self._folder = folder
        self._clock = clock
        self._seen: dict[str, Mark] = {}
        self._waiting: dict[str, Mark] = {}  # to be retried: the store was not ready
        self._log = get_logger("intake")

    def tick(self, epoch: int) -> int:
        """Load the first complete file.

        Parameters
        ----------
        epoch : int
            Of the daemon's lease.

        Returns
        -------
        int
            Records loaded.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        Invalid
            The folder cannot be used: it is a file, or closed to this user.
        """
        self.open()
        before, self._seen = self._seen, self._files()
        for name, mark in sorted(self._seen.items()):
            if before.get(name) == mark and self._waiting.get(name) != mark:
                return self._take(self._folder / name, mark, epoch)
        self._waiting.clear()  # all were tried: retry from the next tick on
        return 0

    def open(self) -> None:
        """Create the folder if missing.

        Raises
        ------
        Invalid
            It cannot be made, or is no folder.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self._folder, error) from None

    def _files(self) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        try:
            with os.scandir(self._folder) as items:
                for item in items:
                    if _is_table(item.name) and item.is_file(follow_symlinks=False):
                        facts = item.stat(follow_symlinks=False)
                        found[item.name] = (facts.st_size, facts.st_mtime_ns)
        except OSError as error:
            raise _unusable(self._folder, error) from None
        return found

    def _take(self, file: Path, mark: Mark, epoch: int) -> int:
        def check(progress: LoadProgress | None = None) -> None:
            del progress
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)

        check()
        (self._folder / LOADED).mkdir(mode=0o700, exist_ok=True)
        place = _free(self._folder / LOADED / file.name)
        rejects = rejects_path(place)
        try:
            loaded = load(
                self._store, file, clock=self._clock, rejects=rejects, progress=check
            )
        except StaleLease:
            raise
        except Invalid as error:
            self._refuse(file, error)
            return 0
        except DispatcherError as error:
            self._waiting[file.name] = mark
            self._log.warning("load_waits", code=error.code, what=error.what)
            return 0
        file.replace(place)
        self._log_loaded(loaded)
        return loaded.counts.records

    def _log_loaded(self, loaded: Loaded) -> None:
        counts = loaded.counts
        self._log.info(
            "loaded",
            load=loaded.load_id,
            records=counts.records,
            skipped=counts.skipped,
            rejected=counts.rejected,
        )

    def _refuse(self, file: Path, error: Invalid) -> None:
        (self._folder / REFUSED).mkdir(mode=0o700, exist_ok=True)
        place = _free(self._folder / REFUSED / file.name)
        note = place.with_name(f"{place.name}.txt")
        with open(note, "w", encoding="utf-8", opener=private) as text:
            text.write(f"{error.what}\nwhy: {error.why}\nfix: {error.fix}\n")
        file.replace(place)
        self._log.warning("load_refused", code=error.code)


def _unusable(folder: Path, error: OSError) -> Invalid:
    return Invalid(
        f"the inbox {folder} cannot be used",
        why=error.strerror or type(error).__name__,
        fix="make it a folder that the dispatcher's user may read and write, or name "
        "another one: inbox in dispatcher.toml",
    )


def _free(path: Path) -> Path:
    """Return the path, or a variant that no earlier file has."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{number}.{path.name}")
    return free


def _is_table(name: str) -> bool:
    """Whether the name is that of a table: the folder also has images."""
    if name.startswith(".") or name.endswith(".rejected.csv"):
        return False
    lower = name.lower()
    for packed in (".gz", ".gzip"):
        lower = lower.removesuffix(packed)
    return Path(lower).suffix in SUFFIXES
