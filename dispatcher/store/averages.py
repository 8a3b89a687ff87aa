"""Sums behind caps on averages, see :mod:`dispatcher.ledger.averages`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlalchemy import BigInteger, bindparam, delete, func
from sqlmodel import col, select

from dispatcher.model import DisclosureSum, Entry, ExposureCount, KeyLine, SetCount
from dispatcher.store.settings import set_setting, setting
from dispatcher.store.statements import select_columns
from dispatcher.store.transaction import Row, Tx

_STAMP: Final = "averages-of"

_LAST_LOAD: Final = select_columns(func.max(KeyLine.seq))
_CLEAR: Final = (delete(SetCount), delete(DisclosureSum))
_FORGET: Final = delete(DisclosureSum).where(
    col(DisclosureSum.adversary_id) == bindparam("adversary")
)
_SETS: Final = select(SetCount.property, SetCount.sets)
_SUMS: Final = select(
    DisclosureSum.adversary_id, DisclosureSum.property, DisclosureSum.total
)
_SUMS_OF: Final = _SUMS.where(DisclosureSum.adversary_id == bindparam("adversary"))
_by_record: Final = select_columns(Entry.record_id, Entry.field_id, Entry.time)
_by_subject: Final = select_columns(Entry.subject_id, Entry.field_id, Entry.time)
_ENTRIES: Final = {
    False: _by_record.order_by(col(Entry.record_id)),
    True: _by_subject.where(col(Entry.subject_id).is_not(None)).order_by(
        col(Entry.subject_id)
    ),
}
_ENTRIES_OF: Final = {
    False: select(Entry.field_id, Entry.time).where(
        Entry.record_id == bindparam("unit")
    ),
    True: select(Entry.field_id, Entry.time).where(
        Entry.subject_id == bindparam("unit")
    ),
}
_COUNTS: Final = (
    select_columns(
        col(ExposureCount.unit_id) // 2,
        ExposureCount.adversary_id,
        ExposureCount.field_id,
        ExposureCount.time,
        ExposureCount.entries,
    )
    .where(col(ExposureCount.unit_id) % 2 == bindparam("kind", type_=BigInteger()))
    .order_by(col(ExposureCount.unit_id))
)
_ANY: Final = select(ExposureCount.unit_id).limit(1)
_COUNTS_OF: Final = select(
    ExposureCount.field_id, ExposureCount.time, ExposureCount.entries
).where(
    ExposureCount.adversary_id == bindparam("adversary"),
    ExposureCount.unit_id == bindparam("unit"),
)


def stamp(tx: Tx) -> bytes | None:
    """Return the basis of the stored sums: version and last load."""
    return setting(tx, _STAMP)


def last_load(tx: Tx) -> int:
    """Number of the last ``keys`` line."""
    return tx.scalar(_LAST_LOAD) or 0


def replace(
    tx: Tx,
    counts: Iterable[tuple[str, int]],
    totals: Iterable[tuple[int, str, str]],
    made_from: bytes,
) -> None:
    """Replace all counts and sums."""
    for clear in _CLEAR:
        tx.execute(clear)
    tx.insert_many("set_count", ("property", "sets"), list(counts))
    columns = ("adversary_id", "property", "total")
    tx.insert_many("disclosure_sum", columns, list(totals))
    set_setting(tx, _STAMP, made_from)


def sets(tx: Tx) -> Sequence[Row]:
    """Sets of each rule: (property, sets)."""
    return tx.execute(_SETS).all()


def sums(tx: Tx, adversary_id: int | None = None) -> Sequence[Row]:
    """Sums of all adversaries, or of one: (adversary, property, total)."""
    if adversary_id is None:
        return tx.execute(_SUMS).all()
    return tx.execute(_SUMS_OF, {"adversary": adversary_id}).all()


def put_sum(tx: Tx, adversary_id: int, name: str, total: str) -> None:
    """Store one sum."""
    tx.upsert_many(
        "disclosure_sum",
        ("adversary_id", "property"),
        ("adversary_id", "property", "total"),
        [(adversary_id, name, total)],
    )


def entries_by_unit(tx: Tx, *, subject: bool) -> Iterator[Row]:
    """All entries in order of record or subject: (unit's id, field, time)."""
    return tx.stream(_ENTRIES[subject])


def counts_by_unit(tx: Tx, *, subject: bool) -> Iterator[Row]:
    """All exposure counts in order of record or subject.

    Columns: unit's id, adversary, field, time, entries.
    """
    return tx.stream(_COUNTS, {"kind": int(subject)})


def anything_held(tx: Tx) -> bool:
    """Whether any adversary holds anything that a rule reads."""
    return tx.scalar(_ANY) is not None


def unit_entries(tx: Tx, unit: int, *, subject: bool) -> Sequence[Row]:
    """All entries of one record or subject: (field, time)."""
    return tx.execute(_ENTRIES_OF[subject], {"unit": unit}).all()


def unit_counts(tx: Tx, adversary_id: int, unit_id: int) -> Sequence[Row]:
    """What one adversary holds of one unit: (field, time, entries)."""
    given = {"adversary": adversary_id, "unit": unit_id}
    return tx.execute(_COUNTS_OF, given).all()


def forget_sums(tx: Tx, adversary_id: int) -> None:
    """Delete the sums of an adversary that was joined to another."""
    tx.execute(_FORGET, {"adversary": adversary_id})
