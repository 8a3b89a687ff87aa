"""Who leads a shard of adversaries.

A lease is a hint; the epoch makes it a fence. Every gate write of a shard calls
:func:`check_epoch` in its own transaction, which also locks the row against a taker.
"""

from dataclasses import dataclass
from typing import Final

from dispatcher.errors import StaleLease
from dispatcher.store.transaction import Tx

SHARD: Final = 0
"""The one shard there is."""


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
    epoch = tx.value(
        "INSERT INTO lease (shard, holder, epoch, leased_until) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (shard) DO UPDATE SET holder = excluded.holder,"
        " epoch = lease.epoch + 1, leased_until = excluded.leased_until"
        " WHERE lease.leased_until <= ? OR lease.holder = excluded.holder"
        " RETURNING epoch",
        [shard, holder, until, now],
    )
    return None if epoch is None else int(epoch)


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


def check_epoch(tx: Tx, shard: int, epoch: int) -> None:
    """Refuse to go on under a lease that was taken over.

    The row stays share-locked until the transaction ends: whoever takes the lease
    waits for this write, and this write is seen by whoever took it.

    Raises
    ------
    StaleLease
        The shard has another epoch by now.
    """
    found = tx.value("SELECT epoch FROM lease WHERE shard = ? FOR SHARE", [shard])
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
