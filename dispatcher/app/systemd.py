"""Notifications to systemd (``sd_notify``): ready, reloading, stopping, alive.

They are datagrams to the socket in ``NOTIFY_SOCKET``; without one nothing is sent.
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
    """Notifies the service manager that started this process, if any.

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
        """Whether the manager expects watchdog messages."""
        return bool(self._place) and self._every is not None

    def ready(self, status: str) -> None:
        """Report that the start, or a reload, is complete."""
        self._say("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Report that the settings are being read again."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={int(self._steady() * 1_000_000)}")

    def stopping(self, seconds: float) -> None:
        """Report that stopping has begun, and how long it may take."""
        self._say("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def beat(self, alive: Callable[[], bool] = lambda: True) -> None:
        """Send a watchdog message if one is due and `alive` agrees; call it often."""
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
            suppress(OSError),  # go on without the manager
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out,
        ):
            out.sendto("\n".join(lines).encode(), self._place)


def _half(environment: Mapping[str, str]) -> float | None:
    """Return half of the watchdog's timeout, in seconds."""
    text = environment.get("WATCHDOG_USEC", "")
    mine = environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    if not mine or not text.isdigit() or not int(text):
        return None
    return int(text) / 2_000_000
