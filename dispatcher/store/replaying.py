"""What a replay of shipped lines reads, and what may have been shown beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import bindparam, func, or_
from sqlmodel import col, select

from dispatcher.model import (
    SYSTEM_CHAIN,
    Assignment,
    Chain,
    Entry,
    LedgerLine,
    Plan,
    Record,
    Result,
)
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

_ENTRY: Final = (
    select(Entry.id)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .where(
        Record.pseudonym == bindparam("record"), Entry.field_id == bindparam("field")
    )
)
_HOLDS: Final = (
    select(LedgerLine.seq)
    .join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
    .where(
        LedgerLine.entry_id == bindparam("entry"),
        LedgerLine.kind == "exposure",
        LedgerLine.showing == 1,
        func.coalesce(Chain.survivor_id, Chain.id) == bindparam("adversary"),
    )
    .limit(1)
)
_OF_NAMES: Final = (
    select(Record.pseudonym, Entry.field_id)
    .join(Entry, col(Entry.record_id) == col(Record.id))
    .where(in_list(Record.pseudonym, "records"))
)
_LOST: Final = (
    select(func.count()).select_from(Record).where(col(Record.lost_at).is_not(None))
)
_PLANNED: Final = (
    select(Assignment.account_id, Assignment.entries)
    .join(Plan, col(Plan.id) == col(Assignment.plan_id))
    .where(Plan.state == "applied", func.length(Assignment.entries) > 0)
    .order_by(col(Assignment.plan_id), col(Assignment.account_id))
)
_OPEN_UNITS: Final = (
    select_columns(Entry.record_id, func.coalesce(Entry.subject_id, Record.subject_id))
    .distinct()
    .select_from(Entry)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .join(Result, col(Result.entry_id) == col(Entry.id), isouter=True)
    .where(
        or_(
            col(Result.entry_id).is_(None),
            col(Result.state) != "answered",
            col(Result.at) >= bindparam("since"),
        )
    )
)
_LIVING: Final = (
    select(Chain.id)
    .where(Chain.id != SYSTEM_CHAIN, col(Chain.survivor_id).is_(None))
    .order_by(col(Chain.id))
)


def entry_id(tx: Tx, record: str, field_id: int) -> int | None:
    """Id of the entry that the ledger names so."""
    return tx.scalar(_ENTRY, {"record": record, "field": field_id})


def holds(tx: Tx, adversary: int, entry: int) -> bool:
    """Whether an adversary, with all that joined it, was shown an entry."""
    return tx.scalar(_HOLDS, {"adversary": adversary, "entry": entry}) is not None


def entries_of_names(tx: Tx, records: Iterable[str]) -> set[tuple[str, int]]:
    """Entries of some records that are in the store: (record's pseudonym, field)."""
    return {(name, n) for name, n in tx.execute(_OF_NAMES, {"records": list(records)})}


def count_lost(tx: Tx) -> int:
    """How many records may be loaded again."""
    return tx.scalar(_LOST) or 0


# -- what may have been shown, without a shipped ledger ------------------------------


def planned_pairs(tx: Tx) -> list[tuple[int, bytes]]:
    """Pairs of applied plans that were not booked yet: (account, packed entries)."""
    return [(account, entries) for account, entries in tx.execute(_PLANNED)]


def open_units(tx: Tx, since: int) -> tuple[list[int], list[int]]:
    """Records and subjects with an entry that was still open at a moment or later."""
    records, subjects = set(), set()
    for record, subject in tx.execute(_OPEN_UNITS, {"since": since}):
        records.add(record)
        if subject is not None:
            subjects.add(subject)
    return sorted(records), sorted(subjects)


def living_adversaries(tx: Tx) -> list[int]:
    """Ids of the adversaries that have not ended."""
    return tx.scalars(_LIVING)
