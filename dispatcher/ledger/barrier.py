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
    if tx.dialect == "sqlite":  # a writer there is alone
        return _in_force(tx, rows.hold_barrier(tx))
    # Looked at before it is locked: two that share the barrier and both want it alone
    # would wait for each other.
    seen = _in_force(tx, rows.version_in_force(tx))
    version = rows.close_barrier(tx) if seen.averages else rows.hold_barrier(tx)
    if version == seen.version:
        return seen
    force = _in_force(tx, version)
    if force.averages and not seen.averages:
        rows.close_barrier(tx)
    return force


def _in_force(tx: Tx, version: int) -> InForce:
    if not version:
        raise no_policy()
    return version_of(tx, version)
