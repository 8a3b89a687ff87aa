"""Erasing by age, piece by piece."""

from __future__ import annotations

from functools import partial
from typing import Final

from dispatcher.custody.asides import put_aside
from dispatcher.custody.erasure import erase_in, once_sent, scrub
from dispatcher.custody.erasure_context import Erased, ErasureContext
from dispatcher.custody.outside import finish
from dispatcher.store import Store, Tx, lease
from dispatcher.store import erasure as rows
from dispatcher.store.events import add_event

PIECE: Final = 200
"""Records erased in one transaction."""

BETWEEN: Final = 50
"""Transactions after which spools and exports are cleaned: each time all are read."""


def count_older(store: Store, moment: int) -> int:
    """How many records with values were loaded before a moment."""
    with store.read() as tx:
        return rows.count_loaded_before(tx, moment)


def purge(
    context: ErasureContext,
    moment: int,
    *,
    epoch: int | None = None,
    pieces: int | None = None,
) -> Erased:
    """Erase the records that were loaded before a moment, piece by piece.

    Parameters
    ----------
    context : ErasureContext
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
    done = Erased()
    if purge_rows(context, moment, done, epoch=epoch, pieces=pieces) + finish(
        context, done
    ):
        scrub(context.store, done)
    else:
        done.scrubbed = True  # nothing was there
    done.aside = put_aside(context.store)
    done.tidy()
    return done


def purge_rows(
    context: ErasureContext,
    moment: int,
    done: Erased,
    *,
    epoch: int | None = None,
    pieces: int | None = None,
) -> int:
    """Erase the same in the store; return how many transactions it took."""
    total = 0
    while pieces is None or total < pieces:
        part = once_sent(context, partial(_purge_piece, context, moment, epoch))
        if part is None:
            break
        done.add(part)
        total += 1
        if total % BETWEEN == 0:
            finish(context, done)
    return total


def _purge_piece(
    context: ErasureContext, moment: int, epoch: int | None, tx: Tx
) -> Erased | None:
    if epoch is not None:
        lease.check_epoch(tx, lease.SHARD, epoch)
    records = rows.loaded_before(tx, moment, PIECE)
    if not records:
        return None
    entries = rows.entries_of(tx, records)
    part = erase_in(tx, context, records, entries)
    for person in rows.subjects_without_records(tx, records):
        rows.blank_subject(tx, person, None)
    detail: dict[str, int | str] = {"records": len(records)}
    add_event(tx, context.clock(), "retention", "records.purged", detail)
    return part
