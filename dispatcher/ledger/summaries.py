"""The gate's summaries, made anew from the ledger, and compared with the kept ones."""

from __future__ import annotations

from dispatcher.ledger import averages
from dispatcher.ledger.standing import InForce
from dispatcher.store import averages as means
from dispatcher.store import holdings, relations
from dispatcher.store.transaction import Tx


def rebuild(tx: Tx, force: InForce) -> None:
    """Write all summaries anew for a version (grows with the ledger)."""
    holdings.rebuild_holdings(tx, force.kept)
    if force.averages:
        averages.rebuild(tx, force)


def differing_visits(tx: Tx, force: InForce) -> int:
    """Count rows of the kept visits that do not follow from the ledger."""
    return relations.differing_visits(
        tx, [number for number, field in force.fields.items() if field.placed]
    )


def differing_means(tx: Tx, force: InForce) -> int:
    """Count kept sums, and numbers of sets, that do not follow from the holdings."""
    if not force.averages or not averages.is_fresh(tx, force):
        return 0  # stale ones are made anew before they are asked
    made = averages.compute(tx, force)
    sums = {
        (adversary, name, str(total))
        for adversary, totals in made.sums.items()
        for name, total in totals.items()
        if total
    }
    sets = set(made.sets.items())
    return len(sums ^ set(means.sums(tx))) + len(sets ^ set(means.sets(tx)))
