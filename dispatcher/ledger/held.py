"""What exposures add to the summary of what each adversary holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import numpy as np

from dispatcher.ledger.bulk import Batch, Flags, Ints
from dispatcher.ledger.standing import FieldStanding, InForce
from dispatcher.model import record_unit, subject_unit
from dispatcher.store.ledger import EntryRow


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


def holdings_added(batch: Batch, new: Ints) -> Iterator[Sequence[int]]:
    """What the showings of a batch add to the summary, in order of its key."""
    fields = batch.force.fields
    entry = batch.ask_entry[new]
    adversary = batch.adversaries[batch.ask_adversary[new]]
    number = batch.field[entry]

    def kept(flag: Callable[[FieldStanding], bool]) -> Flags:
        chosen = [n for n, standing in fields.items() if flag(standing)]
        return np.isin(number, np.array(chosen, np.int64))

    of_record = kept(lambda f: f.in_record)
    of_subject = kept(lambda f: f.in_subject) & (batch.subject[entry] >= 0)
    time = np.where(kept(lambda f: f.timed), batch.time[entry], 0)
    parts = (
        (of_record, 2 * batch.record[entry], np.zeros_like(time)),
        (of_subject, 2 * batch.subject[entry] + 1, time),
    )
    for mask, units, times in parts:
        table = np.stack([adversary, units, number, times])[:, mask]
        order = np.lexsort(table[::-1])
        columns = table[:, order].tolist()
        yield from zip(*columns, repeat(1), strict=False)
