"""Seals: one root over the heads of all chains, that an auditor can note down."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.ledger import chains
from dispatcher.ledger.lines import seal_root
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import ledger
from dispatcher.store.transaction import Tx


@dataclass(frozen=True)
class Seal:
    """A seal as it stands in chain ``system``.

    Attributes
    ----------
    seq : int
        Its number in the chain.
    root : str
    hash : str
        Of its own line: the head of chain ``system`` at that moment.
    heads : dict of int to (str, int, str)
        By chain: name, number and hash of the last line that it covers.
    """

    seq: int
    root: str
    hash: str
    heads: dict[int, tuple[str, int, str]]


def seal(tx: Tx, *, at: int, always: bool = False) -> Seal | None:
    """Seal what the chains have grown by.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    at : int
        Now.
    always : bool
        Write a seal even if nothing was written since the last one.

    Returns
    -------
    Seal or None
        None when there was nothing to seal.
    """
    ledger.hold_barrier(tx)
    system = chains.lock_system(tx)
    # One statement: the heads are those of one moment.
    every = [c for c in ledger.all_chains(tx) if c.id != SYSTEM_CHAIN and c.seq]
    grown = {c.name: c.seq for c in every if c.seq > c.sealed_seq}
    if not (grown or always or system.seq > system.sealed_seq):
        return None
    root = seal_root({c.name: c.head for c in every}, system.head)
    body = {"heads": grown, "root": root}
    system = chains.append(tx, system, "seal", body, at=at)
    ledger.save_sealed(
        tx,
        [
            *((c.id, c.seq) for c in every if c.seq > c.sealed_seq),
            (SYSTEM_CHAIN, system.seq),
        ],
    )
    heads = {c.id: (c.name, c.seq, c.head) for c in every}
    return Seal(system.seq, root, system.head, heads)
