"""Ids in blocks, and the random keys of a store.

On SQLite a block is reserved inside the transaction that uses it. On PostgreSQL the
row of ``id_block`` would then be locked until the commit, and every booking would wait
for every other; so blocks are taken aside, in a transaction of their own, and small
requests share one.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from dispatcher.store.sql import Value
from dispatcher.store.transaction import Tx

SMALL: Final = 128
"""Requests below this share a block of this many ids (PostgreSQL)."""

_RESERVE: Final = (
    "INSERT INTO id_block (name, next_id) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE"
    " SET next_id = id_block.next_id + excluded.next_id - 1"
    " RETURNING next_id"
)

Aside = Callable[[str, Sequence[Value]], int]
"""Runs a statement in a transaction of its own; returns the first value."""


class IdBlocks:
    """Hands out ids of each table.

    Parameters
    ----------
    aside : Aside, optional
        How to reserve outside the caller's transaction; None to do it inside.
    """

    def __init__(self, aside: Aside | None) -> None:
        self._aside = aside
        self._lock = threading.Lock()
        self._open: dict[str, tuple[int, int]] = {}

    def reserve(self, tx: Tx, name: str, count: int) -> int:
        """First of ``count`` consecutive ids that nobody else has.

        Raises
        ------
        ValueError
            ``count`` is below 1.
        """
        if count < 1:
            message = f"reserve of {count} ids, expected >= 1"
            raise ValueError(message)
        if self._aside is None:
            return int(tx.value(_RESERVE, [name, count + 1])) - count
        if count >= SMALL:
            return self._aside(_RESERVE, [name, count + 1]) - count
        with self._lock:
            first, end = self._open.get(name, (0, 0))
            if end - first < count:
                end = self._aside(_RESERVE, [name, SMALL + 1])
                first = end - SMALL
            self._open[name] = (first + count, end)
            return first
