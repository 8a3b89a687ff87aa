"""Recovery in place: a store put back to an older state replays its shipped ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dispatcher.core.errors import AnotherLeads
from dispatcher.core.plurals import count
from dispatcher.custody import erasure_list
from dispatcher.custody.erasure import ErasureContext, any_back, keep_erased
from dispatcher.custody.erasure_list import ErasureList
from dispatcher.ledger.recovery import replay
from dispatcher.ledger.shipping import shipped_lines, store_id
from dispatcher.ledger.shipping.anchors import anchored, refuse_unsealed
from dispatcher.store import Clock, Store, accounts, lease, pause
from dispatcher.store.dumping import make_ready
from dispatcher.store.transaction import Tx

DOUBT: Final = (
    "restored: blocks, pauses and links revoked since the backup are in no ledger;"
    " repeat them, then resume"
)


@dataclass(frozen=True)
class Recovered:
    """Summary of a recovery.

    Attributes
    ----------
    lines : int
        Lines booked.
    erased : int
        People and records that were back and were erased again.
    listed : bool
        Whether there is a list of erasures.
    """

    lines: int
    erased: int
    listed: bool


def keep_out(store: Store, listed: ErasureList, clock: Clock) -> int:
    """Repeat listed erasures; return how many people and records were back."""
    context = ErasureContext(store, {}, clock, rewrite=_nothing, actor="restore")
    return keep_erased(context, listed)


def hold(tx: Tx, at: int) -> None:
    """Pause everything and revoke all links, since their state was lost.

    Blocks of workers, pauses and revoked links are in no ledger: so all is paused until
    somebody has looked, and every worker needs a new link.
    """
    pause.pause(tx, pause.ALL, DOUBT, at)
    accounts.revoke_invites(tx)


def _nothing(run: str, path: Path) -> None:
    """Write no export: the store that takes its place rewrites them."""


def replay_in_place(
    store: Store,
    shipped: Path,
    *,
    clock: Clock,
    lists: Sequence[Path] = (),
    anchor: Path | None = None,
) -> Recovered:
    """Book the lines that a store lacks from its shipped ledger, in place.

    For a store that was put back by other means than :func:`restore`; ``lists`` say
    what was erased. If there is anything to book, or somebody to erase again, all is
    paused, as after a restore.

    Raises
    ------
    AnotherLeads
        A daemon leads the store.
    LedgerForeign, LedgerBroken
    LedgerAhead
        Roots of ``anchor`` are not in it even so: nothing was booked.
    """
    refuse_led(store, clock)
    owner = store_id(store)
    known = {} if anchor is None else anchored(anchor, owner=owner)
    listed = erasure_list.read(*lists)
    with store.write() as tx:
        make_ready(tx, clock())
        lines = shipped_lines(shipped, store=owner)
        booked = replay(tx, lines, at=clock())
        refuse_unsealed(tx, known, anchor or shipped)
        if booked or any_back(tx, listed):
            hold(tx, clock())  # with the lines: a repetition would find none to book
    erased = keep_out(store, listed, clock)
    store.settle(afresh=True)
    return Recovered(booked, erased, listed.there)


def refuse_led(store: Store, clock: Clock) -> None:
    """Refuse a store that a daemon leads, or that servers show fields of.

    Raises
    ------
    AnotherLeads
    """
    with store.read() as tx:
        holder, servers = lease.holder(tx, lease.SHARD), lease.servers(tx)
    if any(one.leased_until > clock() for one in servers):
        raise AnotherLeads(
            f"servers show fields of the store at {store.place}",
            why=f"Of dispatcher serve {count(len(servers), 'process', 'processes')} hold a lease.",
            fix="Stop them first; a lease ends by itself within seconds.",
        )
    if holder is not None and holder.leased_until > clock():
        raise AnotherLeads(
            f"a daemon leads the store at {store.place}",
            why=f"{holder.holder.partition('/')[0]} holds its lease.",
            fix="Stop it first: dispatcher down; a lease ends by itself within seconds.",
        )
