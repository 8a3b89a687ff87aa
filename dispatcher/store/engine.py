"""The store's door: :func:`open_store` and :class:`Store`."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sqlalchemy import Connection, Engine, Pool, bindparam
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import col

from dispatcher.core.errors import Conflict
from dispatcher.core.keyring import make_keyring, read_keyring
from dispatcher.model import IdBlock
from dispatcher.store import migrations
from dispatcher.store.audit_log import Act
from dispatcher.store.backend import CACHE_MIB, Backend
from dispatcher.store.driver_errors import Contended, NotKept, locked
from dispatcher.store.postgres import SCHEMES, PostgresBackend
from dispatcher.store.settings import make_keys, read_keys, start_sealing
from dispatcher.store.sqlite import SqliteBackend, check_place, make_private
from dispatcher.store.statements import DriverStatement, Parameters, insert
from dispatcher.store.transaction import Journal, Tx, translated
from dispatcher.store.vault import KeyFile, Vault

Clock = Callable[[], int]
"""The present moment in microseconds since 1970-01-01 UTC."""

Entropy = Callable[[int], bytes]
"""So many random bytes, fit for keys."""

WAIT_MS: Final = 10_000
"""How long a statement waits for a lock before StoreLocked."""


class Store:
    """An open store, used by any number of threads (see :func:`open_store`).

    Attributes
    ----------
    dialect : str
        ``sqlite`` or ``postgresql``.
    place : str
        Where it is, to be shown to people; never a password.
    path : Path or None
        The file, on SQLite.
    is_served_by_many : bool
        Whether several processes may write at once: servers beside the leader.
    vault : Vault
        Seals and opens values.
    """

    def __init__(
        self, backend: Backend, *, wait_ms: int = WAIT_MS, vault: Vault | None = None
    ) -> None:
        self.dialect = backend.name
        self.place = backend.place
        self.path = backend.path
        self.is_served_by_many = not backend.one_writer
        self._backend = backend
        self._wait = wait_ms / 1000
        self._engines = {
            writes: backend.engine(writes=writes) for writes in (False, True)
        }
        self._process = os.getpid()
        self._parents: list[Pool] = []
        self._turn = FairLock() if backend.one_writer else None
        self._ids = IdBlocks(None if backend.one_writer else self._aside)
        self._thread = threading.local()
        self._lasting: dict[str, Any] = {}
        self._keys: dict[str, bytes] = {}
        self.vault = vault or Vault()
        self._journal: Journal | None = None
        self._undoes = False
        self._act: Act | None = None

    def attach(self, journal: Journal) -> None:
        """Let every line of the ledger be kept outside of the store too."""
        self._journal = journal

    def settle(
        self, tx: Tx | None = None, chain: int | None = None, *, afresh: bool = False
    ) -> None:
        """Wait until all that was booked is also kept outside of the store.

        To be called before bytes of a field leave; see :meth:`Journal.settle`.
        """
        if self._journal is not None:
            self._journal.settle(tx, chain, afresh=afresh)

    def ship_waiting(self, epoch: int) -> int:
        """Ship what servers wait for, as their leader; see :meth:`Journal.ship_waiting`."""
        return 0 if self._journal is None else self._journal.ship_waiting(epoch)

    @property
    def is_shipped(self) -> bool:
        """Whether the ledger's lines are kept outside too."""
        return self._journal is not None

    def ships(self) -> bool:
        """Whether the ledger's lines are kept outside too, where that is asked for."""
        return self._journal is None or self._journal.works()

    def read(self) -> AbstractContextManager[Tx]:
        """Open a transaction that sees one snapshot and changes nothing."""
        return self._transaction(writes=False)

    def write(self) -> AbstractContextManager[Tx]:
        """Open a transaction that commits at the end of its block, all or nothing.

        On SQLite it holds the only write lock from the start. On PostgreSQL it is READ
        COMMITTED: lock the rows that a decision depends on (``FOR UPDATE``).

        Raises
        ------
        StoreLocked
            The lock was not given in time.
        NotShipped
            It is committed, but its lines of the ledger are in the store only.
        RuntimeError
            This thread is inside a write already.
        """
        transaction = self._alone(self._transaction(writes=True))
        if self._journal is None:
            return transaction
        return _shipped(transaction, self._journal)

    def undo_writes(self) -> None:
        """Undo every write from now on at the end of its block: a dry run.

        What is written in one block is seen within it, and by no later block.
        """
        self._undoes = True

    def acting(self, act: Act | None) -> Self:
        """Return this store for one act: its line is written with what it changes.

        It uses the same connections and waits for the same locks; this one goes on.
        """
        acting = copy(self)
        acting._act = act  # noqa: SLF001 - its own
        return acting

    def trial(self) -> Self:
        """Return this store with every write undone, as after :meth:`undo_writes`.

        It uses the same connections and waits for the same locks; this one goes on.
        """
        tried = copy(self)
        tried._lasting = {}  # noqa: SLF001 - what is undone is remembered by nobody
        tried.undo_writes()
        return tried

    def key(self, name: str) -> bytes:
        """Return one of the store's random keys: 32 bytes.

        Raises
        ------
        KeyError
            It is none of :data:`dispatcher.store.settings.KEYS`.
        """
        return self._keys[name]

    def checkpoint(self) -> None:
        """Write the log back and cut it to nothing (SQLite), so that it holds no value."""
        if self.path is None:
            return
        connection = self._backend.connect(writes=True)
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()

    def scrub(self) -> None:
        """Leave nothing of deleted rows in the store's files, as far as it can.

        SQLite: the file is written anew and the log cut to nothing. PostgreSQL: the
        dead rows are freed, their pages in time (docs/howto/operators/erasure.md).

        Raises
        ------
        StoreLocked
            A reader or writer did not let go in time; the rows are deleted already.
        """
        connection = self._backend.connect(writes=True)
        try:
            connection.execute("VACUUM")
        except self._backend.driver.Error as error:
            raise self._backend.fault(error) or error from None
        finally:
            connection.close()
        self.checkpoint()

    def close(self) -> None:
        """Close the idle connections."""
        for engine in self._engines.values():
            engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def load_keys(self) -> None:
        """Read the store's keys.

        Raises
        ------
        NeedsMigration
            They were never made.
        """
        with self.read() as tx:
            self._keys = read_keys(tx)
        migrations.check_keys(self._keys)

    @contextmanager
    def _alone(self, transaction: AbstractContextManager[Tx]) -> Iterator[Tx]:
        if getattr(self._thread, "writing", False):
            message = "a write inside a write: pass the transaction on instead"
            raise RuntimeError(message)
        if self._turn is not None and not self._turn.acquire(timeout=self._wait):
            raise locked("the store is locked by another thread")
        self._thread.writing = True
        try:
            with transaction as tx:
                yield tx
        finally:
            self._thread.writing = False
            if self._turn is not None:
                self._turn.release()

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Tx]:
        errors = (self._backend.driver.Error, DBAPIError)
        try:
            connection = self._begun(self._engines[writes])
        except errors as error:
            raise translated(self._backend, error) from None
        except PoolTimeout:
            raise locked("all connections to the store are in use") from None
        driver = connection.connection.driver_connection
        journal = self._journal
        tx = Tx(self._backend, connection, self._ids, self.vault, self._lasting)
        tx.reads = not writes
        tx.grown = None if journal is None else []
        try:
            yield tx
            act = self._act if writes else None
            if act is not None and not act.lines:
                act.write(tx)
            undone = writes and self._undoes
            if journal is not None and (tx.grown or tx.waits) and not undone:
                journal.ready()
                tx.ticket = journal.begin(tx)
            tx.finish()
            if undone:
                tx.close()
                connection.rollback()
                return
            connection.commit()
            if act is not None:
                act.lines = max(1, act.lines)
        except errors as error:
            self._undo(tx, connection)
            raise translated(self._backend, error) from None
        except BaseException:
            self._undo(tx, connection)
            raise
        finally:
            if not (connection.invalidated or self._backend.usable(driver)):
                connection.invalidate()
            connection.close()

    def _begun(self, engine: Engine) -> Connection:
        """Connection with a transaction begun on it."""
        if self._process != os.getpid():
            self._leave_parents()
        connection = engine.connect()
        try:
            connection.begin()
        except DBAPIError as error:
            connection.close()
            if not error.connection_invalidated:
                raise  # the connection lives: the error is about the store
        else:
            return connection
        # The server closed it while it was idle; the pool uses no older one now.
        connection = engine.connect()
        try:
            connection.begin()
        except BaseException:
            connection.close()
            raise
        return connection

    def _leave_parents(self) -> None:
        """Let a child of fork neither use nor close its parent's connections."""
        self._parents += [engine.pool for engine in self._engines.values()]
        for engine in self._engines.values():
            engine.dispose(close=False)
        self._process = os.getpid()

    def _undo(self, tx: Tx, connection: Connection) -> None:
        # The first error is the one to tell; an unusable connection is thrown away.
        with suppress(self._backend.driver.Error, DBAPIError):
            tx.close()
            connection.rollback()

    def _aside(self, statement: DriverStatement, parameters: Parameters) -> int:
        with self._transaction(writes=True) as tx:
            return int(tx.driver_value(statement, parameters))


# -- whose turn it is to write, and ids ---------------------------------------------------


class FairLock:
    """A lock that is handed to whoever waits longest.

    A plain lock goes to anybody: a thread that books piece after piece would take it
    again before a waiting one has woken up, and a worker's page would wait in vain.
    """

    def __init__(self) -> None:
        self._inside = threading.Lock()  # held for moments only
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for the turn for so many seconds at most; False if it did not come."""
        with self._inside:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=timeout):
            return True
        with self._inside:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
        return True  # it came at the last moment

    def release(self) -> None:
        """Give the turn to the next; nobody else can come between."""
        with self._inside:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


SMALL_REQUEST: Final = 128
"""Requests below this share a block of this many ids (PostgreSQL)."""


def _reservation() -> DriverStatement:
    new = insert(IdBlock).values(name=bindparam("table"), next_id=bindparam("ids"))
    following = col(IdBlock.next_id) + new.excluded.next_id - 1
    return DriverStatement(
        new.on_conflict_do_update(
            index_elements=["name"], set_={"next_id": following}
        ).returning(col(IdBlock.next_id))
    )


_RESERVE: Final = _reservation()

Aside = Callable[[DriverStatement, Parameters], int]
"""Runs a statement in a transaction of its own; returns the first value."""


class IdBlocks:
    """Hands out ids of each table, in blocks.

    On SQLite a block is reserved inside the transaction that uses it. On PostgreSQL the
    row of ``id_block`` would then be locked until the commit, and every booking would wait
    for every other; so blocks are taken aside, in a transaction of their own, and small
    requests share one.

    Parameters
    ----------
    aside : Aside, optional
        How to reserve outside the caller's transaction; None to do it inside.
    """

    def __init__(self, aside: Aside | None) -> None:
        self._aside = aside
        self._lock = threading.Lock()
        self._open: dict[str, tuple[int, int]] = {}

    def reserve(self, tx: Tx, name: str, count: int) -> int:
        """First of ``count`` consecutive ids that nobody else has.

        Raises
        ------
        ValueError
            ``count`` is below 1.
        """
        if count < 1:
            message = f"reserve of {count} ids, expected >= 1"
            raise ValueError(message)
        if self._aside is None:
            return int(tx.driver_value(_RESERVE, _asked(name, count))) - count
        if count >= SMALL_REQUEST:
            return self._aside(_RESERVE, _asked(name, count)) - count
        with self._lock:
            first, end = self._open.get(name, (0, 0))
            if end - first < count:
                end = self._aside(_RESERVE, _asked(name, SMALL_REQUEST))
                first = end - SMALL_REQUEST
            self._open[name] = (first + count, end)
            return first


def _asked(name: str, count: int) -> Parameters:
    return {"table": name, "ids": count + 1}


# -- opening ------------------------------------------------------------------------------


def bring_up(backend: Backend, entropy: Entropy, sealing: Vault | None = None) -> None:
    """Give a store the tables and the random keys that it lacks, in one transaction.

    Whoever opens it meanwhile, and whatever ends this program, finds a store with its
    keys or none.

    Parameters
    ----------
    backend : Backend
    entropy : Entropy
    sealing : Vault, optional
        Values are sealed from now on where it has a key file.
    """
    vault = sealing or Vault()

    def fill(connection: Connection) -> None:
        tx = Tx(backend, connection, IdBlocks(None), vault, {})
        make_keys(tx, entropy)
        if vault.file is not None:
            start_sealing(tx, vault.ring().current.id)
        tx.finish()

    migrations.upgrade(backend, fill=fill)


def ensure_keyring(key_file: KeyFile, entropy: Entropy) -> None:
    """Make the key file where there is none; one that is there is checked.

    Raises
    ------
    WrongKey
        It cannot be used.
    """
    if not key_file.path.exists():
        with suppress(Conflict):  # somebody else has just made it
            make_keyring(key_file.path, entropy)
    read_keyring(key_file.path, credential=key_file.credential)


@contextmanager
def _shipped(transaction: AbstractContextManager[Tx], journal: Journal) -> Iterator[Tx]:
    """Hand the lines on when they are committed, with the store's lock given back."""
    tx: Tx | None = None
    try:
        with transaction as tx:
            yield tx
    except BaseException:
        if tx is not None and tx.ticket is not None:
            journal.lose(tx.ticket)
        raise
    if tx.ticket is not None:
        journal.ship(tx.ticket, tx.grown or [])


def make_backend(
    location: str | Path,
    *,
    create: bool = False,
    password_allowed: bool = False,
    wait_ms: int = WAIT_MS,
    cache_mib: int = CACHE_MIB,
) -> Backend:
    """Choose the database of a location and check what can be checked unopened.

    Parameters are those of :func:`open_store`.
    """
    text = str(location)
    if text.startswith(SCHEMES):
        return PostgresBackend(text, wait_ms=wait_ms, password_allowed=password_allowed)
    path = Path(text.removeprefix("sqlite:///")).absolute()
    migrations.check_location(text)
    check_place(path)
    backend = SqliteBackend(path, wait_ms=wait_ms, cache_mib=cache_mib)
    make_private(path, create=create)
    return backend


def open_store(
    location: str | Path,
    *,
    create: bool = False,
    older: bool = False,
    password_allowed: bool = False,
    entropy: Entropy = os.urandom,
    wait_ms: int = WAIT_MS,
    cache_mib: int = CACHE_MIB,
    key_file: KeyFile | None = None,
) -> Store:
    """Open a store whose schema is the one of this program.

    Parameters
    ----------
    location : str or Path
        A file (SQLite), ``sqlite:///FILE``, or ``postgresql://USER@HOST/DATABASE``.
    create : bool
        Make the file and its tables where there are none.
    older : bool
        Take a store of an older schema too: to copy it, for nothing else.
    password_allowed : bool
        Whether a URL may have a password in it: true only for URLs that were read
        from a private file.
    entropy : Entropy
        Source of the keys of a new store.
    wait_ms : int
        How long to wait for a lock, or for one of the connections, in milliseconds.
    cache_mib : int
        MiB that the page caches of all connections together may take (SQLite; the
        caches of PostgreSQL are its server's).
    key_file : KeyFile, optional
        The wrapping keys of sealed values. A store that is created seals from birth
        when it is given, and the file is made where there is none.

    Raises
    ------
    WrongKey
        The values are sealed, and the key file is missing or another store's.
    NoStore
        There is none, and ``create`` is off.
    NeedsMigration
        Its schema is older or newer than this program's.
    StoreLocked, StoreUnreachable
        It is busy, or its server does not answer: try again.
    StoreUnusable
        Read-only, damaged, on a network disk, or the SQLite library is unsafe.
    """
    backend = make_backend(
        location,
        create=create,
        password_allowed=password_allowed,
        wait_ms=wait_ms,
        cache_mib=cache_mib,
    )
    store = Store(backend, wait_ms=wait_ms, vault=Vault(key_file, entropy))
    try:
        with store.read() as tx:
            version = migrations.version(tx)
        if version is None and create:
            if key_file is not None:
                ensure_keyring(key_file, entropy)
            bring_up(backend, entropy, store.vault)
        elif not (older and version is not None and version < migrations.HEAD):
            migrations.check_version(version, store.place)
        store.load_keys()
    except BaseException:
        store.close()
        raise
    return store


# -- repeating a whole transaction where that is safe: nothing of it was kept ----------

ATTEMPTS: Final = 6
FIRST_PAUSE: Final = 0.01
"""Seconds before the second attempt; each further pause is twice as long."""

Result = TypeVar("Result")


def committed(store: Store, work: Callable[[Tx], Result]) -> Result:
    """Do work in a write transaction, once: repeat it whole if nothing of it was kept.

    That is when the database ended it in favour of another one (serialisation failure,
    deadlock), or when the connection broke and the store, asked, says that it was not
    committed. Where the store cannot be asked the error goes on: nothing is repeated
    blindly.

    Parameters
    ----------
    store : Store
    work : callable
        Has no effect but through its transaction, so that it may run again.

    Raises
    ------
    StoreLocked, StoreUnreachable
        It could not be done within ``ATTEMPTS``, or its outcome is unknown.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            with store.write() as tx:
                return work(tx)
        except (Contended, NotKept):
            # Two that met once are kept from meeting again.
            spread = 1 + threading.get_native_id() % 8 / 8
            threading.Event().wait(FIRST_PAUSE * 2**attempt * spread)
    with store.write() as tx:
        return work(tx)
