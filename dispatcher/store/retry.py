"""Repeating a whole transaction where that is safe: nothing of it was kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from dispatcher.store.driver_errors import Contended, NotKept
from dispatcher.store.engine import Store
from dispatcher.store.transaction import Tx

ATTEMPTS: Final = 6
FIRST_PAUSE: Final = 0.01
"""Seconds before the second attempt; each further pause is twice as long."""

Result = TypeVar("Result")


def committed(store: Store, work: Callable[[Tx], Result]) -> Result:
    """Do work in a write transaction, once: repeat it whole if nothing of it was kept.

    That is when the database ended it in favour of another one (serialisation failure,
    deadlock), or when the connection broke and the store, asked, says that it was not
    committed. Where the store cannot be asked the error goes on: nothing is repeated
    blindly.

    Parameters
    ----------
    store : Store
    work : callable
        Has no effect but through its transaction, so that it may run again.

    Raises
    ------
    StoreLocked, StoreUnreachable
        It could not be done within ``ATTEMPTS``, or its outcome is unknown.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            with store.write() as tx:
                return work(tx)
        except (Contended, NotKept):
            # Two that met once are kept from meeting again.
            spread = 1 + threading.get_native_id() % 8 / 8
            threading.Event().wait(FIRST_PAUSE * 2**attempt * spread)
    with store.write() as tx:
        return work(tx)
