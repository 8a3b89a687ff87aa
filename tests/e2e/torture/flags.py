"""Flags that a killed process leaves behind: what it was in the midst of.

One byte a flag in a shared file: the pages outlive the process that wrote them, so
that they tell what was under way when SIGKILL came, and a watcher can wait for a flag
and kill right then.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

STAGES: Final = (
    "intake", "planning", "booking", "sending", "serving", "collecting", "assembly",
    "sealing", "leading", "start", "answer", "crop", "other",
)  # fmt: skip
PROGRAM: Final = (
    "leads",
    *STAGES,
    *(f"{stage}/write" for stage in STAGES),
    *(f"{stage}/commit" for stage in STAGES),
    "publish",
    "collect-files",
)
"""Flags of ``dispatcher up``: in a stage, in its write transaction, in its commit."""

PEOPLE: Final = ("post-start", "get-crop", "post-answer", "drop-file")
"""Flags of the simulated workers: a request is under way, a file is being dropped."""


class Flags:
    """The flags of one process."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self.names = names
        if not path.exists() or path.stat().st_size != len(names):
            path.write_bytes(bytes(len(names)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), len(names))
        self._place = {name: i for i, name in enumerate(names)}
        self._lock = threading.Lock()

    def add(self, name: str, number: int) -> None:
        """Raise or lower one flag: several threads may be at it."""
        place = self._place[name]
        with self._lock:
            self._map[place] = max(0, self._map[place] + number)

    @contextmanager
    def up(self, name: str) -> Iterator[None]:
        """Raise a flag for a while."""
        self.add(name, 1)
        try:
            yield
        finally:
            self.add(name, -1)

    def clear(self) -> None:
        """Lower all flags: nobody is alive to do it."""
        self._map[:] = bytes(len(self.names))

    def is_up(self, name: str) -> bool:
        return self._map[self._place[name]] > 0

    def all_up(self) -> list[str]:
        return [name for name in self.names if self.is_up(name)]
