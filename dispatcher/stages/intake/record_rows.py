"""Writing of prepared rows: records, entries and data keys, new or restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.ledger.loads import Needs, RecordKeys, needs
from dispatcher.stages.intake.record_builder import CandidateRow, PreparedRecord
from dispatcher.store import Clash, Tx, answers
from dispatcher.store import records as rows
from dispatcher.store.records import Back, BackEntry, LostEntry, LostRecord

_FACTS: Final = ("subject_id", "time", "vector", "visits", "key_id")


@dataclass(frozen=True, slots=True)
class Bound:
    """What the records of a chunk have in common; ``at`` is the time of loading."""

    run_id: int
    load_id: int
    at: int


def add(
    tx: Tx,
    of: Bound,
    chunk: Sequence[PreparedRecord],
    known: Mapping[str, rows.SubjectRow],
) -> int:
    """Write the records of a chunk with their entries; return the first record's id."""
    if not chunk:
        return 0
    subject_ids = {name: person.id for name, person in known.items()}
    keys = value_keys(tx, chunk, known)
    first = add_records(tx, of, chunk, subject_ids, keys)
    if any(prepared.shown for prepared in chunk):
        add_entries(tx, chunk, range(first, first + len(chunk)), subject_ids, keys)
    return first


def value_keys(
    tx: Tx, chunk: Sequence[PreparedRecord], known: Mapping[str, rows.SubjectRow]
) -> list[int | None]:
    """Return each record's data key: its subject's, or a new one of its own."""
    alone = sum(prepared.row.person is None for prepared in chunk)
    own = iter(rows.new_keys(tx, alone))
    return [
        next(own) if prepared.row.person is None else known[prepared.row.person].key_id
        for prepared in chunk
    ]


def add_records(
    tx: Tx,
    of: Bound,
    chunk: Sequence[PreparedRecord],
    subject_ids: Mapping[str, int],
    keys: Sequence[int | None],
) -> int:
    """Write the records of a chunk; return the id of the first."""
    first = tx.reserve("record", len(chunk))
    facts = ["loaded_at"]
    facts += ["subject_id"] if subject_ids else []
    facts += ["key_id"] if any(keys) else []

    def made() -> Iterator[tuple[object, ...]]:
        for number, (prepared, key_id) in enumerate(
            zip(chunk, keys, strict=True), start=first
        ):
            row = prepared.row
            more: dict[str, object] = {
                "loaded_at": of.at,
                "subject_id": subject_ids.get(row.person or ""),
                "key_id": key_id,
            }
            yield (
                number,
                of.run_id,
                of.load_id,
                row.pseudonym,
                bytearray(row.key, "utf-8"),  # see store/bulk.py
                bytearray(prepared.content),
                *(more[name] for name in facts),
            )

    rows.add_records(tx, made(), facts)
    return first


def add_entries(
    tx: Tx,
    chunk: Sequence[PreparedRecord],
    record_ids: Iterable[int],
    subject_ids: Mapping[str, int],
    keys: Sequence[int | None],
) -> None:
    """Write the entries of a chunk, at least one, to its records."""
    number = tx.reserve("entry", sum(len(prepared.shown) for prepared in chunk)) - 1
    facts = [_facts(prepared.row, subject_ids) for prepared in chunk]
    for of, key_id in zip(facts, keys, strict=True):
        of["key_id"] = key_id
    names = [n for n in _FACTS if any(of.get(n) is not None for of in facts)]
    found: list[tuple[object, ...]] = []
    for record, prepared, of in zip(record_ids, chunk, facts, strict=True):
        tail = [of.get(name) for name in names]
        for field_id, media, form in prepared.shown:
            number += 1
            found.append((number, record, field_id, media, bytearray(form), *tail))
    rows.add_entries(tx, found, names)


def _facts(
    row: CandidateRow, subject_ids: Mapping[str, int]
) -> dict[str, int | str | None]:
    """Return the facts that rules need of a row's entries."""
    return {
        "subject_id": subject_ids.get(row.person or ""),
        "time": row.time,
        "vector": row.place,
        "visits": row.visits,
    }


def ledger_keys(chunk: Iterable[PreparedRecord]) -> Iterator[RecordKeys]:
    """Yield what the ledger registers of each record."""
    for prepared in chunk:
        row = prepared.row
        fields = [field for field, _, _ in prepared.shown]
        yield RecordKeys(
            row.pseudonym, fields, row.person, row.time, row.place, row.visits
        )


# -- values lost with a store, loaded again: they return to their exposures ------------
# A replay of the shipped ledger restores these records by pseudonym and facts. The row
# of the file must match all that the ledger knows: the same fields with a value, the
# same subject, time and place. Then it becomes that record again, and what was shown of
# it counts.

BACK_MEANWHILE: Final = "another load brought the record back meanwhile"


@dataclass(frozen=True, slots=True)
class Returning:
    """A row of a file, and the record whose values it restores."""

    prepared: PreparedRecord
    record: LostRecord


def sorted_out(
    tx: Tx, force: ActivePolicy, chunk: Sequence[PreparedRecord]
) -> tuple[list[Returning], list[PreparedRecord]]:
    """Split rows into those that match their lost record and those that do not.

    Raises
    ------
    Clash
        One of them is no longer lost.
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
        return True  # no rule reads it: keep what the ledger has
    return entry.place == place and entry.visits in (None, visits)


def bring_back(
    tx: Tx,
    of: Bound,
    back: Sequence[Returning],
    known: Mapping[str, rows.SubjectRow],
) -> Iterator[RecordKeys]:
    """Write the values of lost records; return what the ledger registers additionally.

    Those are fields that the row has through a later policy, or an edit.
    """
    if not back:
        return iter(())
    keys = value_keys(tx, [one.prepared for one in back], known)
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
        add_entries(tx, chunk, numbers, ids, its_keys)
    return ledger_keys(prepared for _, prepared, _ in more)


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
    """Return entries of fields that the policy dropped: they stay without a value."""
    filled = {number for number, _, _ in one.prepared.shown}
    return [e.id for number, e in one.record.entries.items() if number not in filled]


def _new(one: Returning) -> PreparedRecord:
    """Return the row with only the fields that the ledger lacks."""
    shown = [form for form in one.prepared.shown if form[0] not in one.record.entries]
    return replace(one.prepared, shown=shown)
