"""How many workers must stay active so that every open field finds one who may see it.

The count holds for any order of showings and any choice among the safe ones, with the
history as it is: what the plan in force intends is not relied on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.preflight import Clearance
from dispatcher.stages.planning import backlog as backlogs
from dispatcher.stages.planning.translation import Translation, translate
from dispatcher.store.settings import SafeWorkers
from dispatcher.store.transaction import Tx
from policies.judging.certificates import safe_numbers
from policies.model.problem import Pairs
from policies.model.sets import NO_CAP


def safe_workers(
    tx: Tx, force: ActivePolicy, clear: Clearance, now: int
) -> SafeWorkers:
    """Count the workers that are active, and how many must be.

    Parameters
    ----------
    tx : Tx
    force : ActivePolicy
    clear : Clearance
    now : int
        Microseconds UTC.
    """
    backlog = backlogs.read(tx, force, clear, planned=False, live=False)
    made = translate(tx, force, backlog, now, clear)
    present = int(made.workforce.workers.sum())
    if force.averages:  # one showing changes what the next may be, of any field
        return SafeWorkers(None, present)
    needed = _needed(made)
    most = int(needed.max(initial=0))
    worst = made.fields[int(made.kind[np.argmax(needed)])] if most else ""
    return SafeWorkers(most, present, worst)


def _needed(made: Translation) -> backlogs.Ints:
    """Return the workers that each entry needs, shape (n,), counting workers alone.

    What only feeds get needs no worker, and no worker comes to hold it.
    """
    problem, backlog, people = made.problem, made.backlog, made.workforce
    workers, room = people.workers, backlog.room
    if not (workers & people.feeds).any():
        room = np.where(backlog.published, 0, room)
    capacity = problem.capacity
    if capacity is not None:
        capacity = np.where(workers, capacity, NO_CAP)

    def of_workers(pairs: Pairs) -> Pairs:
        mine = workers[pairs.adversary]
        return Pairs(pairs.entry[mine], pairs.adversary[mine])

    among = replace(
        problem,
        capacity=capacity,
        history=of_workers(problem.history),
        forbidden=of_workers(problem.forbidden),
    )
    return np.where(backlog.published, 0, safe_numbers(among, room))
