"""A Problem as a mixed-integer linear model: rows of its limits, and a disclosure term.

The disclosure of a tradeoff is one column y above every f (worst), every hand's mean
(average), or an aggregate. See :mod:`policies.solvers.exact.linear_builder` for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from policies.model.aggregates import Aggregate, Shape
from policies.model.objective import Objective
from policies.model.problem import Average, Problem
from policies.solvers.exact import aggregate_rows, objective_rows
from policies.solvers.exact.linear_builder import SIZE, Builder
from policies.solvers.exact.linear_terms import Model, counted
from policies.solvers.interfaces import never


def build(
    problem: Problem, margin: float = 0.0, over: Callable[[], bool] = never
) -> Model:
    """Make the model of a problem without links that count (see :class:`Builder`)."""
    from scipy.sparse import csr_matrix

    b, goal = Builder(problem, margin, over), problem.goal
    b.degrees()
    b.limits()
    _averages(b)
    y = objective_rows.disclosure(b)
    start = np.cumsum([0, *(len(r[0]) for r in b.rows)])
    columns = [np.empty(0, np.int64), *(r[0] for r in b.rows)]
    factors = [np.empty(0), *(r[1] for r in b.rows)]
    shape = (len(b.rows), len(b.cost))
    matrix = csr_matrix(
        (np.concatenate(factors), np.concatenate(columns), start), shape=shape
    )
    matrix.sum_duplicates()
    tradeoff = goal.objective is Objective.TRADEOFF
    return Model(
        entry=b.entry,
        adversary=b.adversary,
        cost=np.array(b.cost),
        whole=np.array(b.whole, np.bool_),
        lower=np.zeros(len(b.cost)),
        upper=np.array(b.upper),
        matrix=matrix,
        low=np.array([r[2] for r in b.rows]),
        high=np.array([r[3] for r in b.rows]),
        scale=b.scale,
        shift=float(goal.lambda_ * goal.tau) if tradeoff else 0.0,
        disclosure=y,
        impossible=b.impossible,
        exact=b.exact,
        slack=b.slack,
    )


def _averages(b: Builder) -> None:
    """Caps on means and aggregates."""
    for cap in b.problem.averages:
        if not cap.kept(Fraction(0)):
            b.impossible = True
        elif cap.aggregate is not None:
            aggregate_rows.limit(b, cap.aggregate, cap)
        else:
            _average(b, cap)


def _average(b: Builder, cap: Average) -> None:
    """A cap on a mean, kept as that of the aggregate which the mean is."""
    sets = b.problem.sets
    chosen = np.flatnonzero(np.isin(sets.owner, np.array(cap.properties, np.int64)))
    counts = (Fraction(one in cap.properties) for one in range(len(sets.properties)))
    mean = Aggregate(Shape.AVERAGE, tuple(counts))
    for hand in range(b.k + len(b.problem.groups)):
        over = cap.over or counted(b.problem, cap, hand)
        if not over:
            continue
        term = b.mean(chosen, hand, over)
        highest = aggregate_rows.most(b, replace(mean, over=Fraction(over)), cap)
        highest *= float(cap.limit or 1)
        if term.top() > highest:
            b.row(term.scaled(SIZE), high=highest * SIZE)
