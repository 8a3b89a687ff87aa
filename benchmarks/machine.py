"""What the machine can do right now: printed beside every benchmark."""

from __future__ import annotations

import os
import tempfile
import time


def load_average() -> float:
    """Load of the last minute."""
    return os.getloadavg()[0]


def fdatasyncs_per_second(count: int = 50) -> float:
    """How many small appends become durable in a second."""
    with tempfile.TemporaryFile() as file:
        began = time.perf_counter()
        for _ in range(count):
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - began)


def verdict(name: str, value: float, limit: float) -> str:
    """One line that says whether a figure keeps its limit."""
    word = "holds" if value <= limit else "FAILS"
    return f"{word}: {name} {value:.2f} (at most {limit:g})"
