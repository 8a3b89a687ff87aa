"""What systemd is told (``sd_notify``): ready, reloading, stopping, still alive.

A datagram to the socket that ``NOTIFY_SOCKET`` names; without one nothing is said.
Protocol: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

Steady = Callable[[], float]
"""Seconds of a clock that never goes back, and is the machine's (``CLOCK_MONOTONIC``)."""


class Notifier:
    """Speaks to the service manager that started this process, if one did.

    Parameters
    ----------
    environment : Mapping[str, str]
        ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID`` are read.
    steady : Steady
    """

    def __init__(self, environment: Mapping[str, str], steady: Steady) -> None:
        place = environment.get("NOTIFY_SOCKET", "")
        self._place = "\0" + place[1:] if place.startswith("@") else place
        self._steady = steady
        self._every = _half(environment)
        self._next = 0.0

    @property
    def beats(self) -> bool:
        """Whether the manager waits for signs of life."""
        return bool(self._place) and self._every is not None

    def ready(self, status: str) -> None:
        """Say that the start, or a reload, is done."""
        self._say("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Say that the settings are read again."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={int(self._steady() * 1_000_000)}")

    def stopping(self, seconds: float) -> None:
        """Say that the end has begun, and may take so long."""
        self._say("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def beat(self, alive: Callable[[], bool] = lambda: True) -> None:
        """Give a sign of life if one is due and there is life; may be called often."""
        if not self.beats or self._steady() < self._next:
            return
        if alive():
            assert self._every is not None
            self._next = self._steady() + self._every
            self._say("WATCHDOG=1")

    def _say(self, *lines: str) -> None:
        if not self._place:
            return
        with (
            suppress(OSError),  # a manager that is gone is no reason to stop
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out,
        ):
            out.sendto("\n".join(lines).encode(), self._place)


def _half(environment: Mapping[str, str]) -> float | None:
    """Half of the time after which the manager takes silence for death, in seconds."""
    text = environment.get("WATCHDOG_USEC", "")
    mine = environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    if not mine or not text.isdigit() or not int(text):
        return None
    return int(text) / 2_000_000
