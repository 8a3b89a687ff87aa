"""Queries for evidence and proofs: chains up to a seal, line by line; showings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, func
from sqlmodel import col, select

from dispatcher.core.keys import entry_name
from dispatcher.model import (
    SYSTEM_CHAIN,
    Account,
    Chain,
    Entry,
    LedgerLine,
    Record,
    Subject,
)
from dispatcher.store.ledger import ChainRow, FactsRow, all_chains
from dispatcher.store.statements import in_list, select_columns
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
    """A stored line; ``entry`` and ``record`` only with an exposure."""

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
    # Ordered by the time at which each ended; active chains come last.
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


# -- proofs of showings ----------------------------------------------------------------

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
    row = next(lines_up_to(tx, SYSTEM_CHAIN, seq, after=seq - 1))
    return row, hash_at(tx, SYSTEM_CHAIN, seq - 1) or "0" * 64


def seals_after(tx: Tx, seq: int) -> list[tuple[int, int, str]]:
    """Seals after a line of chain ``system``: (seq, at, body)."""
    found = tx.execute(_SEALS, {"after": seq})
    return [(number, at, body) for number, at, body in found]
