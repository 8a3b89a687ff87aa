"""SQLite: the driver, the file and its safety, the connection.

Several processes share one file in WAL mode. SQLite up to 3.51.2 can then lose
committed pages when one connection writes while another checkpoints (the "WAL-reset
bug", https://sqlite.org/wal.html#walresetbug), so that such a version is refused.
"""

import importlib
import os
import stat
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from dispatcher.core.errors import (
    DispatcherError,
    Invalid,
    NoStore,
    StoreLocked,
    StoreUnusable,
)
from dispatcher.core.private_files import private
from dispatcher.store.backend import CACHE_MIB, MOST, OPTIONS
from dispatcher.store.driver_errors import sqlite_fault

DRIVERS: Final = ("pysqlite3.dbapi2", "sqlite3")
"""Modules tried in turn; the first with a safe SQLite is used."""

NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        "nfs", "nfs4",
        "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs",
        "9p", "afs", "coda", "davfs", "vboxsf", "vmhgfs", "prl_fs",
        "beegfs", "ceph", "glusterfs", "gpfs", "lustre", "orangefs", "pvfs2",
        "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs",
        "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse",
    }
)  # fmt: skip
"""File systems whose locks or shared memory SQLite's WAL cannot rely on."""

WRITERS: Final = 2
"""Connections that write at once: the store's one writer, and who vacuums beside it."""

_MOUNTS: Final = Path("/proc/self/mountinfo")
_OPEN_TO_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def safe_version(version: tuple[int, ...]) -> bool:
    """Whether this SQLite version is free of the WAL-reset bug."""
    return (
        version >= (3, 51, 3)
        or (3, 50, 7) <= version < (3, 51, 0)
        or (3, 44, 6) <= version < (3, 45, 0)
    )


def safe_driver(names: Sequence[str] = DRIVERS) -> Any:  # noqa: ANN401
    """Return the first driver module whose SQLite is safe.

    Raises
    ------
    StoreUnusable
        None is: the message names the versions found.
    """
    found = []
    for name in names:
        try:
            driver = importlib.import_module(name)
        except ImportError:
            continue
        if safe_version(driver.sqlite_version_info):
            return driver
        found.append(f"{name.partition('.')[0]} has {driver.sqlite_version}")
    raise StoreUnusable(
        "the SQLite library of this Python can lose committed data",
        why="Versions before 3.51.3 (3.50.7, 3.44.6) have the WAL-reset bug"
        f" (sqlite.org/wal.html#walresetbug); {', '.join(found) or 'none found'}.",
        fix="Run: pip install 'pysqlite3>=0.6.1' (or use PostgreSQL: --store URL)",
    )


def file_system(path: Path, mounts: str) -> str:
    """Return the type of the file system of a path.

    Parameters
    ----------
    path : Path
        An absolute path without symbolic links.
    mounts : str
        The text of ``/proc/self/mountinfo``.

    Returns
    -------
    str
        For example ``ext4``; empty when no mount matches.
    """
    kind, longest = "", -1
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = fields[4].encode().decode("unicode_escape")
        inside = path == Path(point) or Path(point) in path.parents
        # A later mount on the same point hides the earlier one.
        if inside and len(point) >= longest:
            kind, longest = right.split()[0], len(point)
    return kind


def check_place(path: Path, mounts: str | None = None) -> None:
    """Refuse a directory that cannot keep a store safe.

    Raises
    ------
    NoStore
        The directory does not exist.
    StoreUnusable
        It is on a network file system, or anybody may swap files in it.
    """
    directory = path.parent
    if not directory.is_dir():
        raise NoStore(
            f"there is no directory {directory}",
            why="A store is made inside a directory that exists.",
            fix="Make the directory, or name another place with --store.",
        )
    if mounts is None:
        mounts = _MOUNTS.read_text() if _MOUNTS.exists() else ""
    kind = file_system(directory.resolve(), mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreUnusable(
            f"the store would be on a network file system ({kind})",
            why="SQLite's locks do not hold there: two writers can destroy the file.",
            fix="Keep it on a local disk, or use PostgreSQL: --store postgresql://...",
        )
    mode = directory.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise StoreUnusable(
            f"anybody may replace files in {directory}",
            why="The directory is writable by all users of this machine.",
            fix=f"Run: chmod 700 {directory}",
        )


def make_private(path: Path, *, create: bool) -> None:
    """Make the store's file 0600 before SQLite opens it, whatever the umask.

    SQLite would make it 0644, and ``-wal`` and ``-shm`` inherit its mode.

    Raises
    ------
    NoStore
        There is no file, and ``create`` is off.
    StoreUnusable
        The file cannot be made, or is no plain file.
    """
    if not path.exists():
        if not create:
            raise NoStore(
                f"there is no store at {path}",
                why="The file does not exist.",
                fix="Make one with: dispatcher init (or name another: --store)",
            )
        _create(path)
    if not path.is_file():
        raise Invalid(
            f"{path} is not a file",
            why="A store is one file.",
            fix="Name a file: --store DIRECTORY/dispatcher.db",
        )
    for name in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if name.exists() and name.stat().st_mode & _OPEN_TO_OTHERS:
            _tighten(name)


def _create(path: Path) -> None:
    try:
        os.close(private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass  # another process was quicker: the same store
    except OSError as error:
        raise StoreUnusable(
            f"the store {path} cannot be made",
            why=f"{error.strerror}.",
            fix="Check the permissions of the directory, and the disk's free space.",
        ) from None


def _tighten(path: Path) -> None:
    try:
        path.chmod(0o600)
    except PermissionError:
        raise StoreUnusable(
            f"other users may read {path}",
            why="It is not 0600, and it belongs to somebody else.",
            fix=f"As its owner, run: chmod 600 {path}",
        ) from None


class SQLiteStoreDialect(SQLiteDialect_pysqlite):
    """Transactions begun by a statement: the driver would begin one too late.

    Connections are in autocommit mode, so that the driver begins none by itself.
    """

    supports_statement_cache = True

    def __init__(self, begin: str = "BEGIN", **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self._begin = begin

    def on_connect(self) -> None:  # type: ignore[override]
        """Do nothing: the backend makes its connections ready itself."""

    def do_begin(self, dbapi_connection: Any) -> None:  # noqa: ANN401
        """Start a transaction."""
        dbapi_connection.driver_connection.execute(self._begin)


registry.register("sqlite.store", __name__, SQLiteStoreDialect.__name__)


class SqliteBackend:
    """How a :class:`~dispatcher.store.engine.Store` speaks to a SQLite file."""

    name = "sqlite"
    one_writer = True

    def __init__(self, path: Path, *, wait_ms: int, cache_mib: int = CACHE_MIB) -> None:
        self.path: Path | None = path
        self._half = cache_mib * 512  # KiB
        self._file = path
        self.place = str(path)
        self.driver = safe_driver()
        self._wait_ms = wait_ms

    def engine(self, *, writes: bool) -> Engine:
        """Make an engine whose transactions read one snapshot, or write."""
        return create_engine(
            "sqlite+store://",
            module=self.driver,
            creator=partial(self.connect, writes=writes),
            # A writer has the store to itself from the start.
            begin="BEGIN IMMEDIATE" if writes else "BEGIN",
            pool_timeout=self._wait_ms / 1000,
            **OPTIONS,
        )

    def cache_kib(self, *, writes: bool) -> int:
        """Share of one connection in the memory for page caches.

        Writers have half of it: a reader's cache is void as soon as anybody has written,
        and bulk writes go to many places.
        """
        return self._half // (WRITERS if writes else MOST)

    def connect(self, *, writes: bool) -> Any:  # noqa: ANN401
        """Open a connection in autocommit mode."""
        if not self._file.exists():
            make_private(self._file, create=False)
        connection = self.driver.connect(
            self._file,
            isolation_level=None,
            check_same_thread=False,
            timeout=self._wait_ms / 1000,
            cached_statements=512,
        )
        try:
            self._log_ahead(connection)
            for pragma in (
                "synchronous = FULL",
                "foreign_keys = ON",
                "secure_delete = ON",
                "recursive_triggers = ON",  # so that REPLACE fires delete triggers
                "trusted_schema = OFF",
                "journal_size_limit = 67108864",
                f"cache_size = {-self.cache_kib(writes=writes)}",
                "wal_autocheckpoint = 4000",
                f"query_only = {'OFF' if writes else 'ON'}",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _log_ahead(self, connection: Any) -> None:  # noqa: ANN401
        """Turn the file to WAL, which it stays.

        Of several that do this to a new file at once, SQLite turns all but one away
        without waiting (each holds a lock that the others need).
        """
        until = time.monotonic() + self._wait_ms / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            except self.driver.OperationalError as error:
                lasts = time.monotonic() < until
                if not (lasts and isinstance(self.fault(error), StoreLocked)):
                    raise
                time.sleep(0.01)
            else:
                return

    def usable(self, connection: Any) -> bool:  # noqa: ANN401
        """Whether the connection may go back to the pool."""
        return not connection.in_transaction

    def cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor for statements."""
        return connection.cursor()

    def streaming_cursor(self, connection: Any) -> Any:  # noqa: ANN401
        """Open a cursor whose rows come as they are read."""
        return connection.cursor()

    def journey(self, connection: Any) -> AbstractContextManager[None]:  # noqa: ANN401, ARG002
        """Nothing to save: the store is in this process."""
        return nullcontext()

    def fault(self, error: Exception) -> DispatcherError | None:
        """Error for the user, or None for a mistake of this program."""
        return sqlite_fault(error)
