"""Where the stores of a walk are: fresh ones, their shipped ledgers, their backups."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dispatcher.core import keys
from dispatcher.custody import backup
from dispatcher.custody.restore import Gap, Target, restore
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.shipping import attach
from dispatcher.store import Clock, Store, open_store, pause
from dispatcher.store.vault import KeyFile
from tests import sql
from tests.conftest import Cluster
from tests.integration.ledger_cases import Case

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

    def restore(self, path: Path, clock: Clock, *, shipped: bool = True) -> Store:
        """Restore a backup with all that the shipped ledger knows more.

        Without ``shipped`` that is lost too: what may have been shown since counts.
        """
        location = self._empty()
        key_file = KeyFile(self._place / "no.key")
        target = Target(location, key_file, self._place / "shipped")
        gap = Gap(replay=True)
        if not shipped:
            shutil.rmtree(self._place / "shipped")
            gap = Gap(shown_since=backup.look(path).at)
        restore(path, SECRET, target, gap, clock=clock)
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


def numbered(case: Case) -> None:
    """Look up the numbers of accounts and entries: what was replayed has others."""
    secret = case.store.key("pseudonym-key")
    named = {keys.pseudonym(secret, "r", key): key for key in case.records}
    with case.store.read() as tx:
        accounts = sql.rows(tx, "SELECT id, connector, name FROM account")
        entries = sql.rows(
            tx,
            "SELECT e.id, r.pseudonym, f.name FROM entry e"
            " JOIN record r ON r.id = e.record_id JOIN field f ON f.id = e.field_id",
        )
    case.accounts |= {f"{market}/{name}": number for number, market, name in accounts}
    case.entries |= {f"{named[record]}.{f}": number for number, record, f in entries}


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
