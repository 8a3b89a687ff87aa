"""An index of names for markets without a search: listed once, then kept up to date.

Some markets have no search by name, so that finding one offer means listing all of
them. Doing that for each message would take as many calls as there are offers, times
the number of messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FRESH: Final = 60.0
OVERLAP: Final = 100
"""Known entries in a row after which a newest-first list has no new ones."""

Listing = Callable[[], Iterator[tuple[str, str]]]
"""() -> (name, the market's own id) of all offers there, page by page."""


class Index:
    """The market's ids of each name, as of the last listing.

    A name not in the index is not at the market, as far as this process knows: its own
    offers are noted, and after a call with an unknown outcome all are listed again.
    Offers of others are seen after `fresh` seconds.

    Parameters
    ----------
    listing : callable
    newest_first : bool
        Whether the list begins with the newest: then only new entries are listed again.
    fresh : float
        Seconds for which a listing stays valid.
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
        """Return the ids with a name; the market is listed again if none is known."""
        if not self._known.get(name) and self._clock() >= self._until:
            self._list()
        return list(self._known.get(name, ()))

    @contextmanager
    def making(self, name: str) -> Iterator[Callable[[str], None]]:
        """Create something with a name in the block: pass its id to the callable yielded.

        After an error it is unknown whether it was created, so it is looked up.
        """
        try:
            yield lambda number: self._note(name, number)
        except BaseException:
            self._until = -1.0
            raise

    def drop(self, name: str, number: str) -> None:
        """Remove an id that is gone."""
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
