"""Updates of the gate's exposure counts: increments of exposures, and rebuilds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from dispatcher.ledger import averages
from dispatcher.ledger.active_policy import ActivePolicy, FieldPolicy
from dispatcher.ledger.bulk import BookingBatch, Flags, Ints
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import averages as means
from dispatcher.store import exposure_counts, relations
from dispatcher.store.column_blocks import Block
from dispatcher.store.ledger import GateEntry
from dispatcher.store.transaction import Tx


def counts_of(
    force: ActivePolicy, adversary: int, entry: GateEntry
) -> list[tuple[int, int, int, int, int]]:
    """Return what one exposure adds to the counts."""
    field_standing = force.fields[entry.field_id]
    added = []
    if field_standing.in_record:
        unit = record_unit(entry.record_id)
        added.append((adversary, unit, entry.field_id, 0, 1))
    if field_standing.in_subject and entry.subject_id is not None:
        time = (entry.time or 0) if field_standing.timed else 0
        unit = subject_unit(entry.subject_id)
        added.append((adversary, unit, entry.field_id, time, 1))
    return added


def counts_whole(force: ActivePolicy, held: Mapping[int, Ints], entries: Ints) -> Ints:
    """Recompute all counts, in order of their keys.

    Parameters
    ----------
    force : ActivePolicy
    held : Mapping of int to int64 array
        By adversary, the entries that it holds.
    entries : int64 array
        All entries by id: (id, record, field, subject or -1, time or 0).
    """
    who = np.concatenate(
        [np.empty(0, np.int64), *(np.full(len(own), n) for n, own in held.items())]
    )
    what = np.concatenate([np.empty(0, np.int64), *held.values()])
    facts = entries[np.searchsorted(entries[:, 0], what)].T[1:]
    keys, count = _counted(_kept(force, who, *facts))
    return np.vstack([keys, count]).T


def counts_added(
    batch: BookingBatch, new: Ints
) -> tuple[Block, Iterator[Sequence[int]]]:
    """Return what the showings of a batch add to the counts, by key, in order.

    Returns
    -------
    (Block, Iterator of tuple)
        New keys, and increments of existing keys as rows. The adversaries are locked,
        so that both stay valid.
    """
    entry = batch.ask_entry[new]
    adversary = batch.adversaries[batch.ask_adversary[new]]
    facts = (batch.record, batch.field, batch.subject, batch.time)
    table = _kept(batch.force, adversary, *(column[entry] for column in facts))
    keys, entries = _counted(table)
    there = _among(keys, batch.known.T[:4])
    begun = (*keys[:, ~there], entries[~there])
    more = (*keys[:, there], entries[there])
    return (
        Block(len(begun[-1]), begun),
        zip(*(column.tolist() for column in more), strict=True),
    )


def _kept(
    force: ActivePolicy,
    adversary: Ints,
    record: Ints,
    number: Ints,
    subject: Ints,
    time: Ints,
) -> Ints:
    """Return the count keys of entries, one per column."""
    fields = force.fields

    def kept(flag: Callable[[FieldPolicy], bool]) -> Flags:
        chosen = [n for n, standing in fields.items() if flag(standing)]
        return np.isin(number, np.array(chosen, np.int64))

    of_record = kept(lambda f: f.in_record)
    of_subject = kept(lambda f: f.in_subject) & (subject >= 0)
    moment = np.where(kept(lambda f: f.timed), time, 0)
    parts = (
        (of_record, 2 * record, np.zeros_like(moment)),
        (of_subject, 2 * subject + 1, moment),
    )
    table = [
        np.stack([adversary, units, number, times])[:, mask]
        for mask, units, times in parts
    ]
    return np.concatenate(table, axis=1)


def _counted(table: Ints) -> tuple[Ints, Ints]:
    """Return the distinct columns of a table in order, and their frequencies."""
    table = table[:, np.lexsort(table[::-1])]
    first = np.ones(table.shape[1], np.bool_)
    first[1:] = (table[:, 1:] != table[:, :-1]).any(axis=0)
    at = np.flatnonzero(first)
    return table[:, at], np.diff(at, append=table.shape[1])


def _among(keys: Ints, known: Ints) -> Flags:
    """Flag the columns of one table that are in the other; both without duplicates."""
    both = np.concatenate([known, keys], axis=1)
    order = np.lexsort(both[::-1])
    ordered = both[:, order]
    found = np.zeros(both.shape[1], np.bool_)
    found[order[1:]] = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    return found[known.shape[1] :]


def rebuild(tx: Tx, force: ActivePolicy) -> None:
    """Rebuild all counts for a version (grows with the ledger)."""
    exposure_counts.rebuild_counts(tx, force.kept)
    if force.averages:
        averages.rebuild(tx, force)


def differing_visits(tx: Tx, force: ActivePolicy) -> int:
    """Count rows of stored visits that differ from the ledger."""
    return relations.differing_visits(
        tx, [number for number, field in force.fields.items() if field.placed]
    )


def differing_sums(tx: Tx, force: ActivePolicy) -> int:
    """Count stored sums and set counts that differ from the exposure counts."""
    if not force.averages or not averages.is_fresh(tx, force):
        return 0  # stale ones are recomputed before use
    made = averages.compute(tx, force)
    sums = {
        (adversary, name, str(total))
        for adversary, totals in made.sums.items()
        for name, total in totals.items()
        if total
    }
    sets = set(made.sets.items())
    return len(sums ^ set(means.sums(tx))) + len(sets ^ set(means.sets(tx)))
