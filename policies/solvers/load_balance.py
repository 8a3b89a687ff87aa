"""Linear averages as load balancing: one cost a pair, one row an adversary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.model.sets import Bools
from policies.solvers.interfaces import Limits
from policies.solvers.load_tables import Loads

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Balance:
    """max worth @ x - lambda * max over adversaries of (base + cost @ x).

    Attributes
    ----------
    it : Loads
    cost : float64 array, shape (n, k)
        What each pair adds to its adversary's mean.
    base : float64 array, shape (k,)
        Means from history.
    """

    it: Loads
    cost: Floats
    base: Floats

    @classmethod
    def of(cls, it: Loads) -> Balance:
        """Sum the sets up: linear f and their mean are one number a pair."""
        each = np.asarray(it.parts.sum(axis=0)).reshape(-1) / it.over
        cost = np.where(it.held, 0.0, each[:, None])
        return cls(it, cost, it.base.sum(axis=0) / it.over)

    def means(self, chosen: Bools) -> Floats:
        """Mean of f of each adversary."""
        return np.asarray(self.base + (self.cost * chosen).sum(axis=0))

    def value(self, chosen: Bools) -> float:
        """Objective of a plan, up to rounding."""
        u = float(self.it.worth[chosen].sum())
        return self.it.shift + u - self.it.lambda_ * float(self.means(chosen).max())

    def bound(self, prices: Floats, rent: Floats | None = None) -> float:
        """Return the bound that prices >= 0 prove; they are scaled to sum to lambda."""
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


def relaxed(b: Balance, limits: Limits) -> tuple[Floats, Floats, Floats | None]:
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
