"""Lines of the ledger that servers committed and that the leader has yet to ship.

The rows are written in the transaction of the lines themselves: whatever ends a server, the
leader finds them, and nobody shows what they are about before they are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import bindparam, delete
from sqlmodel import col, select

from dispatcher.model import UnshippedPiece
from dispatcher.store.statements import in_list, insert
from dispatcher.store.transaction import Piece, Tx

NO_LINE: Final = Piece("", 0, 0, "", 0, "", b"")
"""What a made-up question waits for: as much as a line, without one."""

_ADD: Final = insert(UnshippedPiece).values(
    id=bindparam("number"),
    chain=bindparam("of"),
    chain_id=bindparam("of_id"),
    first=bindparam("begins"),
    prev=bindparam("before"),
    last=bindparam("ends"),
    head=bindparam("own"),
    body=bindparam("text"),
)
_ALL: Final = select(UnshippedPiece).order_by(col(UnshippedPiece.id))
_FIRST: Final = _ALL.limit(bindparam("most"))
_OF_CHAIN: Final = _ALL.where(UnshippedPiece.chain_id == bindparam("of_id"))
_IDS: Final = select(UnshippedPiece.id)
_LEFT: Final = _IDS.where(in_list(UnshippedPiece.id, "numbers"))
_DONE: Final = delete(UnshippedPiece).where(in_list(UnshippedPiece.id, "numbers"))


def add(tx: Tx, pieces: Sequence[Piece]) -> range:
    """Have pieces shipped by the leader; return the numbers of their rows."""
    first = tx.reserve("unshipped_piece", len(pieces))
    numbers = range(first, first + len(pieces))
    for number, piece in zip(numbers, pieces, strict=True):
        tx.execute(
            _ADD,
            {
                "number": number,
                "of": piece.chain,
                "of_id": piece.chain_id,
                "begins": piece.first,
                "before": piece.prev,
                "ends": piece.last,
                "own": piece.head,
                "text": piece.text,
            },
        )
    return numbers


def waiting(
    tx: Tx, *, chain: int | None = None, most: int | None = None
) -> dict[int, Piece]:
    """Return what waits, by number: of one chain, the first so many, or all."""
    if chain is not None:
        found = tx.models(_OF_CHAIN, {"of_id": chain})
    else:
        found = tx.models(*((_ALL,) if most is None else (_FIRST, {"most": most})))
    return {
        row.id: Piece(
            row.chain, row.chain_id, row.first, row.prev, row.last, row.head, row.body
        )
        for row in found
    }


def left(tx: Tx, wanted: Collection[int]) -> set[int]:
    """Return which of some rows still wait."""
    return set(tx.scalars(_LEFT, {"numbers": list(wanted)}))


def done(tx: Tx, shipped: Collection[int]) -> None:
    """Delete the rows of pieces that were shipped."""
    tx.execute(_DONE, {"numbers": list(shipped)})
