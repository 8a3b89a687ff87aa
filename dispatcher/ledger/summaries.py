"""The gate's summaries, made anew from the ledger, and compared with the kept ones."""

from __future__ import annotations

from dispatcher.ledger import averages
from dispatcher.ledger.standing import InForce, current_policy
from dispatcher.store import averages as means
from dispatcher.store import holdings
from dispatcher.store.transaction import Tx


def rebuild(tx: Tx, force: InForce) -> None:
    """Write all summaries anew for a version (grows with the ledger)."""
    holdings.rebuild_holdings(tx, force.kept)
    if force.averages:
        averages.rebuild(tx, force)


def differences(tx: Tx) -> int:
    """Count rows of the kept summaries that do not follow from the ledger.

    Zero in every store: anything else means that somebody wrote past the gate.
    """
    force = current_policy(tx)
    if force is None:
        return 0
    wrong = holdings.differing_holdings(tx, force.kept)
    if force.averages:
        made = averages.compute(tx, force)
        kept = averages.read(tx, force)
        fresh = {(a, n): v for a, s in made.sums.items() for n, v in s.items() if v}
        found = {(a, n): v for a, s in kept.sums.items() for n, v in s.items() if v}
        wrong += sum(fresh.get(k) != found.get(k) for k in fresh.keys() | found.keys())
        if averages.is_fresh(tx, force):  # else a load came since: made anew when asked
            wrong += int(dict(made.sets) != dict(means.sets(tx)))
    return wrong
