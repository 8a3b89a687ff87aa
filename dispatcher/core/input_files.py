"""Files that a user names are read without waiting for a pipe or filling memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO, Final

LARGEST: Final = 512 << 20
"""The most bytes of a file that is read whole: a device such as /dev/zero has no end."""


def open_input(path: Path) -> BinaryIO:
    """Open a file for reading, whatever kind it is.

    A named pipe that nobody writes into is empty: it is not waited for.

    Raises
    ------
    OSError
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(handle, True)  # a slow writer is waited for
    return os.fdopen(handle, "rb")


def read_input(path: Path) -> bytes:
    """Read a file whole.

    Raises
    ------
    OSError
        Also if it has more than :data:`LARGEST` bytes.
    """
    with open_input(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content
