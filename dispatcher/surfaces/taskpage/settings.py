"""The settings of the task page."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatcher.core.rate_limit import Rate


@dataclass(frozen=True)
class PageSettings:
    """How the page is reached, and how fast one worker may press its buttons.

    Attributes
    ----------
    https : bool
        Whether workers reach it over TLS: cookies are then ``Secure`` with the
        ``__Host-`` prefix. False is for loopback.
    contact : str
        Whom workers may ask, shown on every page.
    session : float
        Seconds after which a worker opens the link again.
    neutral : float
        The page "nothing for you" leaves after a multiple of so many seconds, so that
        its time does not tell why.
    arrive, start, answer, draft, look : Rate
        ``arrive`` counts by address, the others by account; ``look`` is for addresses
        of tasks and images that may not be the worker's.
    """

    https: bool = False
    contact: str = ""
    session: float = 12 * 3600
    neutral: float = 0.25
    arrive: Rate = field(default_factory=lambda: Rate(per_minute=240, burst=120))
    start: Rate = field(default_factory=lambda: Rate(per_minute=600, burst=60))
    answer: Rate = field(default_factory=lambda: Rate(per_minute=600, burst=60))
    draft: Rate = field(default_factory=lambda: Rate(per_minute=120, burst=30))
    look: Rate = field(default_factory=lambda: Rate(per_minute=60, burst=30))

    def __post_init__(self) -> None:
        for name in ("session", "neutral"):
            if getattr(self, name) < 0:
                msg = f"{name} is {getattr(self, name)}, expected seconds >= 0"
                raise ValueError(msg)
