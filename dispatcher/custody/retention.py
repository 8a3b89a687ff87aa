"""Erasing by age: ``dispatcher purge``, and the daemon's tick for the policy's retain."""

from __future__ import annotations

from typing import Final

from dispatcher.custody.erasure import (
    PAUSE,
    TRIES,
    Erased,
    Means,
    OnItsWay,
    erase_again,
    erase_in,
    finish,
    scrub,
    still_sending,
)
from dispatcher.custody.rekeying import seal_leftovers
from dispatcher.ledger.standing import current_policy
from dispatcher.store import Store, lease
from dispatcher.store import erasure as rows
from dispatcher.store.serving import add_event

PIECE: Final = 200
"""Records erased in one transaction."""

BETWEEN: Final = 50
"""Transactions after which spools and exports are cleaned: each time all are read."""


def count_older(store: Store, moment: int) -> int:
    """How many records with values were loaded before a moment."""
    with store.read() as tx:
        return rows.count_loaded_before(tx, moment)


def purge(
    means: Means, moment: int, *, epoch: int | None = None, pieces: int | None = None
) -> Erased:
    """Erase the records that were loaded before a moment, piece by piece.

    Parameters
    ----------
    means : Means
    moment : int
        Microseconds since 1970.
    epoch : int, optional
        Of the daemon's lease, which is then checked in each transaction.
    pieces : int, optional
        At most so many transactions.

    Raises
    ------
    StaleLease
        Another daemon leads.
    """
    done, total = Erased(), 0
    while pieces is None or total < pieces:
        if not _purge_piece(means, moment, epoch, done):
            break
        total += 1
        if total % BETWEEN == 0:
            finish(means, done)
    if finish(means, done) or total:
        scrub(means.store, done)
    done.exports = sorted(set(done.exports))
    done.left = sorted(set(done.left))
    return done


def _purge_piece(means: Means, moment: int, epoch: int | None, done: Erased) -> bool:
    for last in (*[False] * (TRIES - 1), True):
        try:
            with means.store.write() as tx:
                if epoch is not None:
                    lease.check_epoch(tx, lease.SHARD, epoch)
                records = rows.loaded_before(tx, moment, PIECE)
                if not records:
                    return False
                entries = rows.entries_of(tx, records)
                erase_in(tx, means, records, entries, done, ())
                for person in rows.subjects_without_records(tx, records):
                    rows.blank_subject(tx, person, None)
                detail: dict[str, int | str] = {"records": len(records)}
                add_event(tx, means.clock(), "retention", "records.purged", detail)
                return True
        except OnItsWay:
            if last:
                raise still_sending() from None
            means.wait(PAUSE)
    raise AssertionError  # the last try returns or raises


class Retention:
    """The daemon's tick: erases what the policy's ``retain`` no longer allows.

    Parameters
    ----------
    means : Means
    """

    def __init__(self, means: Means) -> None:
        self._means = means

    def tick(self, epoch: int) -> int:
        """Erase a bounded number of records that are too old; return how many.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        seal_leftovers(self._means.store)
        erase_again(self._means)
        with self._means.store.read() as tx:
            force = current_policy(tx)
        retain = None if force is None else force.policy.entity.retain
        if retain is None:
            finish(self._means, Erased())  # of an erasure that was broken off
            return 0
        done = purge(self._means, self._means.clock() - retain, epoch=epoch, pieces=20)
        return done.deleted["records"]
