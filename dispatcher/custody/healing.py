"""A store that was put back from an older state learns what it has forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dispatcher.custody import erasures
from dispatcher.custody.erased_again import keep_erased
from dispatcher.custody.means import Means
from dispatcher.errors import AnotherLeads
from dispatcher.ledger.replaying import replay
from dispatcher.ledger.shipping import shipped_lines, store_id
from dispatcher.store import Clock, Store, lease, pause
from dispatcher.store import replaying as rows
from dispatcher.store.dumping import make_ready

DOUBT: Final = (
    "restored: blocks, pauses and links revoked since the backup are in no ledger;"
    " repeat them, then resume"
)


def in_doubt(store: Store, listed: Path | None, clock: Clock) -> int:
    """Keep out what was erased, and hold back what nobody knows of any more.

    Blocks of workers, pauses and links revoked since are in no ledger: so all is paused
    until somebody has looked, and every worker needs a new link.

    Returns
    -------
    int
        People and records that were erased again.
    """
    erased = 0
    if listed is not None:
        means = Means(store, {}, clock, rewrite=_nothing)
        erased = keep_erased(means, erasures.read(listed))
    with store.write() as tx:
        pause.pause(tx, pause.ALL, DOUBT, clock())
        rows.revoke_links(tx)
    return erased


def _nothing(run: str, path: Path) -> None:
    """Write no export: they are renewed by the store that takes its place."""


def replay_in_place(
    store: Store, shipped: Path, *, clock: Clock, listed: Path | None = None
) -> int:
    """Book the lines that a store lacks from its shipped ledger, where it stands.

    For a store that was put back by other means than :func:`restore`; ``listed`` is
    the list of what was erased. If there is anything to book all is paused, as after a
    restore.

    Returns
    -------
    int
        Lines booked.

    Raises
    ------
    AnotherLeads
        A daemon leads the store.
    LedgerForeign, LedgerBroken
    """
    refuse_led(store, clock)
    with store.write() as tx:
        make_ready(tx, clock())
        lines = shipped_lines(shipped, store=store_id(store))
        booked = replay(tx, lines, at=clock(), key=store.key("pseudonym-key"))
    if booked:
        in_doubt(store, listed, clock)
    store.settle(afresh=True)
    return booked


def refuse_led(store: Store, clock: Clock) -> None:
    """Refuse a store that a daemon leads.

    Raises
    ------
    AnotherLeads
    """
    with store.read() as tx:
        holder = lease.holder(tx, lease.SHARD)
    if holder is not None and holder.leased_until > clock():
        raise AnotherLeads(
            f"a daemon leads the store at {store.place}",
            why=f"{holder.holder.partition('/')[0]} holds its lease.",
            fix="Stop it first: dispatcher down; a lease ends by itself within seconds.",
        )
