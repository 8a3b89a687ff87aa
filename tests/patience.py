"""Waiting for what others do: threads, processes, servers; never without an end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dispatcher.core.errors import DispatcherError

PATIENCE = 240.0  # seconds: far above what is seen, for a machine that is busy

Held = TypeVar("Held")


def until(what: Callable[[], Held], told: str, *, pause: float = 0.05) -> Held:
    """Wait until something holds, and return it; fail with what was waited for."""
    end = time.monotonic() + PATIENCE
    while not (held := what()):
        assert time.monotonic() < end, f"waited in vain: {told}"
        time.sleep(pause)
    return held


def together(*actions: Callable[[], Held]) -> list[Held | DispatcherError]:
    """Run actions at the same moment; return what each came to."""
    start = threading.Barrier(len(actions))

    def run(action: Callable[[], Held]) -> Held | DispatcherError:
        start.wait()
        try:
            return action()
        except DispatcherError as error:
            return error

    with ThreadPoolExecutor(len(actions)) as pool:
        return [job.result(PATIENCE) for job in [pool.submit(run, a) for a in actions]]
