"""Names at a market that cannot be asked for one: listed once, and then kept up.

Some markets have no search by name, so that to find one offer all of them have to be
listed. Done for each message anew that costs as many calls as there lie offers, times as
many messages as there are to send.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FRESH: Final = 60.0
OVERLAP: Final = 100
"""Known ones in a row after which a list that begins with the newest has no new ones."""

Listing = Callable[[], Iterator[tuple[str, str]]]
"""() -> (name, the market's own id) of all that lie there, page by page."""


class Index:
    """Where each name lies, as the market told last.

    A name that is not in it is not at the market, as far as this process knows: what it
    made itself is noted, and after a call with an unknown outcome all is listed again.
    What others make is seen after `fresh` seconds.

    Parameters
    ----------
    listing : callable
    newest_first : bool
        Whether the list begins with the newest: then only what is new is listed again.
    fresh : float
        Seconds for which a list holds.
    clock : callable
        () -> seconds, monotonic.
    """

    def __init__(
        self,
        listing: Listing,
        *,
        newest_first: bool = False,
        fresh: float = FRESH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listing = listing
        self._newest_first = newest_first
        self._fresh = fresh
        self._clock = clock
        self._known: dict[str, list[str]] = {}
        self._until = -1.0

    def find(self, name: str) -> list[str]:
        """Ids that bear a name; the market is asked if none is known."""
        if not self._known.get(name) and self._clock() >= self._until:
            self._list()
        return list(self._known.get(name, ()))

    @contextmanager
    def making(self, name: str) -> Iterator[Callable[[str], None]]:
        """Make something of a name within: call what is given with its id.

        If that ends in an error nobody knows whether it was made: it is looked for.
        """
        try:
            yield lambda number: self._note(name, number)
        except BaseException:
            self._until = -1.0
            raise

    def drop(self, name: str, number: str) -> None:
        """Forget one that is gone."""
        left = [one for one in self._known.pop(name, ()) if one != number]
        if left:
            self._known[name] = left

    def _note(self, name: str, number: str) -> None:
        ids = self._known.setdefault(name, [])
        if number not in ids:
            ids.append(number)

    def _list(self) -> None:
        began = self._clock()
        fresh: list[tuple[str, str]] = []
        known_in_a_row = 0
        for name, number in self._listing():
            if number in self._known.get(name, ()):
                known_in_a_row += 1
                if self._newest_first and known_in_a_row >= OVERLAP:
                    break
            else:
                known_in_a_row = 0
                fresh.append((name, number))
        for name, number in fresh:
            self._note(name, number)
        self._until = began + self._fresh
