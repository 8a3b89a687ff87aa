"""What a simulated worker saw and was told, written down before it does anything else.

One JSON line a fact, appended by one ``write``: it outlives a SIGKILL of the worker.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def now() -> int:
    """Microseconds since 1970 UTC, by the clock that the program reads too."""
    return time.time_ns() // 1000


class Diary:
    """One account's diary.

    Facts are ``task`` (a page with this token came), ``seen`` (the pixels of a field
    were received), ``part`` (a picture broke off midway), ``saying`` (this answer is
    about to be sent), ``confirmed`` (the server said that it is saved, or that it was
    read), ``back`` (the task was handed back), ``lost`` (no reply).
    """

    def __init__(self, folder: Path, account: str) -> None:
        self.account = account
        self.path = folder / f"{account.replace('/', '~')}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(self.path, flags, 0o600)

    def note(self, what: str, **facts: Any) -> None:
        line = {"what": what, "at": now(), **facts}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def facts(self) -> Iterator[dict[str, Any]]:
        return read(self.path)


def read(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def read_all(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All diaries by account."""
    return {
        path.stem.replace("~", "/", 1): list(read(path))
        for path in sorted(folder.glob("*.jsonl"))
    }
