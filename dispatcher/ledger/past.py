"""What was shown already, judged by rules that may have changed since."""

from __future__ import annotations

import numpy as np

from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.relations import past_links
from dispatcher.ledger.standing import InForce
from dispatcher.ledger.units import Rows, over_limit
from dispatcher.store import holdings as rows
from dispatcher.store.transaction import Tx
from policies.policy import Scope


def past_units(
    tx: Tx, force: InForce, adversary_id: int, trusted: frozenset[str]
) -> list[tuple[str, int]]:
    """Units of an adversary that are at or past a limit: (property, unit id).

    Grows with what the adversary holds: for changes of policy and of membership, which
    are rare, never for a booking.
    """
    table = np.array(rows.all_holdings(tx, adversary_id), np.int64).reshape(-1, 4)
    whole = np.concatenate([np.zeros((len(table), 1), np.int64), table], axis=1)
    odd = (whole[:, 1] & 1).astype(np.bool_)
    nothing = Rows.of(whole[:0])
    found = []
    for subject in (False, True):
        mine = whole[odd == subject]
        over = over_limit(
            force, [trusted], asked=Rows.of(mine), known=nothing, subject=subject
        )
        doubtful = np.unique(mine[over, 1])
        found += _exactly(force, trusted, mine[np.isin(mine[:, 1], doubtful)], subject)
    return found + past_links(tx, force, adversary_id, trusted)


def _exactly(
    force: InForce,
    trusted: frozenset[str],
    table: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    subject: bool,
) -> list[tuple[str, int]]:
    scope = Scope.SUBJECT if subject else Scope.RECORD
    units: dict[int, dict[tuple[str, int], int]] = {}
    names = force.numbered
    for _, unit, field, time, count in table.tolist():
        if field in names:
            units.setdefault(unit, {})[names[field], time] = count
    return [
        (rule.name, unit)
        for rule in force.rules.all.values()
        if rule.scope is scope and rule.name not in trusted
        for unit, held in sorted(units.items())
        if rule.past(held)
    ]


def named(adversary_id: int, found: list[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return findings as (chain, property), one for each unit."""
    return [(adversary_name(adversary_id), rule) for rule, _ in found]
