"""Where the stores of a walk are: fresh ones, their shipped ledgers, their backups."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dispatcher.custody import backup
from dispatcher.custody.restoring import Gap, Target, restore
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.shipping import attach
from dispatcher.store import Clock, Store, open_store, pause
from dispatcher.store.vault import KeyFile
from tests.conftest import Cluster

SECRET = Secret(keys={"walk": bytes(32)})


class Ground:
    """Makes, keeps and restores the stores of one walk.

    Parameters
    ----------
    folder : Path
        For the shipped ledgers and the backups.
    fresh : callable
        Location of a new store, with its tables.
    empty : callable
        Location of nothing, or of an empty database.
    """

    def __init__(
        self, folder: Path, fresh: Callable[[], str], empty: Callable[[], str]
    ) -> None:
        self._folder, self._fresh, self._empty = folder, fresh, empty
        self._numbers = itertools.count()
        self._place = folder

    def begin(self) -> Store:
        """Begin with another store."""
        self._place = self._folder / f"episode-{next(self._numbers)}"
        self._place.mkdir()
        return self._open(self._fresh())

    def keep(self, store: Store, clock: Clock) -> Path:
        """Back a store up."""
        return backup.create(store, self._place / "kept", SECRET, clock=clock).path

    def restore(self, path: Path, clock: Clock) -> Store:
        """Restore a backup with all that the shipped ledger knows more."""
        location = self._empty()
        keys = KeyFile(self._place / "no.key")
        target = Target(location, keys, self._place / "shipped")
        restore(path, SECRET, target, Gap(replay=True), clock=clock)
        store = self._open(location)
        with store.write() as tx:
            pause.resume(tx, pause.ALL)
        return store

    def end(self) -> None:
        """Throw what belongs to the store away."""
        shutil.rmtree(self._place)

    def _open(self, location: str) -> Store:
        store = open_store(location)
        attach(store, self._place / "shipped")
        store.settle(afresh=True)
        return store


@contextmanager
def files(folder: Path) -> Iterator[Ground]:
    """SQLite files in a folder."""
    template = folder / "template.db"
    open_store(template, create=True).close()
    names = itertools.count()

    def empty() -> str:
        return str(folder / f"{next(names)}.db")

    def fresh() -> str:
        return shutil.copy(template, empty())

    yield Ground(folder, fresh, empty)


@contextmanager
def databases(folder: Path, cluster: Cluster) -> Iterator[Ground]:
    """Databases of a PostgreSQL server."""
    names = (f"walk_{number}" for number in itertools.count())
    template = next(names)
    cluster.administer("CREATE DATABASE {name}", name=template)
    open_store(cluster.url(template), create=True).close()

    def empty() -> str:
        name = next(names)
        cluster.administer("CREATE DATABASE {name}", name=name)
        return cluster.url(name)

    def fresh() -> str:
        name = next(names)
        cluster.administer(
            "CREATE DATABASE {name} TEMPLATE {template}", name=name, template=template
        )
        return cluster.url(name)

    yield Ground(folder, fresh, empty)
