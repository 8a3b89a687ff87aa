"""What a transaction hands on of the ledger's lines, so that they are kept twice.

The store knows only this: lines that a transaction appended are handed to a journal
after its commit and before :meth:`Store.write` returns. Whoever was given a journal's
word that all is settled may let bytes leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Piece(NamedTuple):
    """Consecutive lines of one chain, as they stand in evidence.

    ``text`` holds them whole, each with its LF; it is empty where the store has to be
    asked, since evidence keeps what the line is about in another file.
    """

    chain: str
    chain_id: int
    first: int
    prev: str
    last: int
    head: str
    text: bytes


class Journal(Protocol):
    """Keeps the ledger's lines outside of the store."""

    def ready(self) -> None:
        """Say that lines can be kept, before they are committed.

        Raises
        ------
        NotShipped, LedgerAhead, LedgerBroken, LedgerForeign
            They cannot: the transaction must not commit.
        """

    def begin(self) -> int:
        """Announce a commit with lines; return its ticket."""

    def ship(self, ticket: int, pieces: Sequence[Piece]) -> None:
        """Keep the lines of a commit; they are durable when this returns.

        Raises
        ------
        NotShipped
            They are in the store only: nothing of them may be shown yet.
        """

    def lose(self, ticket: int) -> None:
        """Note that a commit failed, or that nobody knows whether it did."""

    def works(self) -> bool:
        """Whether lines can be kept, by what is known without trying."""

    def settle(self, *, afresh: bool = False) -> None:
        """Wait until every line committed by now is kept.

        ``afresh`` compares with the whole store, as whoever begins to lead must: another
        process may have died between its commit and its lines.

        Raises
        ------
        NotShipped, LedgerAhead, LedgerBroken, LedgerForeign
        """
