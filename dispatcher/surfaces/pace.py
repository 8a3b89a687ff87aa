"""Rate limits of our pages: token buckets in memory, one a caller and action.

They keep a script from hammering; what a worker may see is capped elsewhere (capacities
and the gate), so losing the buckets with the process costs nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

_REMEMBERED: Final = 10_000
_SECOND: Final = 1_000_000


@dataclass(frozen=True)
class Rate:
    """How fast one caller may repeat one action.

    Attributes
    ----------
    per_minute : int
        Long-run rate, >= 1.
    burst : int
        How many at once after a rest, >= 1.
    """

    per_minute: int
    burst: int

    def __post_init__(self) -> None:
        for name in ("per_minute", "burst"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, expected >= 1"
                raise ValueError(msg)


class Pace:
    """Buckets of one action; safe to use from several threads."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._buckets: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def wait(self, caller: Hashable, now: int) -> int:
        """Take one token.

        Parameters
        ----------
        caller : Hashable
        now : int
            Microseconds.

        Returns
        -------
        int
            0 when there was a token, else the seconds until there is one, >= 1.
        """
        per_second = self._rate.per_minute / 60
        with self._lock:
            left, then = self._buckets.pop(caller, (float(self._rate.burst), now))
            passed = max(0, now - then) / _SECOND
            left = min(float(self._rate.burst), left + passed * per_second)
            allowed = left >= 1
            self._buckets[caller] = (left - 1 if allowed else left, now)
            if len(self._buckets) > _REMEMBERED:
                self._buckets.popitem(last=False)
        return 0 if allowed else max(1, round((1 - left) / per_second))
