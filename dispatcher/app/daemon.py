"""The clock that ticks the stages, and a lease. No domain logic.

The work lives in tables; a tick is "look whether there is something to do, and do a
bounded piece of it". A daemon leads while it holds the lease, and every gate write
carries the lease's epoch, so that a daemon that was frozen past its lease and wakes up
can write nothing.

Ticks come by a steady clock, one thread a tick. The time of day may be set by years (a
machine that boots before NTP), put back, or jump over a suspend: no turn is waited for
until that time of day, and none is made up for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.app.leadership import LEASE_SECONDS, Standby, take_lease
from dispatcher.core.errors import DispatcherError, StaleLease, StoreEdited
from dispatcher.core.log import get_logger
from dispatcher.ledger.comparison import refuse_edited
from dispatcher.store import Clock, Store, lease

MICRO: Final = 1_000_000

JUMP_SECONDS: Final = 3.0
"""A clock that is off by so much from one look to the next was set: see ``_watch``."""

LOOK_SECONDS: Final = 1.0
"""Time between two looks at the clock."""


@dataclass(frozen=True)
class Tick:
    """One stage's turn.

    Attributes
    ----------
    name : str
        The stage.
    seconds : float
        Time between two turns, > 0.
    run : callable
        Does a bounded piece of work under the epoch given; returns how much it did.
    shows : bool
        Whether it leads to something new being shown: then it rests while draining.
    at_once : bool
        Whether its first turn is at the start; else it is ``seconds`` later.
    """

    name: str
    seconds: float
    run: Callable[[int], int]
    shows: bool = False
    at_once: bool = True


class _Turns(threading.Thread):
    """Takes a tick's turns by a steady clock, never two at once, until it is over."""

    def __init__(
        self, tick: Tick, turn: Callable[[Tick], None], over: Callable[[], bool]
    ) -> None:
        super().__init__(name=tick.name, daemon=True)
        self._tick: Tick | None = tick
        self._turn = turn
        self._over = over
        self._changed = threading.Event()

    def go_on_with(self, tick: Tick | None) -> None:
        """Take the next turn at once, with another tick; None: no turn until told."""
        self._tick = tick
        self._changed.set()

    def run(self) -> None:
        """Take turns; those that a long one made it miss are left out."""
        tick = self._tick
        assert tick is not None, "it begins with a tick"
        due = time.monotonic() + (0 if tick.at_once else tick.seconds)
        while True:
            left = None if tick is None else due - time.monotonic()
            if self._changed.wait(left):
                self._changed.clear()
                due = time.monotonic()
            if self._over():
                return
            tick = self._tick
            if tick is not None:
                self._turn(tick)
                due = next_turn(due, tick.seconds, time.monotonic())


def next_turn(due: float, seconds: float, now: float) -> float:
    """When the next turn is due after one that was due then: missed ones are left out."""
    return due + seconds * (1 + max(0.0, now - due) // seconds)


class Daemon:
    """Leads a store and ticks its stages until it is stopped or loses the lease.

    Parameters
    ----------
    store : Store
    ticks : sequence of Tick
    clock : Clock
    lost : callable
        Called once, from another thread, when it ends by itself: another daemon took
        the lease, or the store is not as its ledger says.
    renew_seconds : float
        Time between two renewals of the lease; well below ``LEASE_SECONDS``.
    """

    def __init__(
        self,
        store: Store,
        ticks: Sequence[Tick],
        clock: Clock,
        *,
        lost: Callable[[], None],
        renew_seconds: float = 2.0,
    ) -> None:
        self._store = store
        self._ticks = ticks
        self._clock = clock
        self._lost = lost
        self._renew_seconds = renew_seconds
        self._epoch = 0
        self._over = threading.Event()
        self._draining = threading.Event()
        self._was_lost = False
        self._failed: StoreEdited | None = None
        self._afresh: Callable[[], Sequence[Tick]] | None = None
        self._turns: dict[str, _Turns] = {}
        self._changing = threading.Lock()
        self._log = get_logger("daemon")

    def epoch_to_show(self) -> int:
        """The fencing token for a showing that is to be booked now.

        Raises
        ------
        StaleLease
            If this daemon does not lead (any more), or is draining.
        """
        if not self.is_open():
            raise StaleLease(
                "nothing new is shown by this daemon",
                why="it is stopping, or its lease was taken over",
                fix="start it again, or look who leads: dispatcher status",
            )
        return self._epoch

    def is_leading(self) -> bool:
        """Whether it holds the lease, as far as it knows."""
        return bool(self._epoch) and not self._over.is_set()

    def is_open(self) -> bool:
        """Whether new showings may begin: it leads and does not drain."""
        return self.is_leading() and not self._draining.is_set()

    def begin_drain(self) -> None:
        """Show nothing new from now on; what was shown may still be answered."""
        self._draining.set()
        self._log.info("draining")

    def was_lost(self) -> bool:
        """Whether another daemon took the lease."""
        return self._was_lost

    def raise_if_lost(self) -> None:
        """Raise why it ended by itself, if it did.

        Raises
        ------
        StaleLease
            Another daemon took the lease.
        StoreEdited
            The store is not as its ledger says.
        """
        if self._failed is not None:
            raise self._failed
        if self._was_lost:
            raise StaleLease(
                "another daemon took over the lease of this one",
                why="it was not renewed in time: this process was frozen or cut off",
                fix="look who leads: dispatcher status; then start this one again if "
                "need be. Nothing was sent twice.",
            )

    def lead(self) -> None:
        """Take the lease; nothing ticks before :meth:`start`.

        Raises
        ------
        AnotherLeads
            If another daemon holds the lease.
        StoreEdited
            If the store is not as its ledger says.
        NotShipped, LedgerAhead, LedgerForeign, LedgerBroken
            If the ledger cannot be shipped from where it stands.
        """
        self._epoch = take_lease(self._store, self._clock)
        self._catch_up()
        self._log.info("leading", epoch=self._epoch)

    def lead_after(self, standby: Standby) -> bool:
        """Wait until the lease is free and take it; False if the waiting was ended."""
        self._log.info("standing-by")
        epoch = standby.wait()
        if epoch is None:
            return False
        self._epoch = epoch
        self._catch_up()
        self._log.info("leading", epoch=self._epoch)
        return True

    def _catch_up(self) -> None:
        """Ship what the last leader may have left behind, before anything is shown.

        An edited store ships nothing: its lines may be told from rows that are not true.
        """
        try:
            refuse_edited(self._store)
            self._store.settle(afresh=True)
        except DispatcherError:
            self.stop()  # gives the lease back
            raise

    def start(self, afresh: Callable[[], Sequence[Tick]] | None = None) -> None:
        """Begin to tick, each stage in its own rhythm, most of them at once.

        Parameters
        ----------
        afresh : callable, optional
            Makes the ticks anew when the clock was set: stages remember until when they
            rest, by a time of day that holds no more.
        """
        self._afresh = afresh
        since = self._clock(), time.monotonic()  # before any turn: it counts from here
        self._begin(Tick("leading", self._renew_seconds, self._renew))
        for tick in self._ticks:
            self._begin(tick)
        threading.Thread(target=self._watch, args=since, daemon=True).start()

    def retick(self, ticks: Sequence[Tick], renew_seconds: float) -> None:
        """Go on with other ticks, each with a turn at once; one that runs ends first.

        Parameters
        ----------
        ticks : sequence of Tick
            Those that take the place of the ones of the same name; others end.
        renew_seconds : float
            As for the daemon.
        """
        wanted = {tick.name: tick for tick in ticks}
        wanted["leading"] = Tick("leading", renew_seconds, self._renew)
        with self._changing:
            if self._over.is_set():
                return
            for name, turns in self._turns.items():
                turns.go_on_with(wanted.pop(name, None))
            for tick in wanted.values():
                self._begin(tick)
        self._renew_seconds = renew_seconds
        self._ticks = ticks

    def stop(self) -> None:
        """Let running ticks end, tick no more, and give the lease back."""
        was_leading = not self._over.is_set() or self._failed is not None
        with self._changing:
            self._over.set()  # what has not begun does not begin, however long one takes
        for turns in self._turns.values():
            turns.go_on_with(None)
        for turns in self._turns.values():
            turns.join()
        if was_leading and self._epoch:
            try:
                with self._store.write() as tx:
                    lease.release(tx, lease.SHARD, self._epoch)
            except DispatcherError as error:  # it ends by itself, a little later
                self._log.warning("lease-not-released", code=error.code)
        self._log.info("stopped", epoch=self._epoch)

    def _begin(self, tick: Tick) -> None:
        self._turns[tick.name] = turns = _Turns(tick, self._turn, self._over.is_set)
        turns.start()

    def _turn(self, tick: Tick) -> None:
        if self._over.is_set() or (tick.shows and self._draining.is_set()):
            return
        try:
            done = tick.run(self._epoch)
        except StaleLease:
            self._lose()
        except StoreEdited as error:
            self._fail(error)
        except DispatcherError as error:
            self._log.warning(
                "tick-refused", tick=tick.name, code=error.code, what=error.what
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - stops no other
            self._log.error("tick-failed", tick=tick.name, error=error)
        else:
            if done:
                self._log.info("tick", tick=tick.name, done=done)

    def _watch(self, wall: int, steady: float) -> None:
        """Let everything tick at once, made anew, when the time of day was set.

        A suspend looks the same: the steady clock stands still meanwhile.
        """
        while not self._over.wait(LOOK_SECONDS):
            now, since = self._clock(), time.monotonic() - steady
            jump = (now - wall) / MICRO - since
            wall, steady = now, steady + since
            if abs(jump) > JUMP_SECONDS:
                self._log.warning("clock-was-set", seconds=round(jump))
                self._tick_anew()

    def _tick_anew(self) -> None:
        ticks = self._ticks
        try:
            if self._afresh is not None:
                ticks = self._afresh()
        except DispatcherError as error:  # such as an inbox that is gone: as it was
            self._log.warning("ticks-kept", code=error.code)
        self.retick(ticks, self._renew_seconds)

    def _renew(self, _: int) -> int:
        try:
            until = self._clock() + LEASE_SECONDS * MICRO
            with self._store.write() as tx:
                leading = lease.renew(tx, lease.SHARD, self._epoch, until)
        except DispatcherError as error:
            self._log.warning("lease-not-renewed", code=error.code)
        else:
            if not leading:
                self._lose()
        return 0

    def _lose(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._was_lost = True
            self._log.error("lease-lost", epoch=self._epoch)
            self._lost()

    def _fail(self, error: StoreEdited) -> None:
        """Show nothing any more, at once: what it would be judged by is not true."""
        if not self._over.is_set():
            self._failed = error
            self._over.set()
            self._log.error("store-edited", code=error.code, what=error.what)
            self._lost()
