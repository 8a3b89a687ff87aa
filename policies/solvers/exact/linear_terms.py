"""The parts of a linear model: expressions, and the arrays that they end up in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.disclosure import reachable
from policies.model.problem import Average, Plan, Problem
from policies.model.sets import Bools, Ints

Floats = npt.NDArray[np.float64]

SECANTS: Final = 400
"""Loads up to which a power is exact; beyond it, it is a lower bound between points."""


@dataclass(frozen=True, eq=False)
class Model:
    """min cost @ x, low <= matrix @ x <= high, lower <= x <= upper.

    Attributes
    ----------
    entry, adversary : int64 array, shape (pairs,)
        The first columns are these pairs.
    cost : float64 array, shape (columns,)
        Of the scaled, negated objective: see ``scale`` and ``shift``.
    whole : bool array, shape (columns,)
        Which columns are integers.
    lower, upper : float64 array, shape (columns,)
    matrix : sparse matrix, shape (rows, columns)
    low, high : float64 array, shape (rows,)
    scale, shift : float
        objective = shift - cost @ x / scale.
    disclosure : int
        Column of y, or -1.
    impossible : bool
        No plan exists: an entry has too few pairs, or history is past a limit.
    exact : bool
        Whether y is exactly f for whole plans, so that the model's optimum is the
        problem's.
    slack : float
        By how many times HiGHS's tolerance y may be off: it can be a sum.
    """

    entry: Ints
    adversary: Ints
    cost: Floats
    whole: Bools
    lower: Floats
    upper: Floats
    matrix: Any
    low: Floats
    high: Floats
    scale: float
    shift: float
    disclosure: int
    impossible: bool
    exact: bool
    slack: float = 1.0

    def plan(self, values: Floats) -> Plan:
        """Return the plan of a whole solution."""
        chosen = values[: len(self.entry)] > 0.5
        return Plan(self.entry[chosen], self.adversary[chosen])

    def objective(self, cost: float) -> float:
        """Objective of the problem at this cost."""
        return self.shift - cost / self.scale


@dataclass
class Term:
    """A linear expression: columns, factors, and a constant."""

    columns: Ints
    factors: Floats
    base: float = 0.0

    def top(self) -> float:
        """Largest value."""
        return self.base + float(sum(self.factors))

    def scaled(self, by: float) -> Term:
        """Return the expression times a number."""
        return Term(self.columns, self.factors * by, self.base * by)


def total(terms: list[Term]) -> Term:
    """Sum of terms; columns may repeat."""
    empty = np.empty(0)
    return Term(
        np.concatenate([empty.astype(np.int64), *(t.columns for t in terms)]),
        np.concatenate([empty, *(t.factors for t in terms)]),
        sum(t.base for t in terms),
    )


def counted(problem: Problem, cap: Average, hand: int) -> int:
    """Sets that a mean is over for a hand."""
    sets, judged = problem.sets, problem.judged()
    owners = sets.owner[reachable(sets)]
    inside = np.isin(owners, np.array(cap.properties, np.int64))
    if judged is not None:
        inside &= judged[owners, hand]
    return int(inside.sum())
