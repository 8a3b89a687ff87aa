"""Leases: which daemon leads a shard of adversaries, and which servers show beside it.

A lease is a hint; the epoch makes it a fence. Every gate write of a shard calls
:func:`check_epoch` in its own transaction, which also locks the row against a taker.

A server that ``dispatcher serve`` runs has a row of its own, under a random number that is
no shard's and that none ever has again. Its bookings carry that row as the leader's carry
the leader's (:class:`Fence`); the leader deletes it, and the server can book nothing more.

On PostgreSQL there are three strengths of lock, so that a leader's own writes never
block its renewals: a gate write locks the row's key (``KEY SHARE``), a renewal changes
no key and is compatible with that, a taker locks the whole row (``FOR UPDATE``) and
waits for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    bindparam,
    column,
    delete,
    exists,
    func,
    or_,
    table,
    update,
)
from sqlmodel import col, select

from dispatcher.core.errors import StaleLease
from dispatcher.model import Lease
from dispatcher.store.statements import DriverStatement, insert
from dispatcher.store.transaction import Tx

SHARD: Final = 0
"""The one shard there is."""


class Fence(NamedTuple):
    """Under which lease a process shows something: the row, and the epoch it had."""

    shard: int
    epoch: int


FENCE: Final = update(Lease).values(epoch=Lease.epoch + 1, leased_until=0)
"""Makes every epoch stale and frees the lease: a former leader can no longer write."""


_ROW: Final = select(Lease).where(Lease.shard == bindparam("of_shard"))
_NEW: Final = insert(Lease).values(
    shard=bindparam("of_shard"),
    holder=bindparam("by"),
    epoch=1,
    leased_until=bindparam("until"),
)
_TAKE: Final = _NEW.on_conflict_do_update(
    index_elements=["shard"],
    set_={
        "holder": _NEW.excluded.holder,
        "epoch": Lease.epoch + 1,
        "leased_until": _NEW.excluded.leased_until,
    },
    where=or_(
        col(Lease.leased_until) <= bindparam("now", type_=BigInteger()),
        col(Lease.holder) == _NEW.excluded.holder,
    ),
).returning(col(Lease.epoch))
_SEIZE: Final = (
    update(Lease)
    .where(
        col(Lease.shard) == bindparam("of_shard"),
        col(Lease.epoch) == bindparam("seen_epoch"),
        col(Lease.leased_until) == bindparam("seen_until"),
    )
    .values(
        holder=bindparam("by"), epoch=Lease.epoch + 1, leased_until=bindparam("until")
    )
    .returning(col(Lease.epoch))
)
_RENEW: Final = (
    update(Lease)
    .where(
        col(Lease.shard) == bindparam("of_shard"),
        col(Lease.epoch) == bindparam("seen_epoch"),
    )
    .values(leased_until=bindparam("until"))
)
_EPOCH: Final = select(Lease.epoch).where(Lease.shard == bindparam("of_shard"))

_JOIN: Final = insert(Lease).values(
    shard=bindparam("of_shard"),
    holder=bindparam("by"),
    epoch=1,
    leased_until=bindparam("until"),
    serves=bindparam("serving"),
)
_SERVERS: Final = (
    select(Lease).where(col(Lease.shard) != SHARD).order_by(col(Lease.shard))
)
_END: Final = delete(Lease).where(
    col(Lease.shard) == bindparam("of_shard"), col(Lease.shard) != SHARD
)
_END_ALL: Final = delete(Lease).where(col(Lease.shard) != SHARD)

EPOCH: Final = DriverStatement(_EPOCH.with_for_update(read=True, key_share=True))
"""A shard's epoch, by ``of_shard``; its key is locked against whoever takes the lease."""


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The leader of a shard.

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
    return tx.scalar(
        _TAKE, {"of_shard": shard, "by": holder, "until": until, "now": now}
    )


def seize(tx: Tx, shard: int, seen: LeaseHolder, holder: str, until: int) -> int | None:
    """Take a lease over from a holder that does not renew it, whatever the clocks say.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    shard : int
    seen : LeaseHolder
        The row, unchanged for so long that its holder must be gone.
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
    return tx.scalar(
        _SEIZE,
        {
            "of_shard": shard,
            "seen_epoch": seen.epoch,
            "seen_until": seen.leased_until,
            "by": holder,
            "until": until,
        },
    )


def _lock(tx: Tx, shard: int) -> None:
    """Wait for the gate writes under way (PostgreSQL; on SQLite a writer is alone)."""
    tx.scalar(_EPOCH.with_for_update(), {"of_shard": shard})


def evict(tx: Tx, seconds: int) -> int:
    """End the transactions of a leader that does nothing in them (PostgreSQL).

    A daemon that froze during a gate write locks the row forever; its server session is
    terminated and rolls back. Only sessions of this user that have locked the lease's
    table and have been idle in their transaction for so long are ended.

    Returns
    -------
    int
        How many were ended; always 0 on SQLite, where the lock goes with the process.
    """
    if tx.dialect == "sqlite":
        return 0
    session = table(
        "pg_stat_activity",
        *map(column, ("datname", "usename", "pid", "state", "state_change")),
    )
    lock = table("pg_locks", *map(column, ("pid", "granted", "relation", "mode")))
    idle = func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    found = tx.scalar(
        select(func.count(func.pg_terminate_backend(session.c.pid))).where(
            session.c.datname == func.current_database(),
            session.c.usename == func.current_user(),
            session.c.pid != func.pg_backend_pid(),
            session.c.state == "idle in transaction",
            session.c.state_change < func.clock_timestamp() - idle,
            exists().where(
                lock.c.pid == session.c.pid,
                lock.c.granted,
                lock.c.relation == func.to_regclass("lease"),
                lock.c.mode == "RowShareLock",
            ),
        )
    )
    return found or 0


def renew(tx: Tx, shard: int, epoch: int, until: int) -> bool:
    """Renew the lease; False if another daemon has taken it meanwhile."""
    renewed = tx.execute(
        _RENEW, {"of_shard": shard, "seen_epoch": epoch, "until": until}
    )
    return renewed.rowcount == 1


def release(tx: Tx, shard: int, epoch: int) -> bool:
    """Release the lease, so that the next daemon need not wait for its end."""
    return renew(tx, shard, epoch, 0)


def check_epoch(tx: Tx, shard: int, epoch: int) -> None:
    """Refuse to go on under a lease that was taken over.

    The row's key stays locked until the transaction ends: whoever takes the lease
    waits for this write, and this write is seen by whoever took it.

    Raises
    ------
    StaleLease
        The shard has another epoch by now.
    """
    compare_epoch(tx.driver_rows(EPOCH, {"of_shard": shard}), shard, epoch)


def check(tx: Tx, fence: Fence | None) -> None:
    """Refuse to show anything under a lease that is over; None: no daemon leads.

    Raises
    ------
    StaleLease
    """
    if fence is not None:
        check_epoch(tx, fence.shard, fence.epoch)


def check_leader(tx: Tx, shard: int, epoch: int) -> None:
    """Refuse to go on under a lease that was taken over, where nothing is written.

    No row is locked: another daemon may take the lease a moment later.

    Raises
    ------
    StaleLease
    """
    compare_epoch(tx.execute(_EPOCH, {"of_shard": shard}).all(), shard, epoch)


def compare_epoch(rows: Sequence[Sequence[Any]], shard: int, epoch: int) -> None:
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


def holder(tx: Tx, shard: int) -> LeaseHolder | None:
    """Return the last holder of the shard; None if there was none."""
    row = tx.model(_ROW, {"of_shard": shard})
    return None if row is None else LeaseHolder(row.holder, row.epoch, row.leased_until)


# -- servers beside the leader ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeasedServer:
    """A process that serves beside the leader.

    Attributes
    ----------
    shard : int
        Number of its row.
    holder : str
        Host and process, for people.
    serves : str
        What it serves: ``tasks``, ``api``, ``console``, separated by commas.
    leased_until : int
        End of its lease by its own clock (microseconds UTC).
    """

    shard: int
    holder: str
    serves: str
    leased_until: int


def join(tx: Tx, shard: int, holder: str, serves: str, until: int) -> Fence:
    """Make the row of a server, under a random number.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    shard : int
        Random, >= 1: no two servers ever have the same.
    holder : str
        Unique to this start of this process.
    serves : str
        What it serves, for people.
    until : int
        End of the lease (microseconds UTC).
    """
    tx.execute(
        _JOIN, {"of_shard": shard, "by": holder, "serving": serves, "until": until}
    )
    return Fence(shard, 1)


def servers(tx: Tx) -> list[LeasedServer]:
    """Return the servers that have a lease, alive or not."""
    return [
        LeasedServer(row.shard, row.holder, row.serves or "", row.leased_until)
        for row in tx.models(_SERVERS)
    ]


def end_server(tx: Tx, shard: int) -> bool:
    """Fence a server off: wait for its writes under way, and let it make no more.

    False if it has left already.
    """
    return tx.execute(_END, {"of_shard": shard}).rowcount == 1


def end_servers(tx: Tx) -> int:
    """Fence every server off; return how many there were."""
    return int(tx.execute(_END_ALL).rowcount)
