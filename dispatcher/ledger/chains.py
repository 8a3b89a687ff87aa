"""Chains: where lines are appended, one hash chain an adversary and one for the system.

A chain is locked (its row) while it is appended to, so that adversaries never wait for
one another. Nothing here changes a line once written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from itertools import repeat

from dispatcher.ledger.lines import (
    NO_HASH,
    ExposureForm,
    adversary_name,
    canonical,
    line_hash,
)
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import ledger as rows
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Tx

SYSTEM: str = "system"
"""Name of the chain of policies, loads and seals."""


@dataclass(frozen=True)
class Showings:
    """Exposures of one account about to be written, as columns of equal length.

    Attributes
    ----------
    account_id : int
    account : str
        ``CONNECTOR/NAME``.
    entry_ids : Sequence of int
    entries : Sequence of str
        Their ledger names.
    new : Sequence of int
        1, or 0 where the adversary holds the entry already.
    """

    account_id: int
    account: str
    entry_ids: Sequence[int]
    entries: Sequence[str]
    new: Sequence[int]


def lock(tx: Tx, ids: Iterable[int]) -> dict[int, ChainRow]:
    """Lock chains in order of id, and read their heads."""
    return rows.lock_chains(tx, ids)


def lock_system(tx: Tx) -> ChainRow:
    """Lock the system chain and read its head."""
    return lock(tx, (SYSTEM_CHAIN,))[SYSTEM_CHAIN]


def begin(tx: Tx) -> ChainRow:
    """Begin a new adversary's chain; it has no line yet."""
    number = tx.reserve("chain")
    chain = ChainRow(number, adversary_name(number), 0, NO_HASH, 0, 0, 0, None)
    rows.add_chain(tx, chain)
    return chain


def append(
    tx: Tx,
    chain: ChainRow,
    kind: str,
    members: Mapping[str, object],
    *,
    at: int,
    policy: int = 0,
    account_id: int | None = None,
    entry_id: int | None = None,
) -> ChainRow:
    """Append one line that is no exposure.

    Parameters
    ----------
    tx : Tx
    chain : ChainRow
        The locked head.
    kind : str
    members : Mapping[str, object]
        What the kind adds to the members that every line has.
    at : int
        Now; the line says the chain's last moment if that is later.
    policy : int
        Version in force; not written in chain ``system``.
    account_id, entry_id : int, optional
        What the line is about, for look-ups.

    Returns
    -------
    ChainRow
        The new head, saved.
    """
    at, seq = max(at, chain.at), chain.seq + 1
    line = whole_line(
        chain.name, seq, chain.head, kind, at, policy, canonical(dict(members))
    )
    own = line_hash(chain.head, line)
    row = (
        chain.id,
        seq,
        kind,
        at,
        policy,
        account_id,
        entry_id,
        None,
        None,
        canonical(dict(members)),
        bytes.fromhex(own),
    )
    rows.add_lines(tx, [row])
    head = chain._replace(seq=seq, head=own, at=at, policy_version=policy)
    rows.save_head(tx, head)
    return head


def whole_line(
    chain: str, seq: int, prev: str, kind: str, at: int, policy: int, body: str
) -> dict[str, object]:
    """All members of a line but ``hash``, from what is kept of it."""
    line: dict[str, object] = json.loads(body)
    line |= {"chain": chain, "seq": seq, "prev": prev, "kind": kind, "at": at}
    if chain != SYSTEM:
        line["policy"] = policy
    return line


def expose(
    tx: Tx,
    chain: ChainRow,
    showings: Iterable[Showings],
    *,
    at: int,
    policy: int,
    cause: str,
) -> ChainRow:
    """Append one exposure line each, in order.

    Parameters
    ----------
    tx : Tx
    chain : ChainRow
        The locked head.
    showings : Iterable[Showings]
    at, policy : int
        Now, and the version in force.
    cause : str
        A word for why the entries are shown.

    Returns
    -------
    ChainRow
        The new head, saved.
    """
    at, seq, head = max(at, chain.at), chain.seq, chain.head
    lines: list[Iterable[Sequence[object]]] = []
    for part in showings:
        form = ExposureForm.of(
            account=part.account, at=at, cause=cause, chain=chain.name, policy=policy
        )
        hashes = form.hashes(part.entries, prev=head, seq=seq + 1)
        lines.append(
            zip(
                repeat(chain.id),
                range(seq + 1, seq + 1 + len(hashes)),
                repeat("exposure"),
                repeat(at),
                repeat(policy),
                repeat(part.account_id),
                part.entry_ids,
                repeat(cause),
                part.new,
                repeat(None),
                hashes,
                strict=False,
            )
        )
        if hashes:
            seq, head = seq + len(hashes), hashes[-1].hex()
    rows.add_lines(tx, joined.from_iterable(lines))
    new = chain._replace(seq=seq, head=head, at=at, policy_version=policy)
    rows.save_head(tx, new)
    return new
