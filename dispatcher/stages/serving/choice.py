"""The kinds of work among which a worker may choose (``[tasks] choose``).

A kind is a field of the policy. A worker chooses the kind; which field of which record is
shown then is found as ever, and booked by the gate. What is offered is the same for every
worker: it depends on the policy, on the plan as it was applied and on chance, never on
what a worker has seen or was refused. Fields whose test a worker did not pass are the one
exception, and those they know.

References
----------
Celis, Reddy, Singh, Vaya. Assignment techniques for crowdsourcing sensitive tasks.
CSCW 2016. There the setting between assigned and freely chosen work is "Tug of War".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.stages.serving.own_work import ENOUGH, amount_of
from dispatcher.stages.serving.values import SECOND
from dispatcher.store import Tx
from dispatcher.store import money as purse
from dispatcher.store import serving as rows
from policies.policy import Field


@dataclass(frozen=True)
class Card:
    """A kind of work that is offered; nothing of a record is in it.

    Attributes
    ----------
    field_id : int
    field : Field
    pay : tuple of str
        What one earns: nothing, an amount, or the least and the most.
    seconds : float or None
        What people mostly take for one; None before there are enough answers.
    """

    field_id: int
    field: Field
    pay: tuple[str, ...] = ()
    seconds: float | None = None


def cards(
    tx: Tx, force: ActivePolicy, kinds: Collection[int], idle: frozenset[int]
) -> list[Card]:
    """Describe kinds of work, in the order of the policy.

    Parameters
    ----------
    tx : Tx
    force : ActivePolicy
    kinds : collection of int
        Ids of fields; those that the policy does not ask for are left out.
    idle : frozenset of int
        Runs from which nothing is shown now.
    """
    asked = force.policy.entity.fields
    pay, times = _pay(tx, idle), rows.times_by_field(tx)
    found = []
    for field_id in kinds:
        standing = force.fields.get(field_id)
        if standing is None or not standing.sent or asked[standing.name].ask is None:
            continue
        took = times.get(field_id, [])
        seconds = median(took) / SECOND if len(took) >= ENOUGH else None
        found.append(Card(field_id, asked[standing.name], pay, seconds))
    order = list(asked)
    return sorted(found, key=lambda card: order.index(card.field.name))


def _pay(tx: Tx, idle: frozenset[int]) -> tuple[str, ...]:
    """What a field earns by the budgets of the runs that are shown from.

    It is the same for every kind; runs may differ in it, and a worker is not told of runs.
    """
    paying = [row for row in purse.budgets(tx) if row.bonus and row.run_id not in idle]
    if len({row.currency for row in paying}) != 1:
        return ()
    bonuses = sorted({row.bonus for row in paying})
    ends = dict.fromkeys([bonuses[0], bonuses[-1]])
    return tuple(amount_of(bonus, paying[0].currency) for bonus in ends)
