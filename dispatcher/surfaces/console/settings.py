"""The settings of the console."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from dispatcher.core.rate_limit import Rate


@dataclass(frozen=True)
class ConsoleSettings:
    """How the console is reached.

    Attributes
    ----------
    url : str
        How operators reach it from outside, ``https://ops.example.org``; empty where
        they sit at this machine.
    behind_proxy : bool
        Whether a proxy with TLS is before it: only then is it answered to others than
        this machine.
    sign_in : Rate
        How often an address may try to sign in.
    stale : float
        Seconds for which what was read from the store may be shown again.
    """

    url: str = ""
    behind_proxy: bool = False
    sign_in: Rate = field(default_factory=lambda: Rate(per_minute=20, burst=10))
    stale: float = 3.0

    @property
    def https(self) -> bool:
        """Whether browsers come over TLS: cookies are then ``Secure``, ``__Host-``."""
        return self.url.startswith("https://")

    @property
    def host(self) -> str | None:
        """Name under which it is reached from outside."""
        return urlsplit(self.url).hostname
