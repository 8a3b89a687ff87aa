"""Servers beside the leader: the lease of one, and the leader's look at all of them.

A server shows something only while it has a lease of its own, which it renews once a
second, and while a daemon leads. The leader deletes the lease of a server that does not
renew it, by its own steady clock, and of all servers where the store was edited past the
program: bookings that carry a deleted lease are refused in their own transaction.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from dispatcher.app.leadership import LEASE_SECONDS
from dispatcher.core.errors import (
    DispatcherError,
    StaleLease,
    StoreLocked,
    StoreUnreachable,
)
from dispatcher.core.log import get_logger
from dispatcher.core.processes import is_dead, process_digest, process_name
from dispatcher.store import Clock, Store, Tx, api_requests, lease, migrations, settings
from dispatcher.store.lease import Fence

LEADERLESS_SECONDS: Final = 30.0
"""How long servers go on without a leader: longer than a standby takes to lead."""

CLOCKS_SECONDS: Final = 60.0
"""How far a server's clock may be from the database's."""

MICRO: Final = 1_000_000


class ServerLease:
    """The lease of this process, which serves beside the leader.

    Parameters
    ----------
    store : Store
    clock : Clock
    serves : str
        What this process serves, for people.
    steady : callable
        Monotonic seconds (``time.monotonic``).
    number : callable
        Makes a random number below 2**62.
    me : str, optional
        Name of this process; None: as :func:`process_name` makes it.

    Attributes
    ----------
    why : str
        What keeps it from showing anything; empty while nothing does.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        serves: str,
        *,
        steady: Callable[[], float],
        number: Callable[[], int],
        me: str | None = None,
    ) -> None:
        self.why = "it has no lease yet"
        self._store = store
        self._clock = clock
        self._serves = serves
        self._steady = steady
        self._number = number
        self._me = me or process_name(os.getpid())
        self._fence: Fence | None = None
        self._renewed = 0.0
        self._leader: lease.LeaseHolder | None = None
        self._led = -LEADERLESS_SECONDS  # when the leader was seen to renew its lease
        self._opened: settings.Opened | None = None
        self._draining = False
        self._lock = threading.Lock()
        self._log = get_logger("server")

    def fence(self) -> Fence:
        """Return the lease under which something is shown now.

        Raises
        ------
        StaleLease
            There is none, or it was not renewed in time, or no daemon leads.
        """
        fence = self._fence
        if fence is None or not self.is_serving():
            raise StaleLease(
                "nothing new is shown by this server",
                why=f"{self.why or 'its lease was not renewed in time'}.",
                fix="It goes on by itself; look who leads: dispatcher status",
            )
        return fence

    def is_serving(self) -> bool:
        """Whether this server may show something, by what it knows."""
        now = self._steady()
        return (
            self._fence is not None
            and now - self._renewed < LEASE_SECONDS
            and self.is_led(now)
            and not self.why
        )

    def is_open(self) -> bool:
        """Whether a proxy should send it anybody: it serves and does not drain."""
        return self.is_serving() and not self._draining

    def is_led(self, now: float | None = None) -> bool:
        """Whether a daemon led a moment ago."""
        return (self._steady() if now is None else now) - self._led < LEADERLESS_SECONDS

    @property
    def leader_ships(self) -> bool:
        """Whether the leader ships the ledger: then what is booked here waits for it."""
        return self._opened is None or self._opened.ships

    def begin_drain(self) -> None:
        """Tell proxies to send nobody any more; whoever comes is still served."""
        self._draining = True
        self._log.info("draining")

    def beat(self) -> None:
        """Renew the lease, or take one; to be called once a second."""
        with self._lock:
            began = self._steady()
            try:
                with self._store.write() as tx:
                    why, fence = self._look(tx)
            except (StoreUnreachable, StoreLocked) as error:  # it may be back in time
                self._log.warning("server-lease-not-renewed", code=error.code)
                return
            except DispatcherError as error:
                why, fence = f"the store refused it ({error.code})", self._fence
            else:
                self._renewed = began
            if fence is None and self._fence is not None:
                self._log.error("server-lease-lost", shard=self._fence.shard)
            self._fence = fence
            if why != self.why:
                self.why = why
                if why:
                    self._log.warning("server-shows-nothing", why=why)
                else:
                    self._log.info("server-open", shard=fence.shard if fence else 0)

    def leave(self) -> None:
        """Give the lease back: nothing more is shown."""
        with self._lock:
            fence, self._fence, self.why = self._fence, None, "it has ended"
            if fence is not None:
                try:
                    with self._store.write() as tx:
                        lease.end_server(tx, fence.shard)
                except DispatcherError as error:  # the leader ends it, a little later
                    self._log.warning("lease-not-released", code=error.code)

    def _look(self, tx: Tx) -> tuple[str, Fence | None]:
        """Renew or take the lease; return what keeps it from showing, and the lease."""
        migrations.check_version(migrations.version(tx), self._store.place)
        now, until = self._clock(), self._clock() + LEASE_SECONDS * MICRO
        fence = self._fence
        if fence is not None and not lease.renew(tx, *fence, until):
            fence = None
        off = settings.database_time(tx) - now
        if abs(off) > CLOCKS_SECONDS * MICRO:
            return (
                f"its clock and the database's differ by {abs(off) // MICRO} s",
                fence,
            )
        self._see(lease.holder(tx, lease.SHARD), settings.opened(tx))
        if not self.is_led():
            return "no daemon leads", fence
        led_by = self._leader.epoch if self._leader else 0
        if fence is None and (self._opened is None or self._opened.epoch != led_by):
            return "the daemon that leads has not opened the store yet", None
        if fence is None:
            number = 1 + self._number()
            fence = lease.join(tx, number, self._me, self._serves, until)
        return "", fence

    def _see(
        self, leader: lease.LeaseHolder | None, opened: settings.Opened | None
    ) -> None:
        """Note the leader, alive where it has renewed its lease since the last look."""
        if self._leader is not None and leader is not None and leader != self._leader:
            self._led = self._steady() if leader.leased_until else self._led
        self._leader, self._opened = leader, opened


class ServerWatch:
    """The leader's look at the servers: it lets them in, and fences off who is gone.

    Parameters
    ----------
    store : Store
    clock : Clock
    steady : callable
        Monotonic seconds (``time.monotonic``).
    """

    def __init__(
        self, store: Store, clock: Clock, *, steady: Callable[[], float]
    ) -> None:
        self._store = store
        self._clock = clock
        self._steady = steady
        self._opened = False
        self._seen: dict[int, tuple[int, float]] = {}
        self._holders: set[str] | None = None
        self._log = get_logger("servers")

    def tick(self, epoch: int) -> int:
        """Fence off the servers that did not renew their leases, or are dead.

        Returns
        -------
        int
            How many there were.

        Raises
        ------
        StaleLease
            Another daemon leads.
        """
        if not self._opened:
            self._open(epoch)
        try:
            with self._store.read() as tx:
                servers, leader = lease.servers(tx), lease.holder(tx, lease.SHARD)
        except DispatcherError:
            self._seen.clear()  # nobody could renew while the store was away
            raise
        now = self._steady()
        seen = {one.shard: one.leased_until for one in servers}
        self._seen = {
            shard: known
            if (known := self._seen.get(shard)) is not None and known[0] == until
            else (until, now)
            for shard, until in seen.items()
        }
        gone = [
            one
            for one in servers
            if now - self._seen[one.shard][1] >= LEASE_SECONDS or is_dead(one.holder)
        ]
        if gone:
            with self._store.write() as tx:  # one may have been frozen in a write
                lease.evict(tx, LEASE_SECONDS)
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)
                for one in gone:
                    lease.end_server(tx, one.shard)
            self._log.warning("servers-fenced-off", count=len(gone))
        living = {one.holder for one in servers if one not in gone}
        living |= {leader.holder} if leader is not None else set()
        if living != self._holders:
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)
                api_requests.interrupt(
                    tx, [process_digest(one) for one in living], self._clock()
                )
            self._holders = living
        return len(gone)

    def _open(self, epoch: int) -> None:
        """Let servers show something beside this daemon, as it ships or does not."""
        opened = settings.Opened(epoch, self._store.is_shipped)
        with self._store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            before = settings.opened(tx)
            if before is not None and before.ships != opened.ships:
                # They wait for what this daemon does not do, or the reverse.
                lease.end_servers(tx)
            settings.note_opened(tx, opened)
        self._opened = True
