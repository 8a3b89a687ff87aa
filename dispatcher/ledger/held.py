"""What exposures add to the summary of what each adversary holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from dispatcher.ledger.bulk import Batch, Flags, Ints
from dispatcher.ledger.standing import FieldStanding, InForce
from dispatcher.model import record_unit, subject_unit
from dispatcher.store.ledger import EntryRow
from dispatcher.store.packed import Block


def holdings_of(
    force: InForce, adversary: int, entry: EntryRow
) -> list[tuple[int, int, int, int, int]]:
    """What one exposure adds to the summary."""
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


def holdings_whole(force: InForce, held: Mapping[int, Ints], entries: Ints) -> Ints:
    """Make the whole summary anew, in order of its keys.

    Parameters
    ----------
    force : InForce
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


def holdings_added(batch: Batch, new: Ints) -> tuple[Block, Iterator[Sequence[int]]]:
    """What the showings of a batch add to the summary, each key once and in order.

    Returns
    -------
    (Block, Iterator of tuple)
        What begins: the summary has no such key yet; and what is added to keys that it
        has, as rows. The adversaries are locked, so that both stay true.
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
    force: InForce,
    adversary: Ints,
    record: Ints,
    number: Ints,
    subject: Ints,
    time: Ints,
) -> Ints:
    """Keys of the summary that entries count for, one a column."""
    fields = force.fields

    def kept(flag: Callable[[FieldStanding], bool]) -> Flags:
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
    """Different columns of a table in order, and how often each is there."""
    table = table[:, np.lexsort(table[::-1])]
    first = np.ones(table.shape[1], np.bool_)
    first[1:] = (table[:, 1:] != table[:, :-1]).any(axis=0)
    at = np.flatnonzero(first)
    return table[:, at], np.diff(at, append=table.shape[1])


def _among(keys: Ints, known: Ints) -> Flags:
    """Which columns of one table are columns of the other; each is there once."""
    both = np.concatenate([known, keys], axis=1)
    order = np.lexsort(both[::-1])
    ordered = both[:, order]
    found = np.zeros(both.shape[1], np.bool_)
    found[order[1:]] = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    return found[known.shape[1] :]
