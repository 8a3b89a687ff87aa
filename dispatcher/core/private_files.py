"""Files that only their owner may read, whatever the umask is."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Lock
from typing import BinaryIO


def private(path: str | Path, flags: int) -> int:
    """Open a file; create it readable only for its owner; never follow a link.

    It is an opener: ``open(path, "x", opener=private)`` creates a file and refuses an
    existing one, ``"w"`` truncates it, ``"a"`` appends to it.

    Parameters
    ----------
    path : str or Path
    flags : int
        As of :func:`os.open`.

    Returns
    -------
    int
        A descriptor that no child process inherits.

    Raises
    ------
    OSError
        It cannot be opened, or it is a link.
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_private(
    path: Path, content: str | bytes, *, replace: bool = True, mode: int = 0o600
) -> Path:
    """Write a file durably that only its owner may read, whatever the umask is.

    Replacement is atomic.

    Parameters
    ----------
    path : Path
    content : str or bytes
    replace : bool
        Whether an existing file may be replaced.
    mode : int
        Permission bits, where others than the owner may read it.

    Raises
    ------
    FileExistsError
        If it exists and ``replace`` is off.
    """
    target = path.with_name(f".{path.name}.{os.getpid()}") if replace else path
    handle = private(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(handle)
        if replace:
            target.replace(path)
    except OSError:  # the disk is full: leave no truncated file
        target.unlink(missing_ok=True)
        raise
    return path


def append_lines(path: Path, text: bytes) -> None:
    """Append whole lines to a private file, durably; create it if missing.

    A partial line that a crash left at its end is removed first. Nothing else is ever
    changed, so that the file may be append-only (``chattr +a``).

    Raises
    ------
    OSError
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    with os.fdopen(private(path, flags), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not _drop_cut_line(file):
            sync_folder(path.parent)  # before the first line: where one is, its name is
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _drop_cut_line(file: BinaryIO) -> int:
    """Truncate the file after its last whole line; return that offset."""
    text = file.read()
    end = text.rfind(b"\n") + 1
    if end < len(text):
        file.truncate(end)
    file.seek(end)
    return end


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ScratchFolder:
    """Files that a process works on and that must not outlive it, even after a crash.

    Each process has a folder of its own in it, which it locks while it runs; the folders
    of processes that ended are removed by :meth:`sweep`. Only their owner may read them.

    Parameters
    ----------
    folder : Path
        Of all processes; made when the first file is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = Lock()
        self._own: tuple[Path, int] | None = None

    def sweep(self) -> None:
        """Remove what processes left that ended."""
        if not self.folder.is_dir():
            return
        with self._alone():
            for one in self.folder.iterdir():
                lock = _lock(one / _LOCK) if one.is_dir() else None
                if lock is not None:
                    rmtree(one, ignore_errors=True)
                    os.close(lock)

    def make(self, name: str, most: Mapping[str, int] | None = None) -> Path | None:
        """Make a private folder, removed by the caller.

        Parameters
        ----------
        name : str
            What its name begins with.
        most : mapping of str to int, optional
            How many folders of this process may have names that begin so.

        Returns
        -------
        Path or None
            None if there are as many already.
        """
        with self._turn:
            own = self._opened()
            there = [one.name for one in own.iterdir()]
            for begin, limit in (most or {}).items():
                if sum(one.startswith(begin) for one in there) >= limit:
                    return None
            return Path(mkdtemp(prefix=name, dir=own))

    def close(self) -> None:
        """Remove this process's files."""
        with self._turn:
            if self._own is not None:
                own, lock = self._own
                self._own = None
                rmtree(own, ignore_errors=True)
                os.close(lock)

    def _opened(self) -> Path:
        if self._own is None:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
            with self._alone():  # nobody sweeps before it is locked
                own = Path(mkdtemp(dir=self.folder))
                lock = _lock(own / _LOCK)
                assert lock is not None
                self._own = own, lock
        return self._own[0]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with os.fdopen(private(self.folder / _LOCK, os.O_RDWR | os.O_CREAT)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


_LOCK = "lock"


def _lock(path: Path) -> int | None:
    """Lock a file until its descriptor is closed; None if another process does."""
    try:
        handle = private(path, os.O_RDWR | os.O_CREAT)
    except OSError:  # another user's
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
