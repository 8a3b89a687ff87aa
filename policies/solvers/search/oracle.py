"""Marginal gains of u while a plan is built, for any utility function.

Built-in utilities return all gains at once; functions of others are called entry by
entry. A gain is cached until its adversary is given something.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from policies.model.problem import Problem
from policies.model.problem_arrays import able
from policies.model.utility_functions import KNOWN, Additive, Utilities

Floats = npt.NDArray[np.float64]

_SLACK = 1e-9  # relative to a sum of gains: more than its rounding error


def modular(problem: Problem) -> Utilities:
    """Return the problem's utilities; if it has none, the weights as additive ones."""
    if problem.utilities is not None:
        return problem.utilities
    weights = problem.weights
    worth = weights.base[:, None] * weights.factor.T[weights.kind]
    functions = tuple(Additive(tuple(column)) for column in worth.T.tolist())
    return Utilities(functions, (weights.unit,) * weights.n_adversaries)


class Oracle:
    """u of a plan under construction.

    Parameters
    ----------
    problem : Problem

    Attributes
    ----------
    utilities : Utilities
    held : bool array, shape (k, n)
        The entries that the plan gives to each adversary.
    """

    def __init__(self, problem: Problem) -> None:
        self.utilities = modular(problem)
        self.held = np.zeros((problem.n_adversaries, problem.n_entries), np.bool_)
        self._column: dict[int, Floats] = {}
        self._base: dict[int, float] = {}

    def give(self, entry: int, adversary: int) -> None:
        """Plan the pair."""
        self._set(entry, adversary, planned=True)

    def take(self, entry: int, adversary: int) -> None:
        """Withdraw the pair."""
        self._set(entry, adversary, planned=False)

    def _set(self, entry: int, adversary: int, *, planned: bool) -> None:
        self.held[adversary, entry] = planned
        self._column.pop(adversary, None)
        self._base.pop(adversary, None)

    def column(self, adversary: int) -> Floats:
        """Gains of all entries for one adversary, shape (n,); 0 where it holds them."""
        if adversary not in self._column:
            found = self.utilities.gains(adversary, self.held[adversary])
            self._column[adversary] = found
        return self._column[adversary]

    def gain(self, entry: int, adversary: int) -> float:
        """Return what the pair would add to u."""
        function = self.utilities.functions[adversary]
        if isinstance(function, KNOWN) or adversary in self._column:
            return float(self.column(adversary)[entry])
        now = frozenset(np.flatnonzero(self.held[adversary]).tolist())
        if adversary not in self._base:
            self._base[adversary] = float(function(now))
        more = float(function(now | {entry})) - self._base[adversary]
        return float(self.utilities.scale[adversary]) * more


def ceiling(problem: Problem, oracle: Oracle, value: Fraction) -> Fraction | None:
    """Bound u of every plan by the gains that are left in the present one.

    A monotone submodular u has u(T) <= u(S + T) <= u(S) + the gains over S of the pairs
    of T, and T has at most hi copies of an entry (Nemhauser, Wolsey and Fisher 1978).

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Contains the plan S.
    value : Fraction
        u(S).

    Returns
    -------
    Fraction or None
        None if only samples suggest that u is submodular.
    """
    if not oracle.utilities.known:
        return None
    k = problem.n_adversaries
    grid = np.stack([oracle.column(a) for a in range(k)], axis=1)
    grid = np.where(able(problem) & ~oracle.held.T, np.maximum(grid, 0.0), 0.0)
    ranked = -np.sort(-grid, axis=1)
    kept = np.arange(k) < problem.hi[:, None]
    return value + Fraction(float(ranked[kept].sum()) * (1.0 + _SLACK))
