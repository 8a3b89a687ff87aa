"""What people ask about who was shown what: records, joins, numbers; never a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import bindparam, func, or_
from sqlmodel import col, select

from dispatcher.model import Chain, Entry, LedgerLine, Record
from dispatcher.store.statements import in_list
from dispatcher.store.transaction import Tx

_NAMED: Final = select(Record.pseudonym, Record.id).where(
    in_list(Record.pseudonym, "names")
)
_OF_ADVERSARY: Final = or_(
    col(Chain.id) == bindparam("adversary"),
    col(Chain.survivor_id) == bindparam("adversary"),
)
_RECORDS: Final = (
    select(func.count(col(Entry.record_id).distinct()))
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .join(Entry, col(Entry.id) == LedgerLine.entry_id)
    .where(LedgerLine.kind == "exposure", _OF_ADVERSARY)
)
_JOINS: Final = (
    select(col(LedgerLine.body))
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .where(LedgerLine.kind == "join", _OF_ADVERSARY)
    .order_by(col(LedgerLine.at), col(LedgerLine.chain_id), col(LedgerLine.seq))
)


def records_named(tx: Tx, names: Iterable[str]) -> dict[str, int]:
    """Ids of records, by pseudonym; those that are none are left out."""
    return dict(tx.execute(_NAMED, {"names": sorted(set(names))}).all())


def held_records(tx: Tx, adversary_id: int) -> int:
    """Of how many records an adversary was shown something (grows with its ledger)."""
    return tx.scalar(_RECORDS, {"adversary": adversary_id}) or 0


def joins(tx: Tx, adversary_id: int) -> list[str]:
    """Bodies of the joins that made an adversary what it is, in order."""
    bodies = tx.scalars(_JOINS, {"adversary": adversary_id})
    return [str(body) for body in bodies]
