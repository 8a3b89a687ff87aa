"""What evidence is made from: chains up to a seal, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam
from sqlmodel import col, select

from dispatcher.model import SYSTEM_CHAIN, Account, Chain, Entry, LedgerLine, Record
from dispatcher.store.ledger import ChainRow, FactsRow, all_chains
from dispatcher.store.statements import select_columns
from dispatcher.store.transaction import Tx

_ENDS: Final = (
    select(Chain.id, LedgerLine.at)
    .join(
        LedgerLine,
        and_(col(LedgerLine.chain_id) == Chain.id, col(LedgerLine.seq) == Chain.seq),
    )
    .where(col(Chain.survivor_id).is_not(None))
)
_LINES: Final = (
    select_columns(
        LedgerLine.seq,
        LedgerLine.kind,
        LedgerLine.at,
        LedgerLine.policy_version,
        col(Account.connector) + "/" + col(Account.name),
        LedgerLine.cause,
        LedgerLine.body,
        LedgerLine.hash,
        Record.pseudonym,
        Entry.id,
        Entry.record_id,
        Entry.subject_id,
        Entry.field_id,
        Entry.time,
        Entry.vector,
        Entry.visits,
    )
    .select_from(LedgerLine)
    .outerjoin(Account, col(Account.id) == LedgerLine.account_id)
    .outerjoin(Entry, col(Entry.id) == LedgerLine.entry_id)
    .outerjoin(Record, col(Record.id) == Entry.record_id)
    .where(
        LedgerLine.chain_id == bindparam("chain"),
        LedgerLine.seq > bindparam("after"),
        LedgerLine.seq <= bindparam("last"),
    )
    .order_by(col(LedgerLine.seq))
)
_HASH: Final = select(LedgerLine.hash).where(
    LedgerLine.chain_id == bindparam("chain"), LedgerLine.seq == bindparam("last")
)


class LineRow(NamedTuple):
    """A line as it is kept; ``entry`` and ``record`` only with an exposure."""

    seq: int
    kind: str
    at: int
    policy_version: int
    account: str | None
    cause: str | None
    body: str | None
    hash: bytes
    record: str | None
    entry: FactsRow | None


def chains_in_order(tx: Tx) -> list[ChainRow]:
    """Return adversary chains, each before the one that it ended in."""
    every = [chain for chain in all_chains(tx) if chain.id != SYSTEM_CHAIN]
    ended_at = dict(tx.execute(_ENDS).all())
    # A chain ends once: by the moment of that, and those that live on at the end.
    last = max(ended_at.values(), default=0) + 1
    return sorted(every, key=lambda chain: (ended_at.get(chain.id, last), -chain.id))


def lines_up_to(
    tx: Tx, chain_id: int, seq: int, *, after: int = 0
) -> Iterator[LineRow]:
    """Read a chain's lines ``after`` one up to ``seq``, in order, as they stream in."""
    for row in tx.stream(_LINES, {"chain": chain_id, "after": after, "last": seq}):
        entry = None if row[9] is None else FactsRow(row[9], *row[10:])
        yield LineRow._make((*row[:9], entry))


def hash_at(tx: Tx, chain_id: int, seq: int) -> str | None:
    """Hash of one line of a chain; None if there is no such line."""
    found = tx.scalar(_HASH, {"chain": chain_id, "last": seq})
    return None if found is None else found.hex()
