"""The last lines of chains, hashed again: a look that does not grow with the ledger."""

from __future__ import annotations

import json

from dispatcher.ledger.lines import NO_HASH, line_hash
from dispatcher.ledger.shipping.telling import told
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import audit, ledger
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Tx


def holds(tx: Tx, *, lines: int, every: bool = False) -> bool:
    """Whether the ends of chains read as they were written.

    Parameters
    ----------
    tx : Tx
    lines : int
        So many of each chain, at most, >= 1.
    every : bool
        Of all chains; else of chain ``system`` alone.
    """
    chains = [c for c in ledger.all_chains(tx) if every or c.id == SYSTEM_CHAIN]
    return all(_holds(tx, chain, lines) for chain in chains)


def _holds(tx: Tx, chain: ChainRow, lines: int) -> bool:
    after = max(0, chain.seq - lines)
    prev = audit.hash_at(tx, chain.id, after) if after else NO_HASH
    if prev is None:
        return False
    seq = after
    rows = audit.lines_up_to(tx, chain.id, chain.seq, after=after)
    try:
        for row, text, _ in told(rows, chain.name, prev):
            line = json.loads(text)
            own = line.pop("hash")
            if row.seq != seq + 1 or line_hash(prev, line) != own:
                return False
            seq, prev = row.seq, own
    except (AssertionError, ValueError):  # a line that refers to nothing
        return False
    return (seq, prev) == (chain.seq, chain.head)
