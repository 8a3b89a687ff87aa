"""The ledger: verify, seal and export it; make and check proofs."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dispatcher.core import keys
from dispatcher.core.errors import Conflict, DispatcherError, Invalid, NotFound
from dispatcher.custody import erasure_list, evidence
from dispatcher.custody.evidence import Bundle, VerifierResult
from dispatcher.custody.in_place_recovery import Recovered, replay_in_place
from dispatcher.ledger import chains, comparison, proofs
from dispatcher.ledger.comparison import Difference
from dispatcher.ledger.shipping import checking, store_id
from dispatcher.ledger.shipping.anchors import anchored
from dispatcher.ledger.shipping.checking import store_lines
from dispatcher.operations.fields import find_entry
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, Tx, audit, audit_log, events, settings

FOLLOW_SECONDS: Final = 0.3
"""Time between two checks for new lines."""


PROOF: Final = proofs.SCHEMA
"""What a proof says first, of itself."""


@dataclass(frozen=True)
class SealRoot:
    """The root of a seal: whoever notes it down detects any later rewrite.

    Attributes
    ----------
    root : str
        64 hex digits.
    seq, at : int
        Number and time of the seal.
    """

    root: str
    seq: int
    at: int


@dataclass(frozen=True)
class EventLine:
    """An event: ids and numbers, and reasons that were given; no value.

    Attributes
    ----------
    id, at : int
    actor : str
        Who did it: an operator, ``account:ID`` for a worker, or a part of the daemon.
    action : str
    detail : Mapping
    """

    id: int
    at: int
    actor: str
    action: str
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class ExposureProof:
    """A proof of who saw what, and the showings in it.

    Attributes
    ----------
    document : dict
        The content of its file.
    showings : list of dict
    """

    document: dict[str, Any]
    showings: list[dict[str, Any]]

    @property
    def root(self) -> str:
        """Root of the seal that it leads to."""
        return str(self.document["seal"]["root"])


@dataclass(frozen=True)
class Verification:
    """Result of checking every line and seal.

    Attributes
    ----------
    lines, chains, seals : int
        Of the store.
    root : str or None
        Of the last seal.
    shipped : int or None
        Lines of the shipped ledger; None: nothing is shipped.
    noted : int
        Number of earlier noted roots that were searched for.
    missing : tuple of str
        Those that are not in it: this ledger is not the one it was.
    edited : tuple of Difference
        Differences between the tables that the gate trusts and the ledger.
    forgotten : int
        Chains of the shipped ledger that go further than the store.
    acts : int
        Lines of the audit log, which follow from each other too.
    """

    lines: int
    chains: int
    seals: int
    root: str | None
    shipped: int | None
    noted: int
    missing: tuple[str, ...]
    edited: tuple[Difference, ...]
    forgotten: int
    acts: int

    @property
    def holds(self) -> bool:
        """Whether nothing is missing, forgotten or edited."""
        return not (self.missing or self.edited or self.forgotten)

    def raise_if_edited(self) -> None:
        """Refuse a store whose rows differ from its ledger.

        Raises
        ------
        StoreEdited
        """
        if self.edited:
            raise comparison.edited(list(self.edited))


def verify(
    workspace: Workspace, store: Store, heads: Sequence[str] = ()
) -> Verification:
    """Check every line and seal, in the store and as shipped, and that both agree.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    heads : sequence of str
        Roots of seals that were noted earlier: they must be in it.

    Raises
    ------
    StoreEdited
        Columns that no line explains were edited.
    LedgerBroken, LedgerForeign, LedgerAhead
    """
    with store.read() as tx:
        edited = comparison.compare(tx).differences
    if not all(one.of_lines for one in edited):
        raise comparison.edited(edited)  # before any other finding about the ledger
    owner = store_id(store)
    files = None
    if workspace.shipped is not None and workspace.shipped.is_dir():
        store.settle(afresh=True)
        files = checking.check_files(workspace.shipped, store=owner)
    with store.read() as tx:
        found = checking.check_store(tx)
        acts = audit_log.check_chain(tx)
        behind = checking.compare(tx, files) if files is not None else []
    noted = list(heads)
    if workspace.anchor is not None:
        noted += anchored(workspace.anchor, owner=owner)
    # Lines may have been added between the two reads: the store has them first.
    verification = Verification(
        lines=found.lines,
        chains=found.chains,
        seals=found.seals,
        root=found.root,
        shipped=None if files is None else files.lines,
        noted=len(noted),
        missing=tuple(checking.missing_roots(found, noted)),
        edited=tuple(edited),
        forgotten=sum(seq > have for _, have, seq in behind),
        acts=acts,
    )
    if verification.holds:
        with suppress(DispatcherError), store.write() as tx:  # it may be read-only
            settings.note_moment(tx, settings.LEDGER_VERIFIED, workspace.clock())
    return verification


def replay(workspace: Workspace, store: Store) -> Recovered:
    """Book lines that a store lacks from its shipped ledger, in place."""
    folder = shipped_folder(workspace)
    return replay_in_place(
        store,
        folder,
        clock=workspace.clock,
        lists=erasure_list.places(workspace.directory, folder),
        anchor=workspace.anchor,
    )


def last_lines(folder: Path, number: int) -> tuple[list[str], Iterator[str]]:
    """Return the last lines of a shipped ledger, and an endless stream of new ones.

    Parameters
    ----------
    folder : Path
    number : int
        Most lines to return.
    """
    source = _shipped(folder)
    last: deque[str] = deque(maxlen=number)
    for text in source:
        if text is None:
            break
        last.append(text)
    return list(last), (text for text in source if text is not None)


def _shipped(folder: Path) -> Iterator[str | None]:
    """Yield lines of the ledger; None once, after all existing ones."""
    number, offset, paused = 1, 0, False
    while True:
        path = folder / f"ledger-{number:06d}.jsonl"
        if path.is_file():
            with path.open("rb") as file:
                file.seek(offset)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        break  # still being written
                    head = offset == 0
                    offset += len(raw)
                    if not head and not raw.startswith(b'{"attached"'):
                        yield raw.decode()
        if (folder / f"ledger-{number + 1:06d}.jsonl").is_file():
            number, offset = number + 1, 0
            continue
        if not paused:
            paused = True
            yield None
        time.sleep(FOLLOW_SECONDS)


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
    """Yield the whole ledger of the store as JSON lines in the evidence format."""
    return store_lines(store)


def last_root(workspace: Workspace, store: Store, *, seal: bool = False) -> SealRoot:
    """Return the root of the last seal; ``seal``: seal newer lines first.

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
        found = audit.last_seal(tx)
    if found is None:
        raise Conflict(
            "nothing was sealed yet",
            why="A daemon seals once a minute; this store had none yet.",
            fix="Seal it now: dispatcher ledger root --seal",
        )
    row, _ = found
    return SealRoot(str(json.loads(row.body or "{}")["root"]), row.seq, row.at)


def prove(store: Store, about: str) -> ExposureProof:
    """Prove who saw a field (RECORD.FIELD) or anything of a person (by pseudonym).

    Raises
    ------
    NotFound
        There is no such field or person.
    """
    with store.read() as tx:
        entry_ids = audit.entries_of_subject(tx, about)
        if entry_ids is None:
            return _proof(tx, [find_entry(store, tx, about)], None)
        return _proof(tx, entry_ids, about)


def prove_subject(store: Store, key: str) -> ExposureProof:
    """Prove who saw anything of a person, by the person's own key.

    Raises
    ------
    NotFound
        There is no such person.
    """
    subject = keys.pseudonym(store.key("pseudonym-key"), "s", key)
    with store.read() as tx:
        entry_ids = audit.entries_of_subject(tx, subject)
        if entry_ids is None:
            raise NotFound(
                "there is no such person in the store",
                why="No record with that subject was loaded.",
                fix="Give the key as it is in the loaded file, without a line end.",
            )
        return _proof(tx, entry_ids, subject)


def check_proof(document: object, roots: Sequence[str] = ()) -> ExposureProof:
    """Check a proof; needs no store.

    Parameters
    ----------
    document : object
        As read from JSON.
    roots : sequence of str
        Roots that were noted earlier; if any are given, it must lead to one of them.

    Raises
    ------
    Invalid
        It is invalid, or leads to another root.
    """
    found = document if isinstance(document, dict) else {}
    proof = ExposureProof(found, proofs.check(found))
    if roots and proof.root not in [one.lower() for one in roots]:
        raise Invalid(
            "the proof leads to another root",
            why=f"It holds under {proof.root}, which is none of those given.",
            fix="Give the root of the seal that it was made for, or ask for it again.",
        )
    return proof


def _proof(tx: Tx, entry_ids: Sequence[int], subject: str | None) -> ExposureProof:
    document = proofs.prove(tx, list(entry_ids), subject)
    return ExposureProof(document, proofs.check(document))


def export_evidence(workspace: Workspace, store: Store, directory: Path) -> Bundle:
    """Write a seal and the evidence bundle: ids, facts and lines, no field value."""
    bundle = evidence.export(store, directory, clock=workspace.clock)
    workspace.anchor_roots(store)
    return bundle


def verify_evidence(directory: Path, heads: Sequence[str] = ()) -> VerifierResult:
    """Check a bundle with the verifier, in a separate process."""
    return evidence.verify(directory, heads=heads)


def list_events(
    store: Store,
    *,
    actor: str | None = None,
    action: str | None = None,
    limit: int = 100,
    before: int = 2**63 - 1,
) -> list[EventLine]:
    """Return what was done and by whom, the newest first, below a number."""
    with store.read() as tx:
        return [
            EventLine(row.id, row.at, row.actor, row.action, json.loads(row.detail))
            for row in events.newest(tx, actor, action, limit, before)
        ]
