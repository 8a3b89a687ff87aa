"""Proofs that a line is in the ledger, up to the root of a seal.

A proof contains the line's chain, from the line itself to the last line that the seal
covers, and the path of that last hash to the seal's root (RFC 9162, section 2.1.3).
Whoever noted the root can check it with SHA-256 alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dispatcher.core.canonical import NO_HASH, line_hash
from dispatcher.core.errors import Conflict, Invalid
from dispatcher.ledger.chains import SYSTEM
from dispatcher.ledger.shipping.rendering import render
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import audit, ledger
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Tx

SCHEMA: Final = "dispatcher.proof/1"


def leaf_hash(leaf: bytes) -> bytes:
    """Hash of a leaf of the tree."""
    return hashlib.sha256(b"\0" + leaf).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[str]:
    """Return the path of a leaf to the root, lowest first, in hex (RFC 9162, 2.1.3.1).

    Parameters
    ----------
    leaves : Sequence of bytes
    index : int
        0 <= index < number of leaves.
    """
    level = [leaf_hash(leaf) for leaf in leaves]
    path = []
    while len(level) > 1:
        mate = index ^ 1
        if mate < len(level):
            path.append(level[mate].hex())
        paired = [_node(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        if len(level) % 2:
            paired.append(level[-1])  # carried up: it has no sibling here
        level, index = paired, index // 2
    return path


def root_by_path(leaf: bytes, index: int, size: int, path: Sequence[str]) -> str | None:
    """Compute the root from a leaf and its path (RFC 9162, 2.1.3.2).

    Returns
    -------
    str or None
        None if the path's length does not fit the tree.
    """
    if not 0 <= index < size:
        return None
    number, last, root = index, size - 1, leaf_hash(leaf)
    for text in path:
        if last == 0:
            return None
        other = bytes.fromhex(text)
        if number % 2 or number == last:
            root = _node(other, root)
            while number and not number % 2:
                number, last = number // 2, last // 2
        else:
            root = _node(root, other)
        number, last = number // 2, last // 2
    return root.hex() if last == 0 else None


def prove(tx: Tx, entry_ids: Sequence[int], subject: str | None) -> dict[str, Any]:
    """Prove who was shown some entries, up to the last seal.

    Parameters
    ----------
    tx : Tx
        A read transaction.
    entry_ids : Sequence of int
    subject : str, optional
        Pseudonym of the person whose entries these are.

    Returns
    -------
    dict
        The document, for :func:`check`.

    Raises
    ------
    Conflict
        Nothing was sealed yet, or a showing is newer than the last seal.
    """
    places = audit.exposures_of(tx, entry_ids)
    every = ledger.all_chains(tx)
    sealed = {c.id: c for c in every if c.sealed_seq and c.id != SYSTEM_CHAIN}
    seal = audit.last_seal(tx)
    newer = sum(s > sealed[c].sealed_seq if c in sealed else 1 for c, s in places)
    if seal is None or newer:
        raise Conflict(
            f"{newer} showings are newer than the last seal",
            why="A proof leads to the root of a seal, and they are in none yet.",
            fix="Seal the ledger now: dispatcher ledger root --seal",
        )
    row, prev = seal
    leaves = {
        chain.name: f"{chain.name}:{audit.hash_at(tx, chain.id, chain.sealed_seq)}"
        for chain in sealed.values()
    } | {SYSTEM: f"{SYSTEM}:{prev}"}
    names = sorted(leaves)
    tree = [leaves[name].encode() for name in names]
    return {
        "schema": SCHEMA,
        **({"subject": subject} if subject else {}),
        "entries": audit.names_of(tx, entry_ids),
        "seal": _line(row, prev),
        "size": len(tree),
        "chains": [
            {
                "chain": sealed[number].name,
                "index": names.index(sealed[number].name),
                "path": inclusion_path(tree, names.index(sealed[number].name)),
                "lines": _rest(tx, sealed[number], min(mine)),
            }
            for number, mine in _by_chain(places).items()
        ],
    }


def _by_chain(places: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for chain, seq in sorted(places):
        found.setdefault(chain, []).append(seq)
    return found


def _line(row: audit.LineRow, prev: str) -> dict[str, Any]:
    return next(json.loads(text) for _, text, _ in render([row], SYSTEM, prev))


def _rest(tx: Tx, chain: ChainRow, first: int) -> list[dict[str, Any]]:
    """Return the lines of a chain from one to the last sealed one."""
    prev = audit.hash_at(tx, chain.id, first - 1) if first > 1 else NO_HASH
    assert prev is not None
    rows = audit.lines_up_to(tx, chain.id, chain.sealed_seq, after=first - 1)
    return [json.loads(text) for _, text, _ in render(rows, chain.name, prev)]


def check(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Check a proof without the store; return the showings that it proves.

    The root of the proof is ``document["seal"]["root"]``: compare it with a noted one.

    Raises
    ------
    Invalid
        The proof is invalid.
    """
    try:
        return _checked(document)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _no_proof("it is not of the form of a proof") from None


def _checked(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    if document["schema"] != SCHEMA:
        raise _no_proof("it is not of the form of a proof")
    seal = dict(document["seal"])
    own = seal.pop("hash")
    if seal["kind"] != "seal" or line_hash(seal["prev"], seal) != own:
        raise _no_proof("the seal's line does not have its hash")
    about, found = set(document["entries"]), []
    for part in document["chains"]:
        head = _follow(part["chain"], part["lines"])
        leaf = f"{part['chain']}:{head}".encode()
        root = root_by_path(leaf, part["index"], document["size"], part["path"])
        if root != seal["root"]:
            raise _no_proof(f"chain {part['chain']} does not lead to the seal's root")
        found += [
            line
            for line in part["lines"]
            if line["kind"] == "exposure" and line["entry"] in about
        ]
    return sorted(found, key=lambda line: (line["at"], line["chain"], line["seq"]))


def _follow(chain: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """Check that the lines are chained; return the last hash."""
    last: Mapping[str, Any] | None = None
    for line in lines:
        members = {name: value for name, value in line.items() if name != "hash"}
        if line["chain"] != chain or line_hash(line["prev"], members) != line["hash"]:
            raise _no_proof(f"a line of chain {chain} does not have its hash")
        if last is not None and (
            line["prev"] != last["hash"] or line["seq"] != last["seq"] + 1
        ):
            raise _no_proof(f"lines of chain {chain} do not follow each other")
        last = line
    if last is None:
        raise _no_proof(f"chain {chain} has no line")
    return str(last["hash"])


def _no_proof(why: str) -> Invalid:
    return Invalid(
        "the proof does not hold",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Ask for it again; do not rely on this one.",
    )
