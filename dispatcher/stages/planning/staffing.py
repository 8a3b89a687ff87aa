"""The problem of the backlog, for those with whom a plan can keep the caps on means."""

from __future__ import annotations

from dispatcher.ledger.standing import InForce
from dispatcher.preflight import Clearance
from dispatcher.stages.planning.backlog import Backlog
from dispatcher.stages.planning.means import Means
from dispatcher.stages.planning.translation import Translation, translate
from dispatcher.store.transaction import Tx
from policies.judging.judge import Tally
from policies.model.disclosure import loads, reachable
from policies.model.problem import Pairs, Problem


def staffed(
    tx: Tx,
    force: InForce,
    backlog: Backlog,
    now: int,
    clear: Clearance,
) -> Translation:
    """Make the problem of the backlog, without whom the plan in force has in excess.

    Two who prove to be one, or a load that begins windows, put what they were shown and
    are still planned past a cap together. The gate will refuse them a part of it; until
    then no plan keeps the cap with them, and they have enough to do.

    Raises
    ------
    ValueError
        A rule is of a kind that no plan can judge (never for an applied version).
    """
    made = translate(tx, force, backlog, now, clear)
    if not (force.averages and backlog.left):
        return made
    means = Means(made)
    past = means.past() if means else _past(made.problem)
    if not past:
        return made
    without = frozenset(made.workforce.ids[a] for a in past)
    return translate(tx, force, backlog, now, clear, without)


def _past(problem: Problem) -> list[int]:
    """Adversaries past a cap on the means of their sets by history alone."""
    tally, counted = Tally(problem), reachable(problem.sets)
    for piece in loads(problem.sets, Pairs(), problem.history):
        tally.add(piece)
    past = {
        a
        for cap in problem.averages
        for a, mean in tally.means(cap.properties, counted, cap.over).items()
        if not cap.kept(mean)
    }
    return sorted(past)
