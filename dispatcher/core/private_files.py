"""Files that only their owner may read, whatever the umask is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
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
