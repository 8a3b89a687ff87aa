"""The barrier that every booking holds, so that no version changes under it."""

from __future__ import annotations

from dispatcher.ledger.standing import InForce, no_policy, version_of
from dispatcher.store import ledger as rows
from dispatcher.store.transaction import Tx


def hold(tx: Tx) -> InForce:
    """Hold the barrier until the transaction ends; return the version in force.

    It is shared with other bookings, but held alone where a mean is capped: whoever
    finds the kept sums stale makes those of all adversaries anew, and a booking that
    added to one of them meanwhile would be forgotten.

    Parameters
    ----------
    tx : Tx
        A write transaction.

    Raises
    ------
    Conflict
        No policy is in force.
    """
    # Looked at before it is locked: two that share the barrier and both want it alone
    # would wait for each other.
    seen = in_force(tx, *rows.in_force(tx))
    lock = "alone" if seen.averages else "shared"
    return held(tx, seen, *rows.in_force(tx, lock=lock))


def held(tx: Tx, seen: InForce, version: int, sha256: str | None) -> InForce:
    """Return the version in force, now that the barrier is held as ``seen`` asks."""
    force = in_force(tx, version, sha256)
    if force.averages and not seen.averages:
        rows.close_barrier(tx)
    return force


def in_force(tx: Tx, version: int, sha256: str | None) -> InForce:
    """Return the version in force; what was read of it before is not read again.

    Raises
    ------
    Conflict
        There is none: the version is 0.
    """
    if not version:
        raise no_policy()
    known = tx.lasting.get("in force")
    if isinstance(known, InForce) and (known.version, known.sha256) == (
        version,
        sha256,
    ):
        return known
    tx.lasting["in force"] = force = version_of(tx, version)
    return force
