"""What the machine can do right now: printed beside every benchmark."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path


def load_average() -> float:
    """Load of the last minute."""
    return os.getloadavg()[0]


def commit() -> str:
    """The last commit that changed ``policies/``, with a plus where that is edited."""
    told = (
        subprocess.run(
            ["git", *words.split(), "--", "policies"],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        for words in ("log -1 --format=%h --abbrev=8", "status --porcelain")
    )
    name, edited = told
    return f"{name}+" if edited else name


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
