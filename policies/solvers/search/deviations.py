"""What entries could do instead of their best at the prices of a balanced tradeoff.

At prices that sum to lambda every plan loses what its entries' turns lose, and lambda
times what its highest mean is above the priced mean. So a plan is its turns: one a
deviating entry, with a loss and a change of the means.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.sets import Bools, Ints
from policies.solvers.load_balance import Balance
from policies.solvers.load_tables import Loads

Floats = npt.NDArray[np.float64]

SUBSETS: Final = 400
"""Sets of adversaries up to which an entry's choices are listed."""

TABLE: Final = 2_000_000
"""Entries times sets up to which they are."""

_SAME: Final = 1e-12  # losses closer than this are one


@dataclass(frozen=True, eq=False)
class Choices:
    """Every set of adversaries that an entry may have, at prices.

    Attributes
    ----------
    subset : bool array, shape (subsets, k)
    loss : float64 array, shape (n, subsets)
        What u less the priced means loses against the entry's best; inf where the entry
        may not have the set.
    count : int64 array, shape (n, subsets, rows)
        Copies that are new to the adversaries of each row.
    """

    subset: Bools
    loss: Floats
    count: Ints

    @classmethod
    def of(cls, it: Loads, value: Floats, row: Ints) -> Choices | None:
        """List them; None where there are too many.

        Parameters
        ----------
        it : Loads
        value : float64 array, shape (n, k)
            Worth of pairs at the prices.
        row : int64 array, shape (k,)
            Numbers from 0: adversaries of one number are taken for one.
        """
        subset = _subsets(it)
        if subset is None or it.shape[0] * len(subset) * (int(row.max()) + 1) > TABLE:
            return None
        size = subset.sum(axis=1)
        able = (size >= it.lo[:, None]) & (size <= it.hi[:, None])
        able &= ~((~it.may).astype(np.int64) @ subset.T.astype(np.int64)).astype(bool)
        if not able.any(axis=1).all():
            return None
        worth = np.where(able, value @ subset.T.astype(np.float64), -np.inf)
        loss = worth.max(axis=1, keepdims=True) - worth
        to = (row[:, None] == np.arange(int(row.max()) + 1)).astype(np.int64)
        fresh = (~it.held)[:, None, :] & subset
        return cls(subset, loss, fresh.astype(np.int64) @ to)

    def alike(self, entry: int, subset: int) -> Ints:
        """Sets that lose as much and change the rows' means as much, as indices."""
        same = (self.count[entry] == self.count[entry, subset]).all(axis=1)
        near = np.abs(self.loss[entry] - self.loss[entry, subset]) <= _SAME
        return np.flatnonzero(same & near)


def _subsets(it: Loads) -> Bools | None:
    """Return the sets of adversaries of a size that some entry may have."""
    k = it.shape[1]
    low, high = int(it.lo.min()), int(min(it.hi.max(), k))
    found: list[tuple[int, ...]] = []
    for chosen in chain.from_iterable(
        combinations(range(k), j) for j in range(low, high + 1)
    ):
        if len(found) == SUBSETS:
            return None
        found.append(chosen)
    subset = np.zeros((len(found), k), np.bool_)
    for i, chosen in enumerate(found):
        subset[i, list(chosen)] = True
    return subset


@dataclass(frozen=True, eq=False)
class Turns:
    """Turns from the best plan at the prices that lose little, by entry.

    Attributes
    ----------
    entry, subset : int64 array, shape (turns,)
    loss : float64 array, shape (turns,), >= 0
    shift : float64 array, shape (turns, rows)
        What the rows' means change by, less what their priced mean changes by.
    best : int64 array, shape (n,)
        The set of each entry that no turn changes.
    start : float64 array, shape (rows,)
        What the means of the best plan are above their priced mean.
    """

    entry: Ints
    subset: Ints
    loss: Floats
    shift: Floats
    best: Ints
    start: Floats

    @classmethod
    def of(
        cls, b: Balance, choices: Choices, row: Ints, share: Floats, most: float
    ) -> Turns:
        """Return those that lose at most ``most``; of turns alike one.

        Parameters
        ----------
        b : Balance
        choices : Choices
        row : int64 array, shape (k,)
        share : float64 array, shape (rows,)
            Prices of the rows' means, as parts of 1.
        most : float
        """
        member, n = np.bincount(row), len(choices.loss)
        best, every = choices.loss.argmin(axis=1), np.arange(n)
        entry, subset = np.nonzero(choices.loss <= most)
        loss, count = choices.loss[entry, subset], choices.count[entry, subset]
        order = np.lexsort((loss, *count.T, entry))
        key = np.column_stack([entry, count])[order]
        new = np.append(True, (key[1:] != key[:-1]).any(axis=1))[: len(order)]
        at = order[new]
        turned = (count[at] != choices.count[entry[at], best[entry[at]]]).any(axis=1)
        entry, subset, loss, count = (
            x[at[turned]] for x in (entry, subset, loss, count)
        )
        each = b.cost.max(axis=1)
        stay = choices.count[every, best]
        shift = (count - stay[entry]) * each[entry, None] / member
        mean = (np.bincount(row, b.base) + each @ stay) / member
        return cls(
            entry,
            subset,
            loss,
            shift - (shift @ share)[:, None],
            best,
            mean - mean @ share,
        )
