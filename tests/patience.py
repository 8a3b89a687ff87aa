"""Waiting for what others do: threads, processes, servers; never without an end."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 240.0  # seconds: far above what is seen, for a machine that is busy

Held = TypeVar("Held")


def until(what: Callable[[], Held], told: str, *, pause: float = 0.05) -> Held:
    """Wait until something holds, and return it; fail with what was waited for."""
    end = time.monotonic() + PATIENCE
    while not (held := what()):
        assert time.monotonic() < end, f"waited in vain: {told}"
        time.sleep(pause)
    return held
