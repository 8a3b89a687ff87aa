"""Loading again what went down with a store: the values return to their exposures.

A replay of the shipped ledger knows these records by pseudonym and facts. The row of the
file must be the one that was loaded, as far as the ledger can tell: the same fields with
a value, the same subject, time and place. Then it takes its old place, and what was
shown of it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.ledger.loads import Needs, RecordKeys, needs
from dispatcher.stages.intake import record_rows
from dispatcher.stages.intake.record_builder import PreparedRecord
from dispatcher.stages.intake.record_rows import Bound
from dispatcher.store import Clash, Tx, answers
from dispatcher.store import records as rows
from dispatcher.store.records import Back, BackEntry, LostEntry, LostRecord

BACK_MEANWHILE: Final = "another load brought the record back meanwhile"


class Returning(NamedTuple):
    """A row of a file, and the record whose values it brings back."""

    prepared: PreparedRecord
    record: LostRecord


def sorted_out(
    tx: Tx, force: ActivePolicy, chunk: Sequence[PreparedRecord]
) -> tuple[list[Returning], list[PreparedRecord]]:
    """Return which rows are the lost records they look like, and which are not.

    Raises
    ------
    Clash
        One of them is lost no more.
    """
    if not chunk:
        return [], []
    lost = rows.lost(tx, [prepared.row.pseudonym for prepared in chunk])
    if len(lost) < len(chunk):
        raise Clash(BACK_MEANWHILE)
    wanted = needs(force)
    back, others = [], []
    for prepared in chunk:
        record = lost[prepared.row.pseudonym]
        if _fits(prepared, record, wanted):
            back.append(Returning(prepared, record))
        else:
            others.append(prepared)
    return back, others


def _fits(
    prepared: PreparedRecord, record: LostRecord, wanted: Mapping[int, Needs]
) -> bool:
    row = prepared.row
    filled = {number for number, _, _ in prepared.shown}
    if any(n in wanted and n not in filled for n in record.entries):
        return False
    if record.subject not in (None, row.person):
        return False
    return all(
        entry.subject in (None, row.person)
        and entry.time in (None, row.time)
        and _same_place(
            entry, row.place, row.visits, asked=_asks_place(wanted.get(number))
        )
        for number, entry in record.entries.items()
    )


def _asks_place(need: Needs | None) -> bool:
    return need is not None and need.vector is not None


def _same_place(
    entry: LostEntry, place: str | None, visits: int | None, *, asked: bool
) -> bool:
    if not asked:
        return True  # no rule looks at it: what the ledger has stays
    return entry.place == place and entry.visits in (None, visits)


def bring_back(
    tx: Tx,
    of: Bound,
    back: Sequence[Returning],
    known: Mapping[str, rows.SubjectRow],
) -> Iterator[RecordKeys]:
    """Write the values of lost records; return what the ledger registers anew.

    That is of fields which the row has by a later policy, or by another hand.
    """
    if not back:
        return iter(())
    keys = record_rows.value_keys(tx, [one.prepared for one in back], known)
    ids = {name: person.id for name, person in known.items()}
    keyed = list(zip(back, keys, strict=True))
    records = [_record(one, of, ids, key_id) for one, key_id in keyed]
    rows.bring_back(tx, records, of.at)
    entries = [entry for one, key_id in keyed for entry in _entries(one, ids, key_id)]
    rows.fill(tx, entries)
    answers.leave_empty(tx, [n for one in back for n in _empty(one)], of.at)
    more = [(one.record.id, _new(one), key_id) for one, key_id in keyed]
    more = [part for part in more if part[1].shown]
    if more:
        numbers, chunk, its_keys = zip(*more, strict=True)
        record_rows.add_entries(tx, chunk, numbers, ids, its_keys)
    return record_rows.ledger_keys(prepared for _, prepared, _ in more)


def _record(
    one: Returning, of: Bound, ids: Mapping[str, int], key_id: int | None
) -> Back:
    row = one.prepared.row
    return Back(
        one.record.id,
        of.run_id,
        of.load_id,
        row.key.encode(),
        one.prepared.content,
        ids.get(row.person or ""),
        key_id,
    )


def _entries(
    one: Returning, ids: Mapping[str, int], key_id: int | None
) -> Iterator[BackEntry]:
    row = one.prepared.row
    subject = ids.get(row.person or "")
    for number, media, form in one.prepared.shown:
        entry = one.record.entries.get(number)
        if entry is not None:
            place, visits = row.place, row.visits
            if entry.place is not None:
                place, visits = entry.place, entry.visits
            yield BackEntry(
                entry.id, subject, row.time, place, visits, media, form, key_id
            )


def _empty(one: Returning) -> list[int]:
    """Entries of fields that the policy has no more: they stay without a value."""
    filled = {number for number, _, _ in one.prepared.shown}
    return [e.id for number, e in one.record.entries.items() if number not in filled]


def _new(one: Returning) -> PreparedRecord:
    """Return the row with only what the ledger does not know of it."""
    shown = [form for form in one.prepared.shown if form[0] not in one.record.entries]
    return replace(one.prepared, shown=shown)
