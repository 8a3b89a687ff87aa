"""Exposure counts: what each adversary holds of each unit, as the gate's summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    union_all,
)
from sqlmodel import col, select

from dispatcher.model import Entry, ExposureCount
from dispatcher.store import relations
from dispatcher.store.column_blocks import Block, Ints
from dispatcher.store.ledger import parts
from dispatcher.store.statements import (
    Columns,
    DriverStatement,
    Parameters,
    in_list,
    insert,
    select_columns,
)
from dispatcher.store.transaction import Row, Tx

SPAN = 64
"""Units in a range, for each that is wanted, up to which one walk finds them all."""

_COLUMNS: Final = ("adversary_id", "unit_id", "field_id", "time", "entries")
_of_adversary: Final = ExposureCount.adversary_id == bindparam("adversary")
_counts: Final = select_columns(
    *(getattr(ExposureCount, name) for name in _COLUMNS)
).where(_of_adversary)
_BETWEEN: Final = DriverStatement(
    _counts.where(
        col(ExposureCount.unit_id).between(bindparam("first"), bindparam("last"))
    )
)
_AMONG: Final = DriverStatement(_counts.where(in_list(ExposureCount.unit_id, "units")))
_ANY: Final = DriverStatement(
    select(ExposureCount.unit_id).where(_of_adversary).limit(1)
)
_ALL: Final = DriverStatement(
    select(
        ExposureCount.unit_id,
        ExposureCount.field_id,
        ExposureCount.time,
        ExposureCount.entries,
    ).where(_of_adversary)
)


def counts(tx: Tx, wanted: Iterable[tuple[int, Sequence[int]]]) -> Ints:
    """What adversaries hold of many units: (adversary, unit, field, time, entries).

    ``wanted`` names units by adversary; they ascend. Where they lie close together,
    units between them come too.
    """
    asked: list[tuple[DriverStatement, Parameters]] = []
    for adversary, units in wanted:
        if not units:
            continue
        of = {"adversary": adversary}
        if units[-1] - units[0] < SPAN * len(units):
            asked.append((_BETWEEN, {**of, "first": units[0], "last": units[-1]}))
        elif holds_anything(tx, adversary):
            asked += [(_AMONG, {**of, "units": part}) for part in parts(units)]
    return tx.driver_numbers(5, asked)


def holds_anything(tx: Tx, adversary_id: int) -> bool:
    """Whether the summary has a row of an adversary."""
    return tx.driver_one(_ANY, {"adversary": adversary_id}) is not None


def all_counts(tx: Tx, adversary_id: int) -> list[Row]:
    """Return the whole summary of one adversary (grows with what it holds).

    Rows of unit, field, time and entries.
    """
    return tx.driver_rows(_ALL, {"adversary": adversary_id})


def add_counts(tx: Tx, added: Iterable[Sequence[int]]) -> None:
    """Add to the summary: rows (adversary, unit, field, time, entries)."""
    tx.upsert_add(
        "exposure_count",
        ("adversary_id", "unit_id", "field_id", "time"),
        "entries",
        added,
    )


def begin_counts(tx: Tx, begun: Block) -> None:
    """Write rows whose keys the summary does not have yet, as columns, in key order."""
    tx.insert_blocks("exposure_count", _COLUMNS, [begun] if begun.size else [])


Kept = Mapping[int, tuple[bool, bool, bool, bool]]
"""By field: whether counts are kept by record, subject, time, place."""


def _derived(*, of_one: bool) -> Columns:
    """Query that derives the counts from exposures, of all or of one adversary."""
    shown = relations.exposed(of_one=of_one).c
    whole = literal_column("0", BigInteger())
    moment = case(
        (in_list(Entry.field_id, "timed"), func.coalesce(Entry.time, 0)), else_=whole
    )
    units = union_all(
        select_columns(
            shown.adversary_id,
            (2 * col(Entry.record_id)).label("unit_id"),
            Entry.field_id,
            whole.label("moment"),
        )
        .join(Entry, col(Entry.id) == shown.entry_id)
        .where(in_list(Entry.field_id, "by_record")),
        select_columns(
            shown.adversary_id,
            2 * col(Entry.subject_id) + 1,
            Entry.field_id,
            moment,
        )
        .join(Entry, col(Entry.id) == shown.entry_id)
        .where(
            in_list(Entry.field_id, "by_subject"), col(Entry.subject_id).is_not(None)
        ),
    ).subquery()
    return select_columns(*units.c, func.count()).group_by(*units.c)


_CLEAR: Final = delete(ExposureCount)
_FORGET: Final = delete(ExposureCount).where(
    col(ExposureCount.adversary_id) == bindparam("adversary")
)
_DERIVE: Final = insert(ExposureCount).from_select(_COLUMNS, _derived(of_one=False))
_DERIVE_ONE: Final = insert(ExposureCount).from_select(_COLUMNS, _derived(of_one=True))


def rebuild_counts(tx: Tx, kept: Kept, adversary_id: int | None = None) -> None:
    """Rebuild the summary from the ledger's exposures (grows with them).

    Of all adversaries, or of one (with the chains that ended in it).
    """
    fields = {
        "by_record": [n for n, (record, _, _, _) in kept.items() if record],
        "by_subject": [n for n, (_, subject, _, _) in kept.items() if subject],
        "timed": [n for n, (_, _, times, _) in kept.items() if times],
    }
    if adversary_id is None:
        tx.execute(_CLEAR)
        tx.execute(_DERIVE, fields)
    else:
        forget(tx, adversary_id)
        tx.execute(_DERIVE_ONE, {**fields, "adversary": adversary_id})
    placed = [n for n, (_, _, _, places) in kept.items() if places]
    relations.rebuild_visits(tx, placed, adversary_id)


def forget(tx: Tx, adversary_id: int) -> None:
    """Delete the summary of an adversary that was joined to another."""
    tx.execute(_FORGET, {"adversary": adversary_id})
