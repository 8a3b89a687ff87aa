"""Durable files and directories: 0600 and 0700, synced, never through a link."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from connectors.base import Misconfigured, Rejected, TryLater

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EBUSY}
_TOO_LONG = {errno.ENAMETOOLONG}
_TRIES, _PAUSE = 40, 0.05  # attempts to get a lock, and seconds between them


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Translate an OSError into the connector error that fits."""
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "an input/output error")
        why = f"the system says {name}: {os.strerror(error.errno or errno.EIO)}"
        if error.errno in _FULL:
            raise TryLater(
                f"the disk is full or busy while {doing}",
                after=30,
                why=why,
                fix="free some space; the dispatcher tries again by itself",
            ) from error
        if error.errno in _TOO_LONG:
            raise Rejected(f"a name is too long while {doing}", why=why) from error
        raise Misconfigured(
            f"the spool directory cannot be used while {doing}",
            why=why,
            fix="give the dispatcher's user read and write access to it",
        ) from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes wait for, at most two seconds each.

    A crash releases it. A process that is frozen while holding it blocks nobody for
    good: the others go on without the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Make names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create one directory, 0700 and durable; an existing one is left as it is."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    sync_directory(path.parent)


def is_directory(path: Path) -> bool:
    """Whether it is a real directory, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def write_file(path: Path, content: bytes) -> None:
    """Write a new file, 0600 and durable once its directory is synced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old one or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    write_file(temporary, content)
    temporary.rename(path)
    sync_directory(path.parent)


def read_file(path: Path, limit: int) -> bytes | None:
    """Return a regular file of at most `limit` bytes; None if it is larger or no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        return file.read(limit + 1)
