"""The ledger: sealed, exported, proven from, and proofs checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.core import keys
from dispatcher.core.errors import Conflict, Invalid, NotFound
from dispatcher.ledger import chains, proofs
from dispatcher.ledger.shipping.checking import store_lines
from dispatcher.operations.fields import find_entry
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, Tx, proving


@dataclass(frozen=True)
class Root:
    """The root of a seal: who notes it down sees any later rewrite.

    Attributes
    ----------
    root : str
        64 hex digits.
    seq, at : int
        Number and moment of the seal.
    """

    root: str
    seq: int
    at: int


@dataclass(frozen=True)
class Proof:
    """A proof of who saw what, and the showings in it.

    Attributes
    ----------
    document : dict
        As it is written to a file.
    showings : list of dict
    """

    document: dict[str, Any]
    showings: list[dict[str, Any]]

    @property
    def root(self) -> str:
        """Root of the seal under which it holds."""
        return str(self.document["seal"]["root"])


def shipped_folder(workspace: Workspace) -> Path:
    """Folder of the shipped ledger.

    Raises
    ------
    NotFound
        There is none.
    """
    folder = workspace.shipped
    if folder is None or not folder.is_dir():
        raise NotFound(
            "there is no shipped ledger here",
            why="Nothing was shipped yet, or [ledger] ship is empty.",
            fix="See what the store has: dispatcher ledger export",
        )
    return folder


def export(store: Store) -> Iterable[str]:
    """The whole ledger of the store as JSON lines, as in evidence."""
    return store_lines(store)


def last_root(workspace: Workspace, store: Store, *, seal: bool = False) -> Root:
    """Root of the last seal; ``seal``: of what was written since, too.

    Raises
    ------
    Conflict
        Nothing was sealed yet.
    """
    if seal:
        with store.write() as tx:
            chains.seal(tx, at=workspace.clock())
    workspace.anchor_roots(store)
    with store.read() as tx:
        found = proving.last_seal(tx)
    if found is None:
        raise Conflict(
            "nothing was sealed yet",
            why="A daemon seals once a minute; this store had none yet.",
            fix="Seal it now: dispatcher ledger root --seal",
        )
    row, _ = found
    return Root(str(json.loads(row.body or "{}")["root"]), row.seq, row.at)


def prove(store: Store, about: str) -> Proof:
    """Say who saw a field (RECORD.FIELD) or anything of a person (their pseudonym).

    Raises
    ------
    NotFound
        There is no such field or person.
    """
    with store.read() as tx:
        entry_ids = proving.entries_of_subject(tx, about)
        if entry_ids is None:
            return _proof(tx, [find_entry(store, tx, about)], None)
        return _proof(tx, entry_ids, about)


def prove_subject(store: Store, key: str) -> Proof:
    """Say who saw anything of a person, by the person's own key.

    Raises
    ------
    NotFound
        There is no such person.
    """
    subject = keys.pseudonym(store.key("pseudonym-key"), "s", key)
    with store.read() as tx:
        entry_ids = proving.entries_of_subject(tx, subject)
        if entry_ids is None:
            raise NotFound(
                "there is no such person in the store",
                why="No record with that subject was loaded.",
                fix="Give the key as it stands in the loaded file, without a line end.",
            )
        return _proof(tx, entry_ids, subject)


def check_proof(document: object, roots: Sequence[str] = ()) -> Proof:
    """Check a proof by itself; no store is asked.

    Parameters
    ----------
    document : object
        As read from JSON.
    roots : sequence of str
        Roots that were noted earlier; if any are given, it must lead to one of them.

    Raises
    ------
    Invalid
        It does not hold, or leads to another root.
    """
    found = document if isinstance(document, dict) else {}
    proof = Proof(found, proofs.check(found))
    if roots and proof.root not in [one.lower() for one in roots]:
        raise Invalid(
            "the proof leads to another root",
            why=f"It holds under {proof.root}, which is none of those given.",
            fix="Give the root of the seal that it was made for, or ask for it again.",
        )
    return proof


def _proof(tx: Tx, entry_ids: Sequence[int], subject: str | None) -> Proof:
    document = proofs.prove(tx, list(entry_ids), subject)
    return Proof(document, proofs.check(document))
