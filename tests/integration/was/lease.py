"""Who leads a shard of adversaries.

A lease is a hint; the epoch makes it a fence. Every gate write of a shard calls
:func:`check_epoch` in its own transaction, which also locks the row against a taker.

On PostgreSQL there are three strengths of lock, so that a leader's own writes never keep
it from renewing: a gate write holds the row's key (``KEY SHARE``), a renewal changes no
key and goes beside it, a taker wants the whole row (``FOR UPDATE``) and waits for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.core.errors import StaleLease
from dispatcher.store.transaction import Row, Tx

SHARD: Final = 0
"""The one shard there is."""

FENCE: Final = "UPDATE lease SET epoch = epoch + 1, leased_until = 0"
"""Makes every epoch stale and leaves the lease free: whoever led writes no more."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a shard.

    Attributes
    ----------
    holder : str
        Host and process, for people.
    epoch : int
        Its fencing token, >= 1.
    leased_until : int
        End of the lease (microseconds UTC).
    """

    holder: str
    epoch: int
    leased_until: int


def take(tx: Tx, shard: int, holder: str, now: int, until: int) -> int | None:
    """Take the lease of a shard where it is free, expired, or ``holder``'s already.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    shard : int
        Number of the shard.
    holder : str
        Unique to this start of this process.
    now, until : int
        The moment and the end of the new lease (microseconds UTC).

    Returns
    -------
    int or None
        The epoch, one more than any before; None when another one leads.
    """
    _lock(tx, shard)
    epoch = tx.value(
        "INSERT INTO lease (shard, holder, epoch, leased_until) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (shard) DO UPDATE SET holder = excluded.holder,"
        " epoch = lease.epoch + 1, leased_until = excluded.leased_until"
        " WHERE lease.leased_until <= ? OR lease.holder = excluded.holder"
        " RETURNING epoch",
        [shard, holder, until, now],
    )
    return None if epoch is None else int(epoch)


def seize(tx: Tx, shard: int, seen: Holder, holder: str, until: int) -> int | None:
    """Take a lease over from somebody who does not renew it, whatever the clocks say.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    shard : int
    seen : Holder
        What the row said for so long that its holder must be gone.
    holder : str
        Unique to this start of this process.
    until : int
        End of the new lease (microseconds UTC).

    Returns
    -------
    int or None
        The new epoch; None when the row says something else by now.
    """
    _lock(tx, shard)
    epoch = tx.value(
        "UPDATE lease SET holder = ?, epoch = epoch + 1, leased_until = ?"
        " WHERE shard = ? AND epoch = ? AND leased_until = ? RETURNING epoch",
        [holder, until, shard, seen.epoch, seen.leased_until],
    )
    return None if epoch is None else int(epoch)


def _lock(tx: Tx, shard: int) -> None:
    """Wait for the gate writes under way (PostgreSQL; on SQLite a writer is alone)."""
    tx.one("SELECT shard FROM lease WHERE shard = ? FOR UPDATE", [shard])


def evict(tx: Tx, seconds: int) -> int:
    """End the transactions of a leader that does nothing in them (PostgreSQL).

    A daemon that was frozen in the midst of a gate write holds the row for ever; its
    server side is told to roll back. Only sessions of this user that hold the lease's
    table and have been idle in their transaction for so long are ended.

    Returns
    -------
    int
        How many were ended; always 0 on SQLite, where the lock goes with the process.
    """
    if tx.dialect == "sqlite":
        return 0
    found = tx.value(
        "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a"
        " WHERE a.datname = current_database() AND a.usename = current_user"
        " AND a.pid <> pg_backend_pid() AND a.state = 'idle in transaction'"
        " AND a.state_change < clock_timestamp() - ? * interval '1 second'"
        " AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.granted"
        " AND l.relation = 'lease'::regclass AND l.mode = 'RowShareLock')",
        [seconds],
    )
    return int(found)


def renew(tx: Tx, shard: int, epoch: int, until: int) -> bool:
    """Lengthen the lease; False when another one has taken it meanwhile."""
    return (
        tx.execute(
            "UPDATE lease SET leased_until = ? WHERE shard = ? AND epoch = ?",
            [until, shard, epoch],
        )
        == 1
    )


def release(tx: Tx, shard: int, epoch: int) -> bool:
    """Give the lease back, so that the next one need not wait for its end."""
    return renew(tx, shard, epoch, 0)


EPOCH: Final = "SELECT epoch FROM lease WHERE shard = ? FOR KEY SHARE"
"""A shard's epoch; its key is locked against whoever takes the lease."""


def check_epoch(tx: Tx, shard: int, epoch: int) -> None:
    """Refuse to go on under a lease that was taken over.

    The row's key stays locked until the transaction ends: whoever takes the lease
    waits for this write, and this write is seen by whoever took it.

    Raises
    ------
    StaleLease
        The shard has another epoch by now.
    """
    compare_epoch(tx.rows(EPOCH, [shard]), shard, epoch)


def check_leader(tx: Tx, shard: int, epoch: int) -> None:
    """Refuse to go on under a lease that was taken over, where nothing is written.

    No row is locked: another daemon may take the lease a moment later.

    Raises
    ------
    StaleLease
    """
    statement = "SELECT epoch FROM lease WHERE shard = ?"
    compare_epoch(tx.rows(statement, [shard]), shard, epoch)


def compare_epoch(rows: Sequence[Row], shard: int, epoch: int) -> None:
    """Refuse an epoch that is over; ``rows`` is what :data:`EPOCH` gave.

    Raises
    ------
    StaleLease
    """
    found = rows[0][0] if rows else None
    if found != epoch:
        raise StaleLease(
            "the lease of this daemon was taken over",
            why="It was not renewed in time, and another daemon leads now.",
            fix="Nothing was written. Stop this daemon, or let it wait for its turn.",
            facts={"shard": shard, "epoch": epoch, "found": found or 0},
        )


def holder(tx: Tx, shard: int) -> Holder | None:
    """Who held the shard last; None when nobody ever did."""
    row = tx.one(
        "SELECT holder, epoch, leased_until FROM lease WHERE shard = ?", [shard]
    )
    return None if row is None else Holder(*row)
