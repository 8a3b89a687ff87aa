"""A chunk of prepared rows as rows of the store: records, entries, and their data keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from dispatcher.ledger.loads import RecordKeys
from dispatcher.stages.intake.record_builder import PreparedRecord, Row
from dispatcher.store import Tx
from dispatcher.store import records as rows

_FACTS: Final = ("subject_id", "time", "vector", "visits", "key_id")


class Bound(NamedTuple):
    """What the records of a chunk have in common; ``at`` is the moment of loading."""

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
    """Write the entries of a chunk, which has one at least, to its records."""
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


def _facts(row: Row, subject_ids: Mapping[str, int]) -> dict[str, int | str | None]:
    """What rules need to know of a row's entries."""
    return {
        "subject_id": subject_ids.get(row.person or ""),
        "time": row.time,
        "vector": row.place,
        "visits": row.visits,
    }


def ledger_keys(chunk: Iterable[PreparedRecord]) -> Iterator[RecordKeys]:
    """Return what the ledger registers of each record."""
    for prepared in chunk:
        row = prepared.row
        fields = [field for field, _, _ in prepared.shown]
        yield RecordKeys(
            row.pseudonym, fields, row.person, row.time, row.place, row.visits
        )
