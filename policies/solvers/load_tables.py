"""Linear and quadratic tradeoffs as load tables, and a bound that needs no solver.

What an adversary holds of a set is a load, a part of 1: load = base + parts @ x. The rest
is separable: once every load has a price, each entry takes its best copies by itself. So
any prices >= 0 prove a bound (Lagrange), whoever suggested them; sums are floats, and
:data:`ERROR` covers their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from policies.model.objective import Objective
from policies.model.problem import Average, Problem
from policies.model.problem_arrays import able, grid_of, tables
from policies.model.sets import Bools, Ints, Measure
from policies.solvers.interfaces import Solution, Verdict

Floats = npt.NDArray[np.float64]

ERROR: Final = 1e-10
"""Added to a bound, relative to the size of its terms: floats err by far less."""


def plain(problem: Problem, measures: tuple[Measure, ...], *, average: bool) -> bool:
    """Whether this is a tradeoff over loads alone.

    Parameters
    ----------
    problem : Problem
    measures : tuple of Measure
        Those that the caller can treat.
    average : bool
        The aggregation that it can treat.

    Notes
    -----
    Capacities, forbidden pairs, copies and history are fine; limits below 1, classes,
    trusted adversaries, coalitions, links and caps on means are not.
    """
    goal, sets = problem.goal, problem.sets
    if goal.objective is not Objective.TRADEOFF or goal.aggregate is not None:
        return False
    if goal.average is not average:
        return False
    if problem.averages or problem.groups or problem.links is not None:
        return False
    if problem.utilities is not None:
        return False
    if problem.trusted is not None or sets.classes.any() or not sets.n_sets:
        return False
    used = {sets.measures[o] for o in np.unique(sets.owner).tolist()}
    total = np.bincount(sets.member_set, sets.amount, sets.n_sets)
    uncapped = bool((sets.cap >= total).all()) and bool((total <= sets.full).all())
    return used <= set(measures) and uncapped


def mean_cap(problem: Problem) -> Average | None:
    """Return the cap of a disc-budget on the mean of all sets, if that is its only cap.

    It is above 0, and divides by a number that is told.
    """
    budget = problem.goal.objective is Objective.DISC_BUDGET
    if not budget or len(problem.averages) != 1:
        return None
    cap = problem.averages[0]
    every = set(np.unique(problem.sets.owner).tolist()) <= set(cap.properties)
    mean = every and cap.over and cap.aggregate is None
    return cap if mean and cap.limit > 0 else None


def unseated(bound: Fraction | float) -> Solution:
    """Return the answer where :func:`seated`, or a rounding, has no plan."""
    tried = ("no rounding fits the capacities",)
    return Solution(Verdict.UNKNOWN, bound=Fraction(bound), tried=tried, stopped="work")


@dataclass(frozen=True, eq=False)
class Loads:
    """A tradeoff over loads; n entries, k adversaries, m sets.

    Attributes
    ----------
    worth : float64 array, shape (n, k)
        What each pair adds to u.
    may : bool array, shape (n, k)
        Pairs that are possible.
    held : bool array, shape (n, k)
        History; planning such a pair again costs no load.
    lo, hi : int64 array, shape (n,)
    room : int64 array, shape (k,)
        Capacities.
    capped : bool
        Whether there are capacities.
    parts : sparse matrix, shape (m, n)
        What each entry adds to the load of each set, 0 to 1.
    base : float64 array, shape (m, k)
        Loads from history.
    square : bool array, shape (m,)
        Sets whose f is the square of the load.
    lambda_, over, shift : float
        objective = shift + u - lambda * f; a mean's sum is divided by ``over``.
    """

    worth: Floats
    may: Bools
    held: Bools
    lo: Ints
    hi: Ints
    room: Ints
    capped: bool
    parts: Any
    base: Floats
    square: Bools
    lambda_: float
    over: float
    shift: float

    @property
    def shape(self) -> tuple[int, int]:
        """Entries and adversaries."""
        n, k = self.worth.shape
        return n, k

    def load(self, chosen: npt.NDArray[Any]) -> Floats:
        """Return the loads of a table of pairs (n, k), whole or fractional."""
        fresh = np.where(self.held, 0.0, chosen)
        return np.asarray(self.base + self.parts @ fresh)

    def level(self, load: Floats) -> Floats:
        """Return f of each set and adversary, shape (m, k)."""
        return np.where(self.square[:, None], load * load, load)

    def priced(self, prices: Floats) -> Floats:
        """Return what pairs are worth once loads cost ``prices`` (m, k); shape (n, k)."""
        cost = np.asarray(self.parts.T @ prices)
        return self.worth - np.where(self.held, 0.0, cost)

    def ceiling(self, value: Floats, rent: Floats | None = None) -> float:
        """Bound the sum of ``value`` over all plans.

        Parameters
        ----------
        value : float64 array, shape (n, k)
        rent : float64 array, shape (k,), >= 0, optional
            Price of a place at an adversary of limited capacity.
        """
        extra = 0.0
        if rent is not None:
            extra = float(rent @ self.room)
            value = value - rent
        most = self.hi.max(initial=0)
        ranked = -np.sort(-np.where(self.may, value, -np.inf), axis=1)
        place = np.arange(ranked.shape[1])
        ranked = np.where(place < self.lo[:, None], ranked, np.maximum(ranked, 0.0))
        taken = np.where(place < np.minimum(self.hi, most)[:, None], ranked, 0.0)
        size = float(np.abs(taken).sum()) + abs(extra)
        return float(taken.sum()) + extra + ERROR * (1.0 + size)


def loads(problem: Problem) -> Loads:
    """Lay out a problem for which :func:`plain` holds."""
    from scipy.sparse import csr_array

    t = tables(problem)
    m, n = len(t.full), problem.n_entries
    part = t.amount / t.full[t.set_of] if m else np.empty(0)
    parts = csr_array((part, t.entry, t.start), shape=(m, n))
    return Loads(
        worth=t.worth,
        may=able(problem),
        held=grid_of(problem, problem.history),
        lo=t.lo,
        hi=t.hi,
        room=t.room,
        capped=problem.capacity is not None,
        parts=parts,
        base=np.asarray(parts @ t.held.astype(np.float64)),
        square=t.measure == int(Measure.QUADRATIC),
        lambda_=t.lambda_,
        over=float(t.over),
        shift=t.lambda_ * t.tau,
    )


class Seating(Protocol):
    """What a plan has to keep to, apart from disclosure: see :class:`Loads`."""

    @property
    def may(self) -> Bools:
        """Pairs that are possible."""

    @property
    def lo(self) -> Ints:
        """Copies of each entry, at least."""

    @property
    def hi(self) -> Ints:
        """Copies of each entry, at most."""

    @property
    def room(self) -> Ints:
        """Pairs of each adversary, at most."""


def seated(it: Seating, value: Floats) -> Bools | None:
    """Return a plan by each entry's best values within the capacities, or None.

    Entries with the fewest places to go come first; copies beyond ``lo`` are given
    while their value is above 0.
    """
    n, k = it.may.shape
    chosen = np.zeros((n, k), np.bool_)
    room = it.room.copy()
    order = np.argsort(it.may.sum(axis=1) - it.lo, kind="stable")
    ranked = np.argsort(-np.where(it.may, value, -np.inf), axis=1, kind="stable")
    for extra in (False, True):
        for d in order.tolist():
            have = int(chosen[d].sum())
            want = int(it.hi[d] if extra else it.lo[d])
            for a in ranked[d].tolist():
                if have >= want or not it.may[d, a]:
                    break
                if chosen[d, a] or not room[a] or (extra and value[d, a] <= 0):
                    continue
                chosen[d, a] = True
                room[a] -= 1
                have += 1
            if have < int(it.lo[d]):
                return None
    return chosen
