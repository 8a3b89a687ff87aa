"""Ids in blocks, and the random keys of a store.

On SQLite a block is reserved inside the transaction that uses it. On PostgreSQL the
row of ``id_block`` would then be locked until the commit, and every booking would wait
for every other; so blocks are taken aside, in a transaction of their own, and small
requests share one.
"""

import threading
from collections.abc import Callable
from typing import Final

from sqlalchemy import bindparam
from sqlmodel import col

from dispatcher.model import IdBlock
from dispatcher.store.statements import DriverStatement, Parameters, insert
from dispatcher.store.transaction import Tx

SMALL: Final = 128
"""Requests below this share a block of this many ids (PostgreSQL)."""


def _reservation() -> DriverStatement:
    new = insert(IdBlock).values(name=bindparam("table"), next_id=bindparam("ids"))
    following = col(IdBlock.next_id) + new.excluded.next_id - 1
    return DriverStatement(
        new.on_conflict_do_update(
            index_elements=["name"], set_={"next_id": following}
        ).returning(col(IdBlock.next_id))
    )


_RESERVE: Final = _reservation()

Aside = Callable[[DriverStatement, Parameters], int]
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
            return int(tx.driver_value(_RESERVE, _asked(name, count))) - count
        if count >= SMALL:
            return self._aside(_RESERVE, _asked(name, count)) - count
        with self._lock:
            first, end = self._open.get(name, (0, 0))
            if end - first < count:
                end = self._aside(_RESERVE, _asked(name, SMALL))
                first = end - SMALL
            self._open[name] = (first + count, end)
            return first


def _asked(name: str, count: int) -> Parameters:
    return {"table": name, "ids": count + 1}
