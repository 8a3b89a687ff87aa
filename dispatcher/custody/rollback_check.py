"""Who can tell what a restored store would forget, and whether the teller is stale.

The shipped ledger says what was shown. That a copy of it ends too early it cannot say
itself; others can: the backup, where it knows more; roots that were anchored; and the
store that is to be replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dispatcher.core.errors import LedgerAhead
from dispatcher.ledger.lines import NO_HASH
from dispatcher.ledger.shipping import shipped_lines, store_id
from dispatcher.ledger.shipping.shipper import refuse_forgotten
from dispatcher.store import Store, ledger
from dispatcher.store.transaction import Tx

Heads = dict[str, tuple[int, str]]
"""By chain: number and hash of its last line."""


@dataclass(frozen=True)
class Shipped:
    """What the files of a shipped ledger reach.

    Attributes
    ----------
    heads : Heads
    at : int
        Moment of their newest line; 0: they have none.
    """

    heads: Heads = field(default_factory=dict)
    at: int = 0


def read_shipped(folder: Path, store: Store) -> Shipped:
    """Read up to where the files of a store's ledger go.

    Raises
    ------
    LedgerForeign, LedgerBroken
    """
    heads: Heads = {}
    at = 0
    for line in shipped_lines(folder, store=store_id(store)):
        if "attached" not in line.members:
            members = line.members
            heads[members["chain"]] = (members["seq"], members["hash"])
            at = max(at, members["at"])
    return Shipped(heads, at)


def forgotten(store: Store, heads: Heads) -> LedgerAhead | None:
    """Compare a store with what another one or its files know: what it would forget.

    Raises
    ------
    LedgerAhead
        They part ways: no replay brings them together.
    """
    try:
        with store.read() as tx:
            refuse_forgotten(tx, ledger.all_chains(tx), heads)
    except LedgerAhead as ahead:
        if "lines" not in ahead.facts:
            raise
        return ahead
    return None


def refuse_stale(store: Store, shipped: Shipped, folder: Path) -> None:
    """Refuse files that end before a store's own ledger does.

    Raises
    ------
    LedgerAhead
    """
    with store.read() as tx:
        chains = ledger.all_chains(tx)
    lacking = [
        chain.seq - shipped.heads.get(chain.name, (0, NO_HASH))[0] for chain in chains
    ]
    lines = sum(number for number in lacking if number > 0)
    if lines:
        raise LedgerAhead(
            "the shipped ledger ends before the backup: it is a stale copy",
            why=f"{folder} lacks {lines:,} lines that the backup has, so nobody says "
            "what was shown since.",
            fix="Name the folder that it was last shipped to: --ledger DIR. If that is "
            "lost, move the copy away, and take for shown what may have been: "
            "--assume-shown-since TIME",
            facts={"stale": lines},
        )


def heads_of(tx: Tx) -> Heads:
    """Where the chains of a store stand."""
    return {c.name: (c.seq, c.head) for c in ledger.all_chains(tx) if c.seq}


def refuse_outdone(store: Store, heads: Heads, there: Path) -> None:
    """Refuse a filled store that knows less than the one it would replace.

    Raises
    ------
    LedgerAhead
    """
    try:
        with store.read() as tx:
            refuse_forgotten(tx, ledger.all_chains(tx), heads)
    except LedgerAhead as ahead:
        lines = ahead.facts.get("lines")
        raise LedgerAhead(
            f"the store at {there} "
            + (
                "parts ways with the restored one"
                if lines is None
                else f"knows {lines:,} lines that the restored one would not"
            ),
            why="What it has shown would be forgotten. The shipped ledger that was read "
            "is a stale copy, or those lines were never shipped.",
            fix="Name the folder that it was last shipped to: --ledger DIR; let that "
            "store ship what it has: dispatcher doctor --fix. Only if it is not to be "
            "trusted move it away yourself, and repeat.",
            facts=ahead.facts,
        ) from None
