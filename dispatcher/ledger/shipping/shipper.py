"""The shipping of an open store: lines are shipped after their commit, before use.

The order is: commit, then append and sync, then show. A crash in between leaves the
store with lines that the files lack; they are appended before anything else is shown.
Files with lines that the store lacks mean that the store was put back from an old
backup: it lacks exposures, and is refused until they have been replayed.

Commits that come while a sync is under way share the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dispatcher.core import keys
from dispatcher.core.canonical import NO_HASH
from dispatcher.core.errors import (
    DispatcherError,
    LedgerAhead,
    LedgerBroken,
    NotShipped,
    StoreUnreachable,
)
from dispatcher.ledger.shipping.rendering import shippable
from dispatcher.ledger.shipping.segments import (
    SEGMENT_BYTES,
    Segments,
    check_writable,
    read_end,
    unwritable,
)
from dispatcher.store import Store, audit, lease, ledger, unshipped
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Piece, Tx

CHUNK: Final = 4_000_000
"""Characters appended at once when missing lines are shipped, about."""

TOGETHER: Final = 500
"""Rows of servers that are shipped at once, at most."""

WAIT_SECONDS: Final = 30.0
"""How long :meth:`Shipper.settle` waits for commits of other threads."""


def store_id(store: Store) -> str:
    """Return a store's id: the same for all its copies, and opaque."""
    return keys.pseudonym(store.key("pseudonym-key"), "i", "store")


def attach(store: Store, folder: Path, *, limit: int = SEGMENT_BYTES) -> Shipper:
    """Ship the ledger of an open store to a folder from now on."""
    shipper = Shipper(store, folder, limit=limit)
    store.attach(shipper)
    return shipper


@dataclass(eq=False)
class _Job:
    """Lines of one commit that wait to be shipped."""

    ticket: int
    pieces: Sequence[Piece]
    done: bool = False
    error: DispatcherError | None = None


class Shipper:
    """Keeps the ledger of a store in files (see the module's docstring).

    Parameters
    ----------
    store : Store
    folder : Path
    limit : int
        Bytes after which the next file is begun.
    """

    def __init__(
        self, store: Store, folder: Path, *, limit: int = SEGMENT_BYTES
    ) -> None:
        self.segments = Segments(folder, store_id(store), limit=limit)
        self._store = store
        self._turn = threading.Condition()
        self._files = threading.Lock()
        self._queue: list[_Job] = []
        self._leading = False
        self._tickets = 0
        self._open: set[int] = set()
        self._known = False  # the files and the store were compared, and agree

    # -- the journal ---------------------------------------------------------------

    def ready(self) -> None:
        """Compare files and store, unless that succeeded before."""
        if not self._known:
            self.reconcile()

    def begin(self, tx: Tx | None = None) -> int:
        """Announce a commit; return its ticket."""
        del tx  # this process ships its lines itself
        with self._turn:
            self._tickets += 1
            self._open.add(self._tickets)
            return self._tickets

    def ship(self, ticket: int, pieces: Sequence[Piece]) -> None:
        """Append the lines of a commit, together with others that wait."""
        job = _Job(ticket, pieces)
        with self._turn:
            self._queue.append(job)
            while self._leading and not job.done:
                self._turn.wait()
            if not job.done:
                self._leading = True
                batch, self._queue = self._queue, []
        if not job.done:
            self._lead(batch)
        if job.error is not None:
            raise job.error

    def lose(self, ticket: int) -> None:
        """Read the store before the next line: the commit may have succeeded."""
        with self._turn:
            self._known = False
            self._open.discard(ticket)
            self._turn.notify_all()

    def works(self) -> bool:
        """Whether files and store agreed when they last met, and can still be written."""
        try:
            check_writable(self.segments.folder)
        except NotShipped:
            return False
        return self._known

    def settle(
        self, tx: Tx | None = None, chain: int | None = None, *, afresh: bool = False
    ) -> None:
        """Wait for commits in progress; repair what failed."""
        with self._turn:
            mine = [ticket for ticket in self._open if ticket <= self._tickets]
            if mine and not self._turn.wait_for(
                lambda: self._open.isdisjoint(mine), WAIT_SECONDS
            ):
                raise _slow(self.segments.folder)
        if afresh or not self._known:
            self.reconcile()
        elif self._store.is_served_by_many:
            with nullcontext(tx) if tx is not None else self._store.read() as reading:
                theirs = unshipped.waiting(reading, chain=chain)
            if theirs:  # what a server booked a moment ago is shown by this process
                self.ship(self.begin(), _lines(theirs))

    def ship_waiting(self, epoch: int) -> int:
        """Ship what servers wait for, together with what is booked here."""
        with self._store.read() as tx:
            waiting = unshipped.waiting(tx, most=TOGETHER)
        if waiting:
            self.ready()
            self.ship(self.begin(), _lines(waiting))
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)
                unshipped.done(tx, waiting)
        return len(waiting)

    # -- group commit --------------------------------------------------------------

    def _lead(self, batch: Sequence[_Job]) -> None:
        """Append the waiting lines, and notify the waiting threads."""
        error: DispatcherError | None = None
        finished = False
        try:
            self._append([piece for job in batch for piece in job.pieces])
            finished = True
        except DispatcherError as fault:
            error = fault
        finally:
            with self._turn:
                if not finished:
                    self._known = False
                for job in batch:
                    job.done = True
                    job.error = error or (
                        None if finished else _slow(self.segments.folder)
                    )
                    self._open.discard(job.ticket)
                self._leading = False
                self._turn.notify_all()

    def _append(self, pieces: list[Piece]) -> None:
        pieces.sort(key=lambda piece: piece.first)  # each chain in order
        with self._files, self.segments.locked():
            if not pieces:
                self.segments.pad()
            heads: dict[str, tuple[int, str]] = {}
            parts: list[bytes] = []
            for piece in pieces:
                seq, head = heads.get(piece.chain) or self.segments.head(piece.chain)
                if piece.last <= seq:
                    if piece.last == seq and piece.head != head:
                        raise parted(piece.chain, seq)
                    continue  # another thread that read the store has shipped it
                if piece.first != seq + 1 or not piece.text:
                    # It is read from the store: together with the lines of a commit
                    # that is not here yet, or with its attachments.
                    self._flush(parts, heads)
                    self._catch_up_to(piece)
                    continue
                if piece.prev != head:
                    raise parted(piece.chain, seq)
                parts.append(piece.text)
                heads[piece.chain] = (piece.last, piece.head)
            self._flush(parts, heads)

    def _flush(self, parts: list[bytes], heads: dict[str, tuple[int, str]]) -> None:
        if parts:
            self.segments.append(b"".join(parts), heads)
            parts.clear()
            heads.clear()

    # -- recovery ------------------------------------------------------------------

    def reconcile(self) -> None:
        """Append all lines that only the store has.

        Raises
        ------
        LedgerAhead
            The files have lines that the store lacks, or others than the store.
        NotShipped, LedgerForeign, LedgerBroken
        """
        with self._files, self.segments.locked():
            # The store is read after the files: each line there was committed before.
            with self._store.read() as tx:
                chains = ledger.all_chains(tx)
                refuse_forgotten(tx, chains, self.segments.heads)
                for chain in chains:
                    self._catch_up(tx, chain)
            self._known = True

    def _catch_up_to(self, piece: Piece) -> None:
        with self._store.read() as tx:
            chain = next(
                (c for c in ledger.all_chains(tx) if c.id == piece.chain_id), None
            )
            if chain is None or chain.seq < piece.last:
                raise StoreUnreachable(
                    "the store does not have what it committed",
                    why=f"Line {piece.last} of chain {piece.chain} is not there.",
                    fix="Look at the database server: did it fail over to a standby?",
                )
            self._catch_up(tx, chain)

    def _catch_up(self, tx: Tx, chain: ChainRow) -> None:
        seq, prev = self.segments.head(chain.name)
        if seq >= chain.seq:
            return
        parts: list[str] = []
        size = 0
        lines = shippable(
            tx,
            chain.id,
            chain.name,
            after=seq,
            prev=prev,
            last=chain.seq,
        )
        for text, number, own in lines:
            parts.append(text)
            size += len(text)
            if size >= CHUNK or number == chain.seq:
                self.segments.append(
                    "".join(parts).encode(), {chain.name: (number, own)}
                )
                parts.clear()
                size = 0
        if self.segments.head(chain.name) != (chain.seq, chain.head):
            raise LedgerBroken(
                f"chain {chain.name} of the store has a gap",
                why=f"Its last line is {chain.seq}, but not all before it are there.",
                fix="Somebody changed the store by hand. Restore a backup and replay "
                "the shipped ledger: dispatcher backup restore BACKUP --replay-ledger",
            )


def _lines(waiting: Mapping[int, Piece]) -> list[Piece]:
    """Return the pieces of servers that have a line: a made-up question has none."""
    return [piece for piece in waiting.values() if piece.chain]


def refuse_forgotten(
    tx: Tx, chains: Sequence[ChainRow], shipped: Mapping[str, tuple[int, str]]
) -> None:
    """Refuse a store that lacks lines which were shipped.

    Raises
    ------
    LedgerAhead
    """
    known = {chain.name: chain for chain in chains}
    lines = touched = 0
    for name, (seq, head) in shipped.items():
        chain = known.get(name)
        have = chain.seq if chain is not None else 0
        if have < seq:
            lines += seq - have
            touched += 1
        elif chain is not None and seq:
            own = audit.hash_at(tx, chain.id, seq)
            if own != head:
                raise parted(name, seq)
    if lines:
        raise LedgerAhead(
            f"the store lacks {lines:,} lines that its shipped ledger has",
            why=f"They are of {touched:,} chains. The store was put back from an older "
            "state, and would show again what it has forgotten to have shown.",
            fix="Book them into it: dispatcher ledger replay; or restore a newer backup: "
            "dispatcher backup restore BACKUP --to STORE --replay-ledger",
            facts={"lines": lines, "chains": touched},
        )


def parted(chain: str, seq: int) -> LedgerAhead:
    """Return the error for a store and files that diverge."""
    return LedgerAhead(
        f"the store and its shipped ledger part ways at line {seq} of chain {chain}",
        why="Two copies of one store were used side by side, each showing what the "
        "other does not know of; or one of the two was changed by hand.",
        fix="Stop both. Keep the store that the shipped ledger is of; see which: "
        "dispatcher ledger verify",
        facts={"chain": chain, "seq": seq},
    )


def _slow(folder: Path) -> NotShipped:
    return NotShipped(
        f"the ledger is not shipped to {folder} in time",
        why="The disk there answers too slowly, or an append was interrupted.",
        fix="Look at that disk; it goes on by itself.",
    )


# -- status: writes nothing, and reads only the last file ------------------------------


@dataclass(frozen=True)
class FilesState:
    """State of the files relative to the store.

    Attributes
    ----------
    files : int
    behind : int
        Lines that the store has and the files lack; some may be in transit.
    """

    files: int
    behind: int


def look(store: Store, folder: Path) -> FilesState:
    """Compare the end of a shipped ledger with the store.

    ``audit verify`` checks the whole of it.

    Raises
    ------
    NotShipped
        The folder cannot be read or written by this user.
    LedgerForeign, LedgerBroken, LedgerAhead
        It is another store's, it has a gap, or the store lacks lines that it has.
    """
    check_writable(folder)
    try:
        files, heads = read_end(folder, store_id(store))
    except OSError as error:
        raise unwritable(folder, error) from None
    # The store is read after the files: each line there was committed before.
    with store.read() as tx:
        chains = ledger.all_chains(tx)
        refuse_forgotten(tx, chains, heads)
    behind = sum(c.seq - heads.get(c.name, (0, NO_HASH))[0] for c in chains)
    return FilesState(files, behind)
