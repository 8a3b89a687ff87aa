"""What proofs of showings are made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, func
from sqlmodel import col, select

from dispatcher.core.keys import entry_name
from dispatcher.model import SYSTEM_CHAIN, Entry, LedgerLine, Record, Subject
from dispatcher.store import audit
from dispatcher.store.audit import LineRow
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

_EXPOSURES: Final = (
    select(LedgerLine.chain_id, LedgerLine.seq)
    .where(in_list(LedgerLine.entry_id, "entries"), LedgerLine.kind == "exposure")
    .order_by(col(LedgerLine.chain_id), col(LedgerLine.seq))
)
_NAMES: Final = (
    select(Record.pseudonym, Entry.field_id)
    .select_from(Entry)
    .join(Record, col(Record.id) == Entry.record_id)
    .where(in_list(Entry.id, "entries"))
)
_SUBJECT: Final = select(Subject.id).where(Subject.pseudonym == bindparam("called"))
_OF_SUBJECT: Final = (
    select(Entry.id)
    .join(Record, col(Record.id) == Entry.record_id)
    .where(Record.subject_id == bindparam("of_subject"))
    .order_by(col(Entry.id))
)
_IS_SEAL: Final = (
    col(LedgerLine.chain_id) == SYSTEM_CHAIN,
    col(LedgerLine.kind) == "seal",
)
_LAST_SEAL: Final = select(func.max(LedgerLine.seq)).where(*_IS_SEAL)
_SEALS: Final = (
    select_columns(LedgerLine.seq, LedgerLine.at, LedgerLine.body)
    .where(*_IS_SEAL, LedgerLine.seq > bindparam("after"))
    .order_by(col(LedgerLine.seq))
)


def exposures_of(tx: Tx, entry_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Places of all exposures of some entries: (chain, seq)."""
    found = tx.execute(_EXPOSURES, {"entries": entry_ids})
    return [(chain, seq) for chain, seq in found]


def names_of(tx: Tx, entry_ids: Sequence[int]) -> list[str]:
    """Ledger names of entries, sorted."""
    found = tx.execute(_NAMES, {"entries": entry_ids})
    return sorted(entry_name(record, field) for record, field in found)


def entries_of_subject(tx: Tx, pseudonym: str) -> list[int] | None:
    """Entries of one person; None if nobody has that pseudonym."""
    subject = tx.scalar(_SUBJECT, {"called": pseudonym})
    if subject is None:
        return None
    return tx.scalars(_OF_SUBJECT, {"of_subject": subject})


def last_seal(tx: Tx) -> tuple[LineRow, str] | None:
    """Return the last seal's row, and the hash of the line before it."""
    seq = tx.scalar(_LAST_SEAL)
    if seq is None:
        return None
    row = next(audit.lines_up_to(tx, SYSTEM_CHAIN, seq, after=seq - 1))
    return row, audit.hash_at(tx, SYSTEM_CHAIN, seq - 1) or "0" * 64


def seals_after(tx: Tx, seq: int) -> list[tuple[int, int, str]]:
    """Seals after a line of chain ``system``: (seq, at, body)."""
    found = tx.execute(_SEALS, {"after": seq})
    return [(number, at, body) for number, at, body in found]
