"""Meet in the middle: the plan of least loss at the prices of a balanced tradeoff.

At prices that sum to lambda, a plan loses what its entries' deviations from their best
sets of adversaries lose, plus lambda times the excess of its highest mean over the
priced mean. So a plan is a set of deviations: one an entry, each with a loss and a
change of the means.

The entries that could deviate are dealt into two halves. All sets of deviations of a
half with a loss up to some amount are listed, and halves whose changes cancel out are
joined: the means of a good plan are nearly even, so few pairs of halves are close to
each other. The join is complete up to that amount, which is raised until a plan is
found. That plan is optimal; if none is found, the amount is subtracted from the bound
(Horowitz and Sahni, JACM 1974, for knapsacks).

What it gains (3 s of CPU): for linear averages of 500 entries, 50 sets, k = 5, t = 2
the gap is .0044 %, and .0117 % without it, where .01 % is required (docs/targets.md);
50 entries, 50 sets, k = 2, t = 1 are proven in .04 s, and not at all without it. Branch
and bound by HiGHS over the pairs that the prices leave open, as an alternative, only
improved the bound of problems with capacities, which HiGHS proves by itself in
``auto``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

import numpy as np

from policies.model.sets import Bools, Ints
from policies.solvers.load_tables import Balance, Floats, LoadTables, scaled

Over = Callable[[], bool]

FEW: Final = 20_000
"""Sets of deviations that are listed for a half in any case."""

MANY: Final = 500_000
"""Sets of deviations that are listed for a half, at most."""

SUBSETS: Final = 400
"""Sets of adversaries up to which an entry's choices are listed."""

TABLE: Final = 2_000_000
"""Entries times sets up to which choices are listed."""

# Linear averages, 500 entries, 50 sets, t = 2, 2 s of CPU: k = 3 is proven in .13 to .16 s with
# each of these. k = 5: gap .0046 to .0063 % (three runs); _GROWTH 1.15 .0057, 1.6 .0067; half of
# _LEVELS .0027, twice .0086; half or twice of _PAIRS .0063.
_SAME: Final = 1e-12  # closer losses are equal
_PAIRS: Final = 80  # pairs of halves examined for one amount, per listed set

_FIRST: Final = 64  # the first amount is the gap divided by this
_GROWTH: Final = 1.3  # factor from one amount to the next
_LEVELS: Final = 8  # levels of loss into which a half is divided
DENSE: Final = 300_000  # pairs up to which all are examined
_CHUNK: Final = 500_000  # pairs examined at once: a few arrays of 4 MB
_AXES: Final = 3  # rows by which halves are matched
_SCANT: Final = 1e-12  # relative price of a row whose mean may be arbitrarily low
_SLACK: Final = 1e-10  # rounding error of a loss


@dataclass(frozen=True, eq=False)
class Choices:
    """All sets of adversaries that an entry may have, at prices.

    Attributes
    ----------
    subset : bool array, shape (subsets, k)
    loss : float64 array, shape (n, subsets)
        Loss of u minus the priced means against the entry's best set; inf if the entry
        may not have the set.
    count : int64 array, shape (n, subsets, rows)
        New copies for the adversaries of each row.
    """

    subset: Bools
    loss: Floats
    count: Ints

    @classmethod
    def of(cls, it: LoadTables, value: Floats, row: Ints) -> Choices | None:
        """Return the choices; None if there are too many.

        Parameters
        ----------
        it : Loads
        value : float64 array, shape (n, k)
            Worth of pairs at the prices.
        row : int64 array, shape (k,)
            Numbers from 0: adversaries with one number are treated as one.
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
        """Return the sets of the same loss and change of the rows' means, as indices."""
        same = (self.count[entry] == self.count[entry, subset]).all(axis=1)
        near = np.abs(self.loss[entry] - self.loss[entry, subset]) <= _SAME
        return np.flatnonzero(same & near)


def _subsets(it: LoadTables) -> Bools | None:
    """Return the sets of adversaries of sizes that some entry may have."""
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
class Deviations:
    """Deviations of little loss from the best plan at the prices, by entry.

    Attributes
    ----------
    entry, subset : int64 array, shape (deviations,)
    loss : float64 array, shape (deviations,), >= 0
    shift : float64 array, shape (deviations, rows)
        Changes of the rows' means minus the change of their priced mean.
    best : int64 array, shape (n,)
        Each entry's set without a deviation.
    start : float64 array, shape (rows,)
        Excess of the best plan's means over their priced mean.
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
    ) -> Deviations:
        """Return those that lose at most ``most``; one of those that are alike.

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
        changed = (count[at] != choices.count[entry[at], best[entry[at]]]).any(axis=1)
        entry, subset, loss, count = (
            x[at[changed]] for x in (entry, subset, loss, count)
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


@dataclass(frozen=True, eq=False)
class Half:
    """Sets of deviations of some entries, lowest loss first.

    Attributes
    ----------
    loss : float64 array, shape (sets,)
    shift : float64 array, shape (sets, rows)
    parent, deviation : int64 array, shape (listed,)
        The set without its last deviation, and that deviation; -1 for the empty set.
    place : int64 array, shape (sets,)
        Place of each in that list.
    """

    loss: Floats
    shift: Floats
    parent: Ints
    deviation: Ints
    place: Ints

    @classmethod
    def of(
        cls, deviations: Deviations, use: Bools, amount: float, most: int, over: Over
    ) -> Half | None:
        """List the sets of a mask's deviations that lose at most ``amount``.

        None if they are more than ``most``, or time is over.
        """
        if _bits(deviations, use, amount) > np.log2(most):
            return None
        rows = deviations.shift.shape[1]
        loss, shift = np.zeros(1), np.zeros((1, rows))
        parent, deviation = np.full(1, -1), np.full(1, -1)
        at = np.flatnonzero(use)
        cuts = np.flatnonzero(np.diff(deviations.entry[at])) + 1
        for group in np.split(at, cuts) if len(at) else ():
            near = [np.flatnonzero(loss <= amount - deviations.loss[o]) for o in group]
            if over() or len(loss) + sum(map(len, near)) > most:
                return None
            each = list(zip(near, group.tolist(), strict=True))
            loss = np.concatenate(
                [loss, *(loss[i] + deviations.loss[o] for i, o in each)]
            )
            shift = np.concatenate(
                [shift, *(shift[i] + deviations.shift[o] for i, o in each)]
            )
            parent = np.concatenate([parent, *near])
            deviation = np.concatenate(
                [deviation, *(np.full(len(i), o) for i, o in each)]
            )
        order = np.argsort(loss, kind="stable")
        return cls(loss[order], shift[order], parent, deviation, order)

    def deviations(self, at: int) -> list[int]:
        """Return the deviations of a set."""
        found, row = [], int(self.place[at])
        while row > 0:
            found.append(int(self.deviation[row]))
            row = int(self.parent[row])
        return found


def _bits(deviations: Deviations, use: Bools, amount: float) -> float:
    """Return log2 of a lower bound on the number of sets of nearly no loss."""
    entries = len(np.unique(deviations.entry[use]))
    little = use & (deviations.loss * max(1, entries) <= amount)
    many = np.unique(deviations.entry[little], return_counts=True)[1]
    return float(np.log2(1.0 + many).sum())


@dataclass
class Join:
    """The pair of halves of least loss.

    Attributes
    ----------
    left, right : Half
    start : float64 array, shape (rows,)
    share : float64 array, shape (rows,)
    lambda_ : float
    amount : float
        All pairs with a loss up to this are examined.
    least : float
        Least loss of the pairs seen so far; at first, the loss allowed.
    pair : (int, int), optional
    most : int
        Pairs to examine, at most.
    over : callable
    dense : int
        Pairs up to which all are examined.
    seen : int
        Pairs examined so far.
    """

    left: Half
    right: Half
    start: Floats
    share: Floats
    lambda_: float
    amount: float
    least: float
    most: int
    over: Over
    dense: int
    pair: tuple[int, int] | None = None
    seen: int = 0

    def run(self) -> bool:
        """Examine every pair with a loss of at most ``amount``.

        False if they are more than ``most``, or time is over.
        """
        if self._small(len(self.left.loss), len(self.right.loss)):
            self._every(slice(None), slice(None))
            return True
        steps = self.amount * np.arange(_LEVELS + 1) / _LEVELS
        cut = [np.searchsorted(h.loss, steps[:-1]) for h in (self.left, self.right)]
        left, right = (
            np.append(c, len(h.loss))
            for c, h in zip(cut, (self.left, self.right), strict=True)
        )
        for i in range(_LEVELS):
            for j in range(_LEVELS - i):
                rest = self.amount - steps[i] - steps[j]
                mine = slice(int(left[i]), int(left[i + 1]))
                other = slice(int(right[j]), int(right[j + 1]))
                if rest >= 0 and not self._near(mine, other, rest):
                    return False
        return True

    def _small(self, mine: int, other: int) -> bool:
        return mine * other <= self.dense

    def _every(self, mine: slice, other: slice) -> None:
        i = np.arange(len(self.left.loss))[mine]
        j = np.arange(len(self.right.loss))[other]
        self._look(np.repeat(i, len(j)), np.tile(j, len(i)))

    def _look(self, i: Ints, j: Ints) -> None:
        """Examine these pairs."""
        self.seen += len(i)
        if not len(i):
            return
        mean = self.start + self.left.shift[i] + self.right.shift[j]
        loss = self.left.loss[i] + self.right.loss[j] + self.lambda_ * mean.max(axis=1)
        at = int(loss.argmin())
        if loss[at] <= self.least:
            self.least, self.pair = float(loss[at]), (int(i[at]), int(j[at]))

    def _near(self, mine: slice, other: slice, rest: float) -> bool:
        """Examine the pairs with means even enough for a loss of at most ``rest``."""
        a, z = self.left.shift[mine] + self.start, self.right.shift[other]
        if self._small(len(a), len(z)):
            self._every(mine, other)
            return True
        low = -rest / (np.maximum(self.share, _SCANT) * self.lambda_)
        high = rest / self.lambda_
        width = high - low
        axes = np.argsort(-np.ptp(z, axis=0) / width, kind="stable")[:_AXES]
        boxes = Boxes.of(z[:, axes], width[axes])
        for i, j in boxes.within((low - a)[:, axes]):
            if self.seen > self.most or self.over():
                return False
            self._look(i + mine.start, j + other.start)
        return True


@dataclass(frozen=True, eq=False)
class Boxes:
    """Points sorted into boxes of the width of a query.

    Attributes
    ----------
    floor, width : float64 array, shape (axes,)
    size, step : int64 array, shape (axes,)
        Boxes along each axis, and the distance of keys between neighbours.
    key, place : int64 array, shape (points,)
        Box of each point, ascending, and the index of the point.
    """

    floor: Floats
    width: Floats
    size: Ints
    step: Ints
    key: Ints
    place: Ints

    @classmethod
    def of(cls, points: Floats, width: Floats) -> Boxes:
        """Sort points, shape (points, axes), into boxes of width > 0, shape (axes,)."""
        floor = points.min(axis=0)
        width = np.maximum(width, np.ptp(points, axis=0) / 2**19)
        box = np.floor((points - floor) / width).astype(np.int64)
        size = box.max(axis=0) + 1
        step = np.cumprod(np.append(1, size[:-1]))
        key = box @ step
        place = np.argsort(key, kind="stable")
        return cls(floor, width, size, step, key[place], place)

    def within(self, corner: Floats) -> Iterator[tuple[Ints, Ints]]:
        """Yield (query, point) in pieces: points less than a width above each corner.

        Parameters
        ----------
        corner : float64 array, shape (asked, axes)
        """
        first = np.floor(np.clip((corner - self.floor) / self.width, -2, 2**20))
        axes = len(self.step)
        for which in range(2**axes):
            box = first.astype(np.int64) + (which >> np.arange(axes) & 1)
            asked = np.flatnonzero(((box >= 0) & (box < self.size)).all(axis=1))
            key = box[asked] @ self.step
            order = np.argsort(key, kind="stable")
            begin, end = (
                np.searchsorted(self.key, key[order], side)
                for side in ("left", "right")
            )
            yield from self._pieces(asked[order], begin, end - begin)

    def _pieces(
        self, asked: Ints, begin: Ints, count: Ints
    ) -> Iterator[tuple[Ints, Ints]]:
        done = np.cumsum(count)
        cuts = np.searchsorted(done, np.arange(_CHUNK, int(done[-1:].sum()), _CHUNK))
        for part in np.split(np.arange(len(asked)), cuts):
            many = count[part]
            before = np.repeat(np.cumsum(many) - many, many)
            at = np.repeat(begin[part], many) + np.arange(len(before)) - before
            yield np.repeat(asked[part], many), self.place[at]


def nearest(
    b: Balance,
    prices: Floats,
    row: Ints,
    gap: float,
    most: int,
    over: Over,
    *,
    dense: int = DENSE,
) -> tuple[Bools | None, float, bool]:
    """Return the plan of least loss at the prices, and a lower bound on every loss.

    Parameters
    ----------
    b : Balance
        Without capacities.
    prices : float64 array, shape (k,)
    row : int64 array, shape (k,)
        Numbers from 0: adversaries with one number have one price and are treated as
        one, so that the loss is a bound, and the plan's means within a row are
        balanced.
    gap : float
        Plans of a higher loss are not searched.
    most : int
        Sets of deviations listed for a half, at most.
    over : callable
    dense : int
        Pairs of halves up to which all are examined, without sorting them into boxes.

    Returns
    -------
    plan : bool array, shape (n, k), or None
    loss : float
        At most ``gap``; every plan's value is at least this below the prices' bound.
    whole : bool
        Whether the search was completed; if not, the plan is the best one seen.
    """
    it = b.it
    if it.lambda_ <= 0:  # the bound is reached already
        return None, 0.0, True
    price = scaled(prices, it.lambda_)
    share = np.bincount(row, price) / it.lambda_
    choices = Choices.of(it, it.worth - b.cost * price, row)
    lost, amount, least, plan = 0.0, gap / _FIRST, gap, None
    while choices is not None and lost < gap and not over():
        deviations = Deviations.of(b, choices, row, share, amount)
        join = _join(deviations, share, (it.lambda_, amount, least, most), over, dense)
        whole = join is not None and join.run()
        if join is not None and join.pair is not None:
            plan, least = _plan(b, choices, deviations, join), join.least
        if not whole:
            break
        if plan is not None and least <= amount:
            return plan, max(least - _SLACK * (1 + least), lost), True
        lost, amount = amount, min(gap, amount * _GROWTH)
    return plan, lost, lost >= gap


def _join(
    deviations: Deviations,
    share: Floats,
    numbers: tuple[float, float, float, int],
    over: Over,
    dense: int,
) -> Join | None:
    """Deal entries into halves by their least loss; None if the halves are too large."""
    lambda_, amount, least, most = numbers
    entry, at = np.unique(deviations.entry, return_inverse=True)
    lowest = np.full(len(entry), np.inf)
    np.minimum.at(lowest, at, deviations.loss)
    odd = np.zeros(len(entry), np.bool_)
    odd[np.argsort(lowest, kind="stable")[1::2]] = True
    left = Half.of(deviations, ~odd[at], amount, most, over)
    right = None if left is None else Half.of(deviations, odd[at], amount, most, over)
    if left is None or right is None:
        return None
    pairs = most * _PAIRS
    start = deviations.start
    return Join(left, right, start, share, lambda_, amount, least, pairs, over, dense)


def _plan(b: Balance, choices: Choices, deviations: Deviations, join: Join) -> Bools:
    """Return the plan of a pair; sets that are alike go where the load is least."""
    chosen = deviations.best.copy()
    i, j = join.pair or (0, 0)
    taken = join.left.deviations(i) + join.right.deviations(j)
    chosen[deviations.entry[taken]] = deviations.subset[taken]
    plan = choices.subset[chosen]
    loss = choices.loss[np.arange(len(chosen)), chosen]
    ties = (choices.loss <= loss[:, None] + _SLACK).sum(axis=1) > 1
    mean = b.base + (b.cost * plan * ~ties[:, None]).sum(axis=0)
    open_ = np.flatnonzero(ties)
    for d in open_[np.argsort(-b.cost[open_].max(axis=1), kind="stable")].tolist():
        alike = choices.alike(d, int(chosen[d]))
        after = mean + b.cost[d] * choices.subset[alike]
        plan[d] = choices.subset[alike[int(after.max(axis=1).argmin())]]
        mean = mean + b.cost[d] * plan[d]
    return plan
