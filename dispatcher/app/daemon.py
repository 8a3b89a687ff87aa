"""The daemon that ticks the stages: APScheduler, a lease, signals. No domain logic.

The work is in tables; a tick checks for work and does a bounded piece of it. A daemon
leads while it has the lease, and every gate write carries the lease's epoch, so that a
daemon that was frozen past its lease and wakes up cannot write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from dispatcher.app.leadership import LEASE_SECONDS, Standby, take_lease
from dispatcher.core.errors import DispatcherError, StaleLease, StoreEdited
from dispatcher.core.log import get_logger
from dispatcher.ledger.comparison import refuse_edited
from dispatcher.store import Clock, Store, lease, settings
from dispatcher.store.settings import TickFailure

MICRO: Final = 1_000_000

JUMP_SECONDS: Final = 3.0
"""A clock that deviates by this much between two checks was set: see ``_watch``."""

SHIP_SECONDS: Final = (0.004, 0.05, 1.0)
"""Time between two looks for what servers booked: while they do, between, without any."""

LOOK_SECONDS: Final = 1.0
"""Time between two checks of the clock."""


@dataclass(frozen=True)
class Tick:
    """A periodic run of one stage.

    Attributes
    ----------
    name : str
        The stage.
    seconds : float
        Time between two turns, > 0.
    run : callable
        Does a bounded piece of work under the epoch given; returns how much it did.
    shows : bool
        Whether it leads to new showings: then it is skipped while draining.
    at_once : bool
        Whether it first runs at the start; else ``seconds`` later.
    """

    name: str
    seconds: float
    run: Callable[[int], int]
    shows: bool = False
    at_once: bool = True


class Every(IntervalTrigger):  # type: ignore[misc]  # APScheduler has no types
    """An interval trigger that skips missed runs instead of enumerating them.

    APScheduler lists each missed time before it merges them: with the clock set forward
    by a year, 31 million for a tick every second, again and again.
    """

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime:
        """Return one interval after the previous time, or after now if that is past."""
        interval: timedelta = self.interval
        due = (previous_fire_time or now) + interval
        return due if due > now else now + interval


class Daemon:
    """Leads a store and ticks its stages until it is stopped or loses the lease.

    Parameters
    ----------
    store : Store
    ticks : sequence of Tick
    clock : Clock
    lost : callable
        Called once, from another thread, when it ends by itself: another daemon took
        the lease, or the store differs from its ledger.
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
        self._failing: dict[str, TickFailure] = {}
        self._noted: dict[str, TickFailure] | None = None  # in the store, by us
        self._noting = threading.Lock()
        self._afresh: Callable[[], Sequence[Tick]] | None = None
        self._log = get_logger("daemon")
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(len(ticks) + 1)},
            job_defaults={"coalesce": True, "max_instances": 1},
        )

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

    def fence(self) -> lease.Fence:
        """The lease under which something is shown now; see :meth:`epoch_to_show`."""
        return lease.Fence(lease.SHARD, self.epoch_to_show())

    def is_leading(self) -> bool:
        """Whether this daemon has the lease, as far as it knows."""
        return bool(self._epoch) and not self._over.is_set()

    def is_open(self) -> bool:
        """Whether new showings may begin: it leads and does not drain."""
        return self.is_leading() and not self._draining.is_set()

    def begin_drain(self) -> None:
        """Stop new showings; what was shown may still be answered."""
        self._draining.set()
        self._log.info("draining")

    def was_lost(self) -> bool:
        """Whether another daemon took the lease."""
        return self._was_lost

    def raise_if_lost(self) -> None:
        """Raise the reason why it ended by itself, if it did.

        Raises
        ------
        StaleLease
            Another daemon took the lease.
        StoreEdited
            The store differs from its ledger.
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
            If another daemon has the lease.
        StoreEdited
            If the store differs from its ledger.
        NotShipped, LedgerAhead, LedgerForeign, LedgerBroken
            If the ledger cannot be shipped.
        """
        self._epoch = take_lease(self._store, self._clock)
        self._catch_up()
        self._log.info("leading", epoch=self._epoch)

    def lead_after(self, standby: Standby) -> bool:
        """Wait until the lease is free and take it; False if the wait was cancelled."""
        self._log.info("standing-by")
        epoch = standby.wait()
        if epoch is None:
            return False
        self._epoch = epoch
        self._catch_up()
        self._log.info("leading", epoch=self._epoch)
        return True

    def _catch_up(self) -> None:
        """Ship lines that the last leader may have left unshipped, before any showing.

        An edited store ships nothing: its lines may be rendered from false rows.
        """
        try:
            refuse_edited(self._store)
            self._store.settle(afresh=True)
        except DispatcherError:
            self._end_servers()
            self.stop()  # releases the lease
            raise

    def start(self, afresh: Callable[[], Sequence[Tick]] | None = None) -> None:
        """Start the ticks, each stage at its own interval, most of them at once.

        Parameters
        ----------
        afresh : callable, optional
            Recreates the ticks when the clock was set: the times until which stages
            pause are no longer valid.
        """
        self._afresh = afresh
        self._keep_failing()  # what another daemon noted is over
        since = self._clock(), time.monotonic()  # before any turn: it counts from here
        self._add("leading", self._renew_seconds, self._renew)
        for tick in self._ticks:
            self._add_tick(tick)
        self._scheduler.start()
        threading.Thread(target=self._watch, args=since, daemon=True).start()
        if self._store.is_served_by_many and self._store.is_shipped:
            threading.Thread(target=self._ship, daemon=True).start()

    def _end_servers(self) -> None:
        """Fence all servers off, as far as the store can be reached."""
        try:
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, self._epoch)
                lease.end_servers(tx)
        except DispatcherError as error:
            self._log.warning("servers-not-fenced-off", code=error.code)

    def _ship(self) -> None:
        """Ship what servers book, at once while they do and else as seldom as they wait."""
        busy, idle, alone = SHIP_SECONDS
        pause = alone
        while not self._over.wait(pause):
            try:
                if self._store.ship_waiting(self._epoch):
                    pause = busy
                elif pause < idle:
                    pause *= 1.2
                else:
                    pause = idle if self._has_servers() else alone
            except StaleLease:
                self._lose()
            except DispatcherError as error:
                self._log.warning("servers-not-shipped", code=error.code)
                pause = alone

    def _has_servers(self) -> bool:
        with self._store.read() as tx:
            return bool(lease.servers(tx))

    def retick(self, ticks: Sequence[Tick], renew_seconds: float) -> None:
        """Replace the ticks; a running one finishes first.

        Parameters
        ----------
        ticks : sequence of Tick
            They replace those of the same name; others end.
        renew_seconds : float
            As for the daemon.
        """
        wanted = {tick.name: tick for tick in ticks}
        for gone in {tick.name for tick in self._ticks} - wanted.keys():
            self._scheduler.remove_job(gone)
            self._note(gone, None)
        for tick in ticks:
            if self._scheduler.get_job(tick.name) is None:
                self._add_tick(tick)
            else:  # the same job still: it never runs twice at once
                self._scheduler.modify_job(tick.name, func=partial(self._turn, tick))
                self._pace(tick.name, tick.seconds)
        self._pace("leading", renew_seconds)
        self._renew_seconds = renew_seconds
        self._ticks = ticks

    def _pace(self, name: str, seconds: float) -> None:
        every = Every(seconds=seconds, timezone=UTC)
        self._scheduler.reschedule_job(name, trigger=every)

    def stop(self) -> None:
        """Wait for running ticks, stop ticking, and release the lease."""
        was_leading = not self._over.is_set() or self._failed is not None
        self._over.set()  # what has not begun does not begin, however long one takes
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)
        if was_leading and self._epoch:
            try:
                with self._store.write() as tx:
                    lease.release(tx, lease.SHARD, self._epoch)
            except DispatcherError as error:  # it ends by itself, a little later
                self._log.warning("lease-not-released", code=error.code)
        self._log.info("stopped", epoch=self._epoch)

    def _add_tick(self, tick: Tick) -> None:
        later = 0 if tick.at_once else tick.seconds
        self._add(tick.name, tick.seconds, partial(self._turn, tick), later)

    def _add(
        self, name: str, seconds: float, run: Callable[[], None], later: float = 0
    ) -> None:
        # By the scheduler's own clock, which is the machine's.
        first = datetime.now(UTC) + timedelta(seconds=later)  # noqa: TID251
        self._scheduler.add_job(
            run,
            Every(seconds=seconds, timezone=UTC),
            id=name,
            name=name,
            misfire_grace_time=None,
            next_run_time=first,
        )

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
            self._note(tick.name, error.code)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - stops no other
            self._log.error("tick-failed", tick=tick.name, error=error)
            self._note(tick.name, DispatcherError.code)
        else:
            self._note(tick.name, None)
            if done:
                self._log.info("tick", tick=tick.name, done=done)

    def _note(self, name: str, code: str | None) -> None:
        """Let ``status`` know that a tick fails, or does so no longer."""
        with self._noting:
            known = self._failing.get(name)
            if code is None:
                self._failing.pop(name, None)
            elif known is None or known.code != code:
                self._failing[name] = TickFailure(code, self._clock())
            if self._failing != self._noted:  # or an earlier turn could not write it
                self._keep_failing()

    def _keep_failing(self) -> None:
        try:
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, self._epoch)
                settings.note_failing_ticks(tx, self._failing)
            self._noted = dict(self._failing)
        except DispatcherError as error:  # the tick has logged it
            self._log.warning("failing-ticks-not-noted", code=error.code)

    def _watch(self, wall: int, steady: float) -> None:
        """Run all ticks at once when the time of day was set.

        The scheduler waits for times of day: if the clock is set back by a day it would
        wait a day, and the lease would not be renewed.
        """
        while not self._over.wait(LOOK_SECONDS):
            now, since = self._clock(), time.monotonic() - steady
            jump = (now - wall) / MICRO - since
            wall, steady = now, steady + since
            if abs(jump) > JUMP_SECONDS and self._scheduler.running:
                self._log.warning("clock-was-set", seconds=round(jump))
                self._tick_now()

    def _tick_now(self) -> None:
        try:
            if self._afresh is not None:
                self.retick(self._afresh(), self._renew_seconds)
        except DispatcherError as error:  # such as an inbox that is gone: as it was
            self._log.warning("ticks-kept", code=error.code)
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))  # noqa: TID251 - as in _add

    def _renew(self) -> None:
        if self._over.is_set():
            return
        try:
            until = self._clock() + LEASE_SECONDS * MICRO
            with self._store.write() as tx:
                leading = lease.renew(tx, lease.SHARD, self._epoch, until)
        except DispatcherError as error:
            self._log.warning("lease-not-renewed", code=error.code)
        else:
            if not leading:
                self._lose()

    def _lose(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._was_lost = True
            self._log.error("lease-lost", epoch=self._epoch)
            self._lost()

    def _fail(self, error: StoreEdited) -> None:
        """Stop all showings at once: the data that judges them is false."""
        if not self._over.is_set():
            self._failed = error
            self._over.set()
            self._end_servers()
            self._log.error("store-edited", code=error.code, what=error.what)
            self._lost()
