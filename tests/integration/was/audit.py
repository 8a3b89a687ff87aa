"""What evidence is made from: chains up to a seal, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store.ledger import ChainRow, FactsRow, all_chains
from dispatcher.store.transaction import Tx


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
    ended_at = {
        row[0]: row[1]
        for row in tx.rows(
            "SELECT c.id, l.at FROM chain c JOIN ledger_line l"
            " ON l.chain_id = c.id AND l.seq = c.seq WHERE c.survivor_id IS NOT NULL"
        )
    }
    # A chain ends once: by the moment of that, and those that live on at the end.
    last = max(ended_at.values(), default=0) + 1
    return sorted(every, key=lambda chain: (ended_at.get(chain.id, last), -chain.id))


def lines_up_to(
    tx: Tx, chain_id: int, seq: int, *, after: int = 0
) -> Iterator[LineRow]:
    """Read a chain's lines ``after`` one up to ``seq``, in order, as they stream in."""
    for row in tx.stream(
        "SELECT l.seq, l.kind, l.at, l.policy_version, a.connector || '/' || a.name,"
        " l.cause, l.body, l.hash, r.pseudonym, e.id, e.record_id, e.subject_id,"
        " e.field_id, e.time, e.vector, e.visits"
        " FROM ledger_line l"
        " LEFT JOIN account a ON a.id = l.account_id"
        " LEFT JOIN entry e ON e.id = l.entry_id"
        " LEFT JOIN record r ON r.id = e.record_id"
        " WHERE l.chain_id = ? AND l.seq > ? AND l.seq <= ? ORDER BY l.seq",
        (chain_id, after, seq),
    ):
        entry = None if row[9] is None else FactsRow(row[9], *row[10:])
        yield LineRow._make((*row[:7], bytes(row[7]), row[8], entry))


def hash_at(tx: Tx, chain_id: int, seq: int) -> str | None:
    """Hash of one line of a chain; None if there is no such line."""
    found = tx.value(
        "SELECT hash FROM ledger_line WHERE chain_id = ? AND seq = ?", (chain_id, seq)
    )
    return None if found is None else bytes(found).hex()
