"""What a batch of asks looks up, as columns of numbers.

No row becomes a tuple for long: tens of thousands of them alive at a time would set
Python's garbage collector to work, again and again, on all that the program holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import bindparam, func
from sqlmodel import col, select

from dispatcher.model import Chain, Entry, LedgerLine, Record
from dispatcher.store.column_blocks import Ints
from dispatcher.store.ledger import parts
from dispatcher.store.statements import DriverStatement, in_list, select_columns
from dispatcher.store.transaction import Row, Tx

_LOCK_FACTS: Final = DriverStatement(
    select_columns(
        Entry.id,
        Entry.record_id,
        Entry.field_id,
        func.coalesce(Entry.subject_id, -1),
        func.coalesce(Entry.time, 0),
    )
    .where(in_list(Entry.id, "ids"))
    .order_by(col(Entry.id))
    .with_for_update(key_share=True)
)
_RECORDS: Final = DriverStatement(
    select_columns(
        Record.id,
        Record.pseudonym,
        Record.run_id,
        col(Record.waits_since).is_not(None),
    )
    .where(in_list(Record.id, "ids"))
    .order_by(col(Record.id))
)
_ANY_LINE: Final = DriverStatement(
    select(LedgerLine.entry_id)
    .where(
        col(LedgerLine.entry_id) >= bindparam("first"),
        col(LedgerLine.entry_id) <= bindparam("last"),
    )
    .limit(1)
)
_LINES: Final = DriverStatement(
    select_columns(
        LedgerLine.entry_id,
        LedgerLine.chain_id,
        func.coalesce(LedgerLine.showing, -1),
    ).where(in_list(LedgerLine.entry_id, "ids"))
)
_SURVIVORS: Final = select_columns(Chain.id, Chain.survivor_id).where(
    col(Chain.survivor_id).is_not(None)
)


def lock_facts(tx: Tx, ids: Sequence[int]) -> Ints:
    """Lock many entries, and read them: (id, record, field, subject or -1, time or 0).

    ``ids`` ascend, and so do the rows: in that order entries are locked everywhere, so
    that their showings are counted one by one.
    """
    return tx.driver_numbers(5, [(_LOCK_FACTS, {"ids": part}) for part in parts(ids)])


def records(tx: Tx, ids: Sequence[int]) -> Iterator[Row]:
    """Many records, in order of the ascending ids: (id, pseudonym, run, waiting)."""
    for part in parts(ids):
        yield from tx.driver_stream(_RECORDS, {"ids": part})


def lines_about(tx: Tx, ids: Sequence[int]) -> Ints:
    """Lines about many entries, in no order: (entry, chain, showing).

    ``ids`` ascend. ``showing`` is -1 for an ``unburn``.
    """
    if not ids:
        return tx.driver_numbers(3, ())
    around = {"first": ids[0], "last": ids[-1]}
    there = tx.driver_one(_ANY_LINE, around) is not None
    asked = [(_LINES, {"ids": part}) for part in parts(ids)] if there else ()
    return tx.driver_numbers(3, asked)


def survivors(tx: Tx) -> dict[int, int]:
    """Chains that ended, each with the one that goes on."""
    return dict(tx.execute(_SURVIVORS).all())
