"""Rate limits: token buckets in memory, one for each caller.

They keep a script from flooding our pages, and us from flooding a market; what a worker
may see is limited elsewhere (capacities and the gate), so losing the buckets with the
process does no harm. The time is an argument: libraries that limit rates in memory read
the machine's clock themselves.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

_REMEMBERED: Final = 10_000
_MINUTE: Final = 60_000_000


def network_of(address: str) -> str:
    """Return the network that one subscriber has: of IPv6 a /64, of IPv4 the address.

    Whoever has an IPv6 address usually has 2**64 of them, and could use a fresh one for
    each request. What is no address is returned as it is.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, 64), strict=False))
        parsed = parsed.ipv4_mapped
    return str(parsed)


@dataclass(frozen=True)
class Rate:
    """How fast one caller may repeat one action.

    Attributes
    ----------
    per_minute : int
        Long-run rate, >= 1.
    burst : int
        Most actions at once after a pause, >= 1.
    """

    per_minute: int
    burst: int

    def __post_init__(self) -> None:
        for name in ("per_minute", "burst"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, expected >= 1"
                raise ValueError(msg)


class RateLimiter:
    """Token buckets of one action, by caller; thread-safe.

    Times are microseconds. A clock set back fills no bucket.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._buckets: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def wait(self, caller: Hashable, now: int) -> int:
        """Take one token.

        Returns
        -------
        int
            0 when there was a token, else the seconds until there is one, >= 1.
        """
        with self._lock:
            left = self._left(caller, now)
            allowed = left >= 1
            self._keep(caller, left - 1 if allowed else left, now)
        return 0 if allowed else max(1, round((1 - left) * 60 / self._rate.per_minute))

    def available(self, caller: Hashable, now: int) -> int:
        """Return the number of available tokens without taking any."""
        with self._lock:
            return max(0, int(self._left(caller, now)))

    def spend(self, caller: Hashable, tokens: int, now: int) -> None:
        """Take tokens, even more than are available."""
        with self._lock:
            self._keep(caller, self._left(caller, now) - tokens, now)

    def _left(self, caller: Hashable, now: int) -> float:
        full = float(self._rate.burst)
        left, then = self._buckets.get(caller, (full, now))
        earned = max(0, now - then) * self._rate.per_minute / _MINUTE
        return min(full, left + earned)

    def _keep(self, caller: Hashable, left: float, now: int) -> None:
        self._buckets[caller] = left, now
        self._buckets.move_to_end(caller)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
