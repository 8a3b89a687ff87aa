"""Tradeoffs of powers of loads as load tables, and a bound that needs no solver.

What an adversary holds of a set is a load, a part of 1: load = base + parts @ x. The rest
is separable: once every load has a price, each entry takes its best copies by itself. So
any prices >= 0 prove a bound (Lagrange), whatever their source; sums are floats, and
:data:`ERROR` covers their rounding.

Linear averages are load balancing (:class:`Balance`; guarantees, R2): one cost a pair, one
coupling row an adversary.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.disclosure import raise_parts
from policies.model.objective import Objective
from policies.model.problem import Average, Problem
from policies.model.problem_arrays import able, grid_of, tables
from policies.model.sets import Bools, Ints
from policies.solvers.interfaces import Limits, Solution, Verdict

Floats = npt.NDArray[np.float64]

ERROR: Final = 1e-10
"""Added to a bound, relative to the size of its terms: far above rounding errors."""


def is_load_tradeoff(problem: Problem, *, average: bool, power: float = inf) -> bool:
    """Whether this is a tradeoff over powers of loads alone.

    Parameters
    ----------
    problem : Problem
    average : bool
        The aggregation that the caller can handle.
    power : float
        The highest power that it can handle.

    Notes
    -----
    Capacities, forbidden pairs, copies and history are allowed; steps, limits below 1,
    classes, trusted adversaries, coalitions, links and caps on means are not.
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
    powers = sets.power
    total = sets.total
    uncapped = bool((sets.cap >= total).all()) and bool((total <= sets.full).all())
    return bool((powers >= 1).all() and (powers <= power).all()) and uncapped


def mean_cap(problem: Problem) -> Average | None:
    """Return the cap on the mean of all sets, if it is a disc-budget's only cap.

    Only a cap above 0 whose mean has an explicit divisor.
    """
    budget = problem.goal.objective is Objective.DISC_BUDGET
    if not budget or len(problem.averages) != 1:
        return None
    cap = problem.averages[0]
    every = set(np.unique(problem.sets.owner).tolist()) <= set(cap.properties)
    mean = every and cap.over and cap.aggregate is None
    return cap if mean and cap.limit > 0 else None


def unassigned(bound: Fraction | float) -> Solution:
    """Return the solution where :func:`greedy_assignment` or a rounding found no plan."""
    tried = ("no rounding fits the capacities",)
    return Solution(Verdict.UNKNOWN, bound=Fraction(bound), tried=tried, stopped="work")


@dataclass(frozen=True, eq=False)
class LoadTables:
    """A tradeoff over loads; n entries, k adversaries, m sets.

    Attributes
    ----------
    worth : float64 array, shape (n, k)
        Contribution of each pair to u.
    may : bool array, shape (n, k)
        Possible pairs.
    held : bool array, shape (n, k)
        History; planning such a pair again costs no load.
    lo, hi : int64 array, shape (n,)
    room : int64 array, shape (k,)
        Capacities.
    capped : bool
        Whether there are capacities.
    parts : sparse matrix, shape (m, n)
        Contribution of each entry to the load of each set, 0 to 1.
    base : float64 array, shape (m, k)
        Loads from history.
    power : int64 array, shape (m,)
        Power of the load that is f of a set, >= 1.
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
    power: Ints
    lambda_: float
    over: float
    shift: float

    @property
    def shape(self) -> tuple[int, int]:
        """Entries and adversaries."""
        n, k = self.worth.shape
        return n, k

    def load(self, chosen: npt.NDArray[Any]) -> Floats:
        """Return the loads of a table of pairs (n, k), integral or fractional."""
        fresh = np.where(self.held, 0.0, chosen)
        return np.asarray(self.base + self.parts @ fresh)

    def level(self, load: Floats) -> Floats:
        """Return f of each set and adversary, shape (m, k)."""
        return raise_parts(load.copy(), self.power)

    def priced(self, prices: Floats) -> Floats:
        """Return the worth of pairs when loads cost ``prices`` (m, k); shape (n, k)."""
        cost = np.asarray(self.parts.T @ prices)
        return self.worth - np.where(self.held, 0.0, cost)

    def greedy_assignment(self, value: Floats) -> Bools | None:
        """Return a plan of each entry's best values: see :func:`greedy_assignment`."""
        return greedy_assignment(self.may, self.lo, self.hi, self.room, value)

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


def load_tables(problem: Problem) -> LoadTables:
    """Return the load tables of a problem that is :func:`is_load_tradeoff`."""
    from scipy.sparse import csr_array

    t = tables(problem)
    m, n = len(t.full), problem.n_entries
    part = t.amount / t.full[t.set_of] if m else np.empty(0)
    parts = csr_array((part, t.entry, t.start), shape=(m, n))
    return LoadTables(
        worth=t.worth,
        may=able(problem),
        held=grid_of(problem, problem.history),
        lo=t.lo,
        hi=t.hi,
        room=t.room,
        capped=problem.capacity is not None,
        parts=parts,
        base=np.asarray(parts @ t.held.astype(np.float64)),
        power=t.power,
        lambda_=t.lambda_,
        over=float(t.over),
        shift=t.lambda_ * t.tau,
    )


def greedy_assignment(
    may: Bools, lo: Ints, hi: Ints, room: Ints, value: Floats
) -> Bools | None:
    """Return a plan of each entry's best values within the capacities, or None.

    Entries with the fewest possible adversaries come first; copies beyond ``lo`` are
    given while their value is above 0.

    Parameters
    ----------
    may : bool array, shape (n, k)
        Possible pairs.
    lo, hi : int64 array, shape (n,)
        Copies of each entry.
    room : int64 array, shape (k,)
        Capacity of each adversary.
    value : float64 array, shape (n, k)
    """
    n, k = may.shape
    chosen = np.zeros((n, k), np.bool_)
    room = room.copy()
    order = np.argsort(may.sum(axis=1) - lo, kind="stable")
    ranked = np.argsort(-np.where(may, value, -np.inf), axis=1, kind="stable")
    for extra in (False, True):
        for d in order.tolist():
            have = int(chosen[d].sum())
            want = int(hi[d] if extra else lo[d])
            for a in ranked[d].tolist():
                if have >= want or not may[d, a]:
                    break
                if chosen[d, a] or not room[a] or (extra and value[d, a] <= 0):
                    continue
                chosen[d, a] = True
                room[a] -= 1
                have += 1
            if have < int(lo[d]):
                return None
    return chosen


@dataclass(frozen=True, eq=False)
class Balance:
    """max worth @ x - lambda * max over adversaries of (base + cost @ x).

    Attributes
    ----------
    it : Loads
    cost : float64 array, shape (n, k)
        Contribution of each pair to its adversary's mean.
    base : float64 array, shape (k,)
        Means from history.
    """

    it: LoadTables
    cost: Floats
    base: Floats

    @classmethod
    def of(cls, it: LoadTables) -> Balance:
        """Sum over the sets: for linear f, a mean is one number a pair."""
        each = np.asarray(it.parts.sum(axis=0)).reshape(-1) / it.over
        cost = np.where(it.held, 0.0, each[:, None])
        return cls(it, cost, it.base.sum(axis=0) / it.over)

    def means(self, chosen: Bools) -> Floats:
        """Return the mean of f of each adversary."""
        return np.asarray(self.base + (self.cost * chosen).sum(axis=0))

    def value(self, chosen: Bools) -> float:
        """Return the objective of a plan, up to rounding."""
        u = float(self.it.worth[chosen].sum())
        return self.it.shift + u - self.it.lambda_ * float(self.means(chosen).max())

    def bound(self, prices: Floats, rent: Floats | None = None) -> float:
        """Return the bound proven by prices >= 0, which are scaled to sum to lambda."""
        it = self.it
        price = scaled(prices, it.lambda_)
        ceiling = it.ceiling(it.worth - self.cost * price, rent)
        return it.shift - float(price @ self.base) + ceiling


def scaled(prices: Floats, total: float) -> Floats:
    """Return the prices, >= 0, scaled so that they sum to ``total``."""
    price = np.maximum(prices, 0.0)
    whole = float(price.sum())
    if whole <= 0:
        return np.full(len(price), total / len(price))
    return np.asarray(price * (total / whole))


def relaxed_balance(b: Balance, limits: Limits) -> tuple[Floats, Floats, Floats | None]:
    """Solve the relaxation.

    Returns
    -------
    x : float64 array, shape (n, k)
    prices : float64 array, shape (k,)
        Duals of the adversaries' means.
    rent : float64 array, shape (k,), or None
        Duals of the capacities.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    it, began = b.it, limits.clock()
    n, k = it.shape
    entry, adversary = np.nonzero(it.may)
    pairs, column = len(entry), np.arange(len(entry))
    ones = np.ones(pairs)
    y = pairs  # the last column: the highest mean
    means = coo_array(
        (
            np.concatenate([b.cost[entry, adversary], -np.ones(k)]),
            (
                np.concatenate([adversary, np.arange(k)]),
                np.concatenate([column, np.full(k, y)]),
            ),
        ),
        shape=(k, pairs + 1),
    )
    copies = coo_array((ones, (entry, column)), shape=(n, pairs + 1))
    blocks, right = [means, copies, -copies], [-b.base, it.hi, -it.lo]
    if it.capped:
        blocks.append(coo_array((ones, (adversary, column)), shape=(k, pairs + 1)))
        right.append(it.room)
    left = limits.left(began).seconds
    options = {} if left == np.inf else {"time_limit": left}
    found = linprog(
        np.concatenate([-it.worth[entry, adversary], [it.lambda_]]),
        A_ub=vstack(blocks).tocsr(),
        b_ub=np.concatenate(right),
        bounds=np.array([[0.0, 1.0]] * pairs + [[0.0, np.inf]]),
        method="highs-ds",
        options=options,
    )
    x, even = np.zeros((n, k)), np.full(k, it.lambda_ / k)
    if found.x is None:
        return x, even, None
    x[entry, adversary] = found.x[:pairs]
    duals = -np.asarray(found.ineqlin.marginals)
    rent = np.maximum(duals[-k:], 0.0) if it.capped else None
    return x, duals[:k], rent
