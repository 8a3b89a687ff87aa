"""Leadership of a store: take the lease, or wait for it as a standby."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from dispatcher.core.errors import AnotherLeads, StoreLocked, StoreUnreachable
from dispatcher.core.log import get_logger
from dispatcher.core.processes import describe_process, is_dead, process_name
from dispatcher.store import Clock, Store, Tx, lease, migrations, notices

LEASE_SECONDS: Final = 8
"""How long an unrenewed lease lasts, and how long a standby watches it."""

LOOK_SECONDS: Final = 0.5
"""Time between two checks of the lease by a standby."""

MICRO: Final = 1_000_000


def take_lease(store: Store, clock: Clock, me: str | None = None) -> int:
    """Take the lease of the store, at once if its holder is a dead local process.

    Parameters
    ----------
    store : Store
    clock : Clock
    me : str, optional
        Name of the holder; None: of this process, as :func:`process_name` makes it.

    Returns
    -------
    int
        The new epoch.

    Raises
    ------
    AnotherLeads
        If another daemon has it.
    """
    now, me = clock(), me or process_name(os.getpid())
    with store.write() as tx:
        _check_schema(tx, store)
        found = lease.holder(tx, lease.SHARD)
        if found and found.leased_until > now and is_dead(found.holder):
            lease.release(tx, lease.SHARD, found.epoch)
        until = now + LEASE_SECONDS * MICRO
        epoch = lease.take(tx, lease.SHARD, me, now, until)
        if epoch is not None and found is not None:
            _tell_lost(tx, found, me, now)
    if epoch is None:
        assert found is not None  # whoever is refused is refused for somebody
        raise AnotherLeads(
            "another daemon leads this store",
            why=f"{describe_process(found.holder)} holds the lease (epoch {found.epoch})",
            fix="wait for it with --standby, or stop it on its machine: dispatcher "
            f"down; if its machine is gone, its lease ends within {LEASE_SECONDS} s",
        )
    return epoch


def _tell_lost(tx: Tx, before: lease.LeaseHolder, me: str, now: int) -> None:
    """Write a notice if the leader before ended without releasing its lease.

    A daemon cannot report its own death: whoever leads next does.
    """
    if before.leased_until and before.holder != me:
        notices.add(tx, now, "daemon.lost", {"epoch": before.epoch})


def _check_schema(tx: Tx, store: Store) -> None:
    """Check the schema: a newer program may have changed it while this one waited."""
    migrations.check_version(migrations.version(tx), store.place)


class Standby:
    """Waits for the lease and takes it when its holder is gone.

    This process's own monotonic clock decides whether the holder is gone: it released
    the lease, or its process is of this machine and dead, or it has not renewed the
    lease for ``LEASE_SECONDS``. The machines' times of day do not matter, and a holder
    that was only slow is fenced off by its epoch.

    Parameters
    ----------
    store : Store
    clock : Clock
        The time of day, for the end of the new lease.
    steady : callable
        Monotonic seconds (``time.monotonic``).
    pause : callable
        Waits so many seconds; True to cancel the wait.
    me : str, optional
        Name of the holder; None: of this process.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        steady: Callable[[], float],
        pause: Callable[[float], bool],
        me: str | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._steady = steady
        self._pause = pause
        self._me = me or process_name(os.getpid())
        self._seen: lease.LeaseHolder | None = None
        self._since = 0.0
        self._log = get_logger("standby")

    def wait(self) -> int | None:
        """Return the epoch of the lease taken; None if the wait was cancelled.

        An unreachable store is waited for too.

        Raises
        ------
        NeedsMigration
            A newer program has changed the store meanwhile.
        """
        while True:
            try:
                epoch = self._look()
            except (StoreUnreachable, StoreLocked) as error:
                self._log.warning("standby-waits", code=error.code)
                epoch = None
            if epoch is not None:
                return epoch
            if self._pause(LOOK_SECONDS):
                return None

    def _look(self) -> int | None:
        with self._store.read() as tx:
            found = lease.holder(tx, lease.SHARD)
        now = self._steady()
        if found != self._seen:
            self._seen, self._since = found, now
        if found is None:
            return take_lease(self._store, self._clock, self._me)
        silent = now - self._since >= LEASE_SECONDS
        if not (silent or found.leased_until == 0 or is_dead(found.holder)):
            return None
        if silent:  # it may have been frozen in the midst of a write
            with self._store.write() as tx:
                ended = lease.evict(tx, LEASE_SECONDS)
            if ended:
                self._log.warning("frozen-writes-ended", count=ended)
        with self._store.write() as tx:
            _check_schema(tx, self._store)
            now = self._clock()
            until = now + LEASE_SECONDS * MICRO
            epoch = lease.seize(tx, lease.SHARD, found, self._me, until)
            if epoch is not None:
                _tell_lost(tx, found, self._me, now)
            return epoch
