"""The journal of a server beside the leader: its lines are shipped by the leader.

A commit leaves a row for each piece of its lines in ``unshipped_piece``; the leader ships
the pieces and deletes the rows, and only then are there bytes to return. So all that was
ever shown is in the leader's one folder, whichever machine showed it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final

from dispatcher.core.errors import NotShipped
from dispatcher.store import Store, unshipped
from dispatcher.store.transaction import Piece, Tx

LONGEST: Final = 15.0
"""Seconds to wait for the leader: longer than a standby takes to lead."""

LOOK: Final = 0.004
"""Seconds between two looks of a process, for all its threads together."""


class RemoteShipper:
    """Has the lines of a server shipped by the leader.

    Parameters
    ----------
    store : Store
    leads : callable
        Whether a daemon leads, as far as this server knows.
    needed : callable
        Whether the leader ships at all; else nothing is waited for.
    steady : callable
        Monotonic seconds (``time.monotonic``).
    """

    def __init__(
        self,
        store: Store,
        *,
        leads: Callable[[], bool],
        needed: Callable[[], bool],
        steady: Callable[[], float],
    ) -> None:
        self._needed = needed
        self._store = store
        self._leads = leads
        self._steady = steady
        self._turn = threading.Condition()
        self._begun: dict[int, range] = {}
        self._waiters: list[set[int]] = []
        self._looking = False
        self._late: set[int] = set()

    def ready(self) -> None:
        """Refuse to commit lines that nobody would ship.

        Raises
        ------
        NotShipped
            No daemon leads.
        """
        if self._needed() and not self._leads():
            raise _late()

    def begin(self, tx: Tx) -> int:
        """Leave the lines for the leader, in their own transaction."""
        if not self._needed():
            return 0
        pieces = [*(tx.grown or ())] or [unshipped.NO_LINE]
        numbers = unshipped.add(tx, pieces)
        with self._turn:
            self._begun[numbers[0]] = numbers
        return numbers[0]

    def ship(self, ticket: int, pieces: Sequence[Piece]) -> None:
        """Wait until the leader has shipped them."""
        del pieces
        with self._turn:
            numbers = self._begun.pop(ticket, None)
        if numbers:
            self._wait(set(numbers))

    def lose(self, ticket: int) -> None:
        """Forget a commit that failed; what was committed after all is shipped too."""
        with self._turn:
            self._begun.pop(ticket, None)

    def works(self) -> bool:
        """Whether a daemon leads, and has shipped by now what was waited for in vain."""
        if not self._needed():
            return True
        if self._late:
            with self._store.read() as tx:
                self._late = unshipped.left(tx, self._late)
        return self._leads() and not self._late

    def settle(
        self, tx: Tx | None = None, chain: int | None = None, *, afresh: bool = False
    ) -> None:
        """Wait until the leader has shipped what any server booked."""
        del afresh  # the leader compares
        if not self._needed():
            return
        if tx is not None:
            waiting = unshipped.waiting(tx, chain=chain)
        else:
            with self._store.read() as reading:
                waiting = unshipped.waiting(reading, chain=chain)
        if waiting:
            self._wait(set(waiting))

    def ship_waiting(self, epoch: int) -> int:
        """Ship nothing: only the leader does."""
        del epoch
        return 0

    def _wait(self, waiter: set[int]) -> None:
        """Wait until none of the rows is left; one thread looks for all that wait.

        Raises
        ------
        NotShipped
        StoreUnreachable, StoreLocked
        """
        until = self._steady() + LONGEST
        with self._turn:
            self._waiters.append(waiter)
        try:
            while waiter:
                with self._turn:
                    mine = not self._looking
                    if mine:
                        self._looking = True
                        wanted = set().union(*self._waiters)
                    elif self._turn.wait(LONGEST / 10):
                        continue
                if mine:
                    self._look(wanted)
                if waiter and self._steady() >= until:
                    self._late = set(waiter)
                    raise _late()
        finally:
            with self._turn:
                self._waiters = [one for one in self._waiters if one is not waiter]

    def _look(self, wanted: Collection[int]) -> None:
        """Take away what was shipped meanwhile, and give the turn to another thread."""
        left: set[int] = set(wanted)
        try:
            with self._store.read() as tx:
                left = unshipped.left(tx, wanted)
            if left:
                threading.Event().wait(LOOK)
        finally:
            with self._turn:
                for waiter in self._waiters:
                    waiter.difference_update(set(wanted) - left)
                self._looking = False
                self._turn.notify_all()


def _late() -> NotShipped:
    return NotShipped(
        "the leader has not shipped the ledger's lines of this server",
        why="Only the daemon that leads ships the ledger. It is away, or its disk is too "
        "slow; what was booked is in the store, and nothing of it is shown before.",
        fix="Look who leads: dispatcher status; start one with dispatcher up. It goes on "
        "by itself.",
    )
