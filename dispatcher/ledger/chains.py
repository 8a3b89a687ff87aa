"""Chains: append-only lines, one hash chain per adversary and one for the system.

Appending locks the chain's row, so that adversaries never wait for one another. Nothing
here changes a written line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.core.canonical import NO_HASH, canonical, line_hash
from dispatcher.core.errors import StoreEdited
from dispatcher.ledger.lines import HASH_BYTES, ExposureForm, adversary_name, seal_root
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import ledger as rows
from dispatcher.store import policies as policy_rows
from dispatcher.store.column_blocks import Block, Ints
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Piece, Tx

SYSTEM: str = "system"
"""Name of the chain of policies, loads and seals."""

ABOUT_MORE: Final = frozenset({"keys", "policy"})
"""Kinds whose lines contain only digests of their subject matter."""


@dataclass(frozen=True)
class Showings:
    """Exposures of one account about to be written, as columns of equal length.

    Attributes
    ----------
    account_id : int
    account : str
        ``CONNECTOR/NAME``.
    entry_ids : list of int, or int64 array
    entries : Sequence of str
        Their ledger names.
    new : list of int, or int64 array
        1, or 0 where the adversary holds the entry already.
    """

    account_id: int
    account: str
    entry_ids: list[int] | Ints
    entries: Sequence[str]
    new: list[int] | Ints


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
        Members of this kind, beyond those that every line has.
    at : int
        Now; the line has the chain's last timestamp if that is later.
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
    rows.save_heads(tx, [head])
    if tx.grown is not None:
        # The content of a load or a version is read from the store once it is there.
        line_text = "" if kind in ABOUT_MORE else canonical(line | {"hash": own}) + "\n"
        text = line_text.encode()
        tx.grown.append(Piece(chain.name, chain.id, seq, chain.head, seq, own, text))
    return head


def whole_line(
    chain: str, seq: int, prev: str, kind: str, at: int, policy: int, body: str
) -> dict[str, object]:
    """Rebuild all members of a line but ``hash`` from its stored columns."""
    line: dict[str, object] = json.loads(body)
    line |= {"chain": chain, "seq": seq, "prev": prev, "kind": kind, "at": at}
    if chain != SYSTEM:
        line["policy"] = policy
    return line


def expose(
    tx: Tx,
    grown: Iterable[tuple[ChainRow, Iterable[Showings]]],
    *,
    at: int,
    policy: int,
    cause: str,
) -> list[ChainRow]:
    """Append one exposure line each, in order, to any number of chains.

    Parameters
    ----------
    tx : Tx
    grown : Iterable of (ChainRow, Iterable of Showings)
        Locked heads, each chain once, with what is shown to it.
    at, policy : int
        Now, and the version in force.
    cause : str
        A word for why the entries are shown.

    Returns
    -------
    list of ChainRow
        The new heads, saved.

    Raises
    ------
    StoreEdited
        A chain has ended: its account was given back to it past the program.
    """
    heads: list[ChainRow] = []
    rows.add_exposures(tx, _lines(tx, grown, heads, at=at, policy=policy, cause=cause))
    rows.save_heads(tx, heads)
    return heads


def _lines(
    tx: Tx,
    grown: Iterable[tuple[ChainRow, Iterable[Showings]]],
    heads: list[ChainRow],
    *,
    at: int,
    policy: int,
    cause: str,
) -> Iterator[Block]:
    """Generate lines of showings while earlier ones are written; fill the heads."""
    for chain, showings in grown:
        if chain.survivor_id is not None:
            raise _has_ended(chain)
        head = chain._replace(at=max(at, chain.at), policy_version=policy)
        for part in showings:
            if len(part.entry_ids):
                head, block = _grown(tx, head, part, cause)
                yield block
        heads.append(head)


def _has_ended(chain: ChainRow) -> StoreEdited:
    return StoreEdited(
        f"nothing is shown to {chain.name}, which ended in a join",
        why="Its account was taken out of the joint adversary past the program.",
        fix="See what else was changed: dispatcher doctor",
        facts={"chain": chain.name},
    )


def _grown(
    tx: Tx, head: ChainRow, part: Showings, cause: str
) -> tuple[ChainRow, Block]:
    """Return the lines of some showings after a head, and the new head."""
    form = ExposureForm.of(
        account=part.account,
        at=head.at,
        cause=cause,
        chain=head.name,
        policy=head.policy_version,
    )
    first, size = head.seq + 1, len(part.entry_ids)
    hashes, text = form.grow(
        part.entries, prev=head.head, seq=first, whole=tx.grown is not None
    )
    last, own = head.seq + size, hashes[-HASH_BYTES:].hex()
    if tx.grown is not None:
        tx.grown.append(Piece(head.name, head.id, first, head.head, last, own, text))
    columns = (
        head.id,
        range(first, first + size),
        "exposure",
        head.at,
        head.policy_version,
        part.account_id,
        part.entry_ids,
        cause,
        part.new,
        hashes,
    )
    return head._replace(seq=last, head=own), Block(size, columns)


@dataclass(frozen=True)
class Seal:
    """A seal in chain ``system``.

    Attributes
    ----------
    seq : int
        Its number in the chain.
    root : str
    hash : str
        Of its own line: the head of chain ``system`` at that time.
    heads : dict of int to (str, int, str)
        By chain: name, number and hash of the last line that it covers.
    """

    seq: int
    root: str
    hash: str
    heads: dict[int, tuple[str, int, str]]


def seal(tx: Tx, *, at: int, always: bool = False) -> Seal | None:
    """Seal the lines added to the chains since the last seal.

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
    policy_rows.lock_policy_shared(tx)
    system = lock_system(tx)
    # One statement: the heads form a consistent snapshot.
    every = [c for c in rows.all_chains(tx) if c.id != SYSTEM_CHAIN and c.seq]
    grown = {c.name: c.seq for c in every if c.seq > c.sealed_seq}
    if not (grown or always or system.seq > system.sealed_seq):
        return None
    root = seal_root({c.name: c.head for c in every}, system.head)
    body = {"heads": grown, "root": root}
    system = append(tx, system, "seal", body, at=at)
    rows.save_sealed(
        tx,
        [
            *((c.id, c.seq) for c in every if c.seq > c.sealed_seq),
            (SYSTEM_CHAIN, system.seq),
        ],
    )
    heads = {c.id: (c.name, c.seq, c.head) for c in every}
    return Seal(system.seq, root, system.head, heads)
