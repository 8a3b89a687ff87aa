"""A look at a shipped ledger that writes nothing and reads its last file alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dispatcher.ledger.lines import NO_HASH
from dispatcher.ledger.shipping.segments import check_writable, read_end, unwritable
from dispatcher.ledger.shipping.shipper import refuse_forgotten, store_id
from dispatcher.store import Store, ledger


@dataclass(frozen=True)
class Seen:
    """How the files stand beside the store.

    Attributes
    ----------
    files : int
    behind : int
        Lines that the store has and the files lack; some may be on their way.
    """

    files: int
    behind: int


def look(store: Store, folder: Path) -> Seen:
    """Compare the end of a shipped ledger with the store.

    The whole of it is checked by ``ledger check``.

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
    return Seen(files, behind)
