"""Files that only their owner may read, whatever the umask is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO


def private(path: str | Path, flags: int) -> int:
    """Open a file that, where it is new, only its owner may read; never through a link.

    It is an opener: ``open(path, "x", opener=private)`` makes a new file and refuses one
    that is there, ``"w"`` begins it anew, ``"a"`` goes on with it.

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
        It can not be opened, or it is a link.
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def append_lines(path: Path, text: bytes) -> None:
    """Append whole lines to a private file, durably; it is made if it is not there.

    What a crash has left of a line at its end is cut away first.

    Raises
    ------
    OSError
    """
    with os.fdopen(private(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _drop_cut_line(file)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _drop_cut_line(file: BinaryIO) -> None:
    """Go to the end of the last whole line; what is behind it goes."""
    text = file.read()
    end = text.rfind(b"\n") + 1
    file.seek(end)
    file.truncate(end)


def sync_folder(folder: Path) -> None:
    """Let names in a folder outlast a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
