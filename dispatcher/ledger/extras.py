"""Extra showings: an entry that was shown t times without an answer gets some more."""

from __future__ import annotations

from dispatcher.core.errors import Usage
from dispatcher.core.keys import entry_name
from dispatcher.ledger import chains, refusals
from dispatcher.store import burning, ledger
from dispatcher.store.transaction import Tx


def unburn(tx: Tx, entry_id: int, *, extra: int, because: str, at: int) -> None:
    """Let an entry be shown to more adversaries than t says; the ledger keeps why.

    An entry in conflict is open again: its answers are counted anew with what may come.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    entry_id : int
    extra : int
        How many more, >= 1; it adds to what was granted before.
    because : str
        The reason, for the auditor: not empty, and no field value.
    at : int
        Now.

    Raises
    ------
    NotFound
        There is no such entry.
    Usage
        ``extra`` is below 1, or there is no reason.
    """
    if extra < 1 or not because.strip():
        raise Usage(
            "extra showings need a number of at least 1 and a reason",
            why="The grant is a line of the ledger that auditors read.",
            fix='Give both, like: --extra-showings 2 --reason "two tasks came back"',
        )
    ledger.hold_barrier(tx)
    system = chains.lock_system(tx)
    entry = next(ledger.entries(tx, [entry_id]), None)
    if entry is None:
        raise refusals.unknown("entry", entry_id)
    name = entry_name(entry.record, entry.field_id)
    body = {"entry": name, "extra": extra, "because": because.strip()}
    chains.append(tx, system, "unburn", body, at=at, entry_id=entry_id)
    burning.reopen(tx, entry_id)
    burning.note_granted(tx)
