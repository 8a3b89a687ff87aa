"""The disclosure of a tradeoff in a linear model: one column y at or above f."""

from __future__ import annotations

import numpy as np

from policies.model.aggregates import Aggregate
from policies.model.objective import Objective
from policies.model.sets import Measure
from policies.solvers.exact import aggregate_rows
from policies.solvers.exact.linear_builder import SIZE, Builder
from policies.solvers.exact.linear_terms import SECANTS, Term, total


def disclosure(b: Builder) -> int:
    """Column of y >= f, with its cost; -1 where f does not count."""
    problem, goal = b.problem, b.problem.goal
    sets = problem.sets
    tradeoff = goal.objective is Objective.TRADEOFF and problem.links is None
    if not (tradeoff and goal.lambda_ > 0 and sets.n_sets):
        return -1
    if goal.aggregate is not None:
        return _aggregated(b, goal.aggregate)
    most = sets.n_sets / goal.over if goal.average and goal.over else 1.0
    y = b.new(cost=float(goal.lambda_) * b.scale, upper=max(1.0, most))
    minus = Term(np.array([y]), np.array([-1.0]))
    if goal.average:
        for hand in range(b.k + len(problem.groups)):
            over = goal.over or _judged_sets(b, hand)
            if not over:
                continue
            term = b.mean(np.arange(sets.n_sets), hand, over)
            b.row(total([term, minus]), high=0.0)
    elif all(m is Measure.QUADRATIC for m in sets.measures):
        _worst_square(b, y)
    else:
        for one in range(sets.n_sets):
            for hand in b.hands_of(one):
                b.row(total([b.share(one, hand), minus]), high=0.0)
    return y


def _aggregated(b: Builder, how: Aggregate) -> int:
    """Column at or above an aggregate whose highest weight is 1."""
    normed, unit = how.normed()
    cost = float(b.problem.goal.lambda_ * unit) * b.scale
    y = b.new(cost=cost, upper=np.inf)
    minus, before = Term(np.array([y]), np.array([-1.0])), len(b.cost)
    for term in aggregate_rows.terms(b, normed):
        b.row(total([term, minus]).scaled(SIZE), high=0.0)
    if how.summed or how.shared:  # each column that is added may be off a little
        b.slack = max(1.0, (len(b.cost) - before + 1) / SIZE)
    return y


def _judged_sets(b: Builder, hand: int) -> int:
    """Sets that are judged for a hand."""
    owner = b.problem.sets.owner
    return len(owner) if b.judged is None else int(b.judged[owner, hand].sum())


def _worst_square(b: Builder, y: int) -> None:
    """Worst square: y above the chords of z * z, z above every share."""
    sets = b.problem.sets
    z = b.new()
    minus = Term(np.array([z]), np.array([-1.0]))
    found, listed = {0.0, 1.0}, True
    for one in range(sets.n_sets):
        values = _values(b, one)
        listed, found = listed and values is not None, found | (values or set())
        for hand in b.hands_of(one):
            b.row(total([b.part(one, hand), minus]), high=0.0)
    ladder = np.array(sorted(found))
    ladder = ladder[np.concatenate([[True], np.diff(ladder) > 1e-12])]
    whole = Term(np.array([z]), np.ones(1))
    if not listed or len(ladder) > 4 * SECANTS:
        b.exact = False
        ladder = np.linspace(0, 1, SECANTS)
        b.lines(whole, y, ladder, ladder)
    else:
        b.lines(whole, y, ladder[:-1], ladder[1:])


def _values(b: Builder, one: int) -> set[float] | None:
    """Shares that a set can have; None where they are too many to be listed."""
    sets = b.problem.sets
    amounts = sets.amount[int(sets.start[one]) : int(sets.start[one + 1])]
    if not amounts.any():
        return set()
    step = int(np.gcd.reduce(amounts[amounts > 0]))
    count = min(int(amounts.sum()), int(sets.full[one])) // step
    if count > 4 * SECANTS:  # a few of them would make chords above f
        return None
    return {j * step / b.divisor(one) for j in range(count + 1)}
