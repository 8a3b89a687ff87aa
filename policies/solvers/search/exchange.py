"""EXCHANGE: linear average tradeoffs as load balancing (paper, section 4.2; makespan).

With linear f the mean of one adversary is a sum of one cost an entry, so the tradeoff

    max  worth @ x - lambda * max over adversaries a of (base_a + cost_a @ x_a)

has as many coupling rows as adversaries (guarantees, R2). Their prices come from the
relaxation, whose vertex splits fewer than k entries. The loss from rounding is
recovered by meeting in the middle if few plans are near the relaxation, else by
exchanges: of the changes of one entry that cost least at these prices, the two whose
loads fit together best. The prices prove the bound; a completed search of the middle
lowers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.problem import Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import Bools, Ints
from policies.solvers.interfaces import Limits, Solution, answer
from policies.solvers.load_tables import (
    Balance,
    Floats,
    is_load_tradeoff,
    load_tables,
    relaxed_balance,
    scaled,
    unassigned,
)
from policies.solvers.search.meet_in_the_middle import FEW, MANY, nearest

# Gap in % of linear averages (500 entries, 50 sets, t = 2, 2.5 s of CPU): .0044 at k = 5 and
# .0177 at k = 10. At k = 10 half of STARTS .0147, twice .0189; half of PAIRS .0199, twice
# .0194; _KICK 1 .0260, 6 .0204. At k = 5 half of _SHARE or a quarter of MANY .0061, ROWS 0
# .0078. The others change nothing there.
STARTS: Final = 8
"""Roundings of the relaxation to improve."""

KICKS: Final = 60
"""Times that the best plan is disturbed and improved, per unit of work."""

CLOSE: Final = 1e-8
"""Gap, relative to the value, at which the search ends."""

ROWS: Final = 6
"""Rows of one price up to which meeting in the middle gets much time."""

PAIRS: Final = 300
"""Moves of which pairs are tried.

Triples of the first 70 and fours of the first 120, compiled, won nothing: 500 entries, 50
sets, k = 10, t = 2, 3 s of CPU: gap .0170 % with pairs, .0157 % with all; k = 5: .0117 %
both ways; k = 3 was proven in .75 s instead of 2.5 s.
"""

_SHARE: Final = 0.4  # largest share of the remaining time for meeting in the middle
_MOST: Final = 1e6  # units of work if there is no limit
_SPLIT: Final = 1e-9  # values further than this from 0 and 1 are fractional
_KICKED: Final = 40  # moves from which a kick draws, cheapest first
_KICK: Final = 3  # moves of a kick
_ROUNDS: Final = 200  # exchanges of one start; tens are usual
_TINY: Final = 1e-13  # smaller gains are rounding errors


class Exchange:
    """A heuristic with a tight bound."""

    def supports(self, problem: Problem) -> bool:
        """Tradeoffs of the average over linear sets, without limits below 1."""
        return problem.n_adversaries > 0 and is_load_tradeoff(
            problem, average=True, power=1
        )

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Relax, round, exchange."""
        began, over = limits.clock(), limits.deadline()
        b = Balance.of(load_tables(problem))
        x, prices, rent = relaxed_balance(b, limits)
        bound = b.bound(prices, rent)
        best = _rounded(b, x, prices, rng, [True], over)
        even = False
        if best is not None:
            rest = limits.left(began, _SHARE)
            best, bound, even = proven(b, best, prices, bound, FEW, rest)
        if not even and not (best is not None and over()):
            starts = max(1, int(min(STARTS, limits.work * STARTS)))
            first = [i == 0 for i in range(starts)]
            others = _rounded(b, x, prices, rng, first, over)
            plans = [p for p in (best, others) if p is not None]
            best = max(plans, key=b.value, default=None)
        few = int(_alike(b, prices).max()) < ROWS
        if best is not None and few and not even:
            rest = limits.left(began, _SHARE)
            best, bound, _ = proven(b, best, prices, bound, MANY, rest)
        if best is None:
            return unassigned(bound)
        kicks = int(min(limits.work, _MOST) * KICKS)
        end = _kicked(b, best, prices, rng, kicks, bound, limits, over)
        tried = ("roundings of the relaxation, improved by exchanges",)
        return answer(
            problem, plan_of(best), bound=Fraction(bound), tried=tried, stopped=end
        )


def proven(
    b: Balance, best: Bools, prices: Floats, bound: float, most: int, limits: Limits
) -> tuple[Bools, float, bool]:
    """Search for better plans near the relaxation's optimum, if they are few.

    Adversaries of one price are merged first: the relaxation does not distinguish them,
    so what it splits among them can be balanced, and the few remaining rows are soon
    searched.

    Parameters
    ----------
    b : Balance
        If it has capacities, nothing is searched.
    best : bool array, shape (n, k)
        A plan.
    prices : float64 array, shape (k,)
        Prices of the means.
    bound : float
    most : int
        Size of the search: see :mod:`policies.solvers.search.meet_in_the_middle`.
    limits : Limits

    Returns
    -------
    best : bool array, shape (n, k)
        The given plan, or a better one.
    bound : float
        Lowered if the search proves less.
    even : bool
        Whether some plan reaches the bound, balance within rows aside.
    """
    over, each = limits.deadline(), np.arange(len(prices))
    alike, even = _alike(b, prices), False
    if b.it.capped:
        return best, bound, even
    top = b.bound(prices)
    for row in (alike, each)[int(alike.max() == each[-1]) :]:
        value = b.value(best)
        if closed(value, bound):
            return best, bound, True
        found, lost, whole = nearest(b, prices, row, top - value, most, over)
        bound = min(bound, max(top - lost, value + 1e-9))
        if found is not None:
            improve(b, found, prices, over)
            best = max(best, found, key=b.value)
        even = even or whole
    return best, bound, even


def _alike(b: Balance, prices: Floats) -> Ints:
    """Number the adversaries from 0, with one number for each price."""
    price = scaled(prices, b.it.lambda_) / (b.it.lambda_ or 1.0)
    return np.unique(np.round(price, 9), return_inverse=True)[1]


def closed(value: float, bound: float) -> bool:
    """Whether the gap is closed."""
    return bound - value <= CLOSE * (1 + abs(bound))


def ending(limits: Limits) -> str:
    """Return the reason why the deadline ended a search."""
    return "interrupt" if limits.stopped() else "time"


def _rounded(
    b: Balance,
    x: Floats,
    prices: Floats,
    rng: np.random.Generator,
    first: list[bool],
    over: Callable[[], bool],
) -> Bools | None:
    """Return the best of some roundings after exchanges."""
    best: Bools | None = None
    for one in first:
        if over() and not one:
            break
        chosen = _start(b, x, prices, rng, first=one)
        if chosen is None:
            continue
        improve(b, chosen, prices, over)
        if best is None or b.value(chosen) > b.value(best):
            best = chosen
    return best


def _start(
    b: Balance, x: Floats, prices: Floats, rng: np.random.Generator, *, first: bool
) -> Bools | None:
    """Round: the relaxation's pairs first, then those of highest reduced worth."""
    it = b.it
    reduced = it.worth - b.cost * scaled(prices, it.lambda_)
    if not x.any():  # the relaxation was not solved
        return it.greedy_assignment(reduced)
    split = (x > _SPLIT) & (x < 1 - _SPLIT)
    noise = 0.0 if first else rng.random(x.shape) - 0.5
    span = float(np.abs(reduced).max(initial=0.0)) + 1.0
    drawn = np.where(split, x + noise - 0.5, reduced - 2 * span)
    return it.greedy_assignment(np.where(x >= 1 - _SPLIT, 2.0, drawn))


def _kicked(
    b: Balance,
    best: Bools,
    prices: Floats,
    rng: np.random.Generator,
    kicks: int,
    bound: float,
    limits: Limits,
    over: Callable[[], bool],
) -> str:
    """Disturb and improve ``best`` in place; return why that ended."""
    price = scaled(prices, b.it.lambda_)
    value = b.value(best)
    for _ in range(kicks):
        if closed(value, bound):
            return "gap"
        if over():
            return ending(limits)
        chosen = best.copy()
        for _ in range(_KICK):
            some = moves(b, chosen, price, _KICKED)
            if len(some.entry):
                row = int(rng.integers(len(some.entry)))
                if (chosen.sum(axis=0) + some.seats[row] <= b.it.room).all():
                    some.make(chosen, [row])
        improve(b, chosen, prices, over)
        found = b.value(chosen)
        if found >= value:
            best[:], value = chosen, found
    return "work"


@dataclass(frozen=True, eq=False)
class Moves:
    """Changes of one entry each, cheapest at the prices first.

    Attributes
    ----------
    entry, gone, come : int64 array, shape (moves,)
        The entry leaves ``gone`` and comes to ``come``; -1 for neither.
    gain : float64 array, shape (moves,)
        Gain of u.
    paid : float64 array, shape (moves,)
        Gain minus the cost of the change of loads at the prices.
    shift : float64 array, shape (moves, k)
        Changes of the means.
    seats : int64 array, shape (moves, k)
        Changes of the numbers of pairs.
    """

    entry: Ints
    gone: Ints
    come: Ints
    gain: Floats
    paid: Floats
    shift: Floats
    seats: Ints

    def make(self, chosen: Bools, rows: list[int]) -> None:
        """Make these moves."""
        for r in rows:
            d, a, c = int(self.entry[r]), int(self.gone[r]), int(self.come[r])
            if a >= 0:
                chosen[d, a] = False
            if c >= 0:
                chosen[d, c] = True


def moves(
    b: Balance, chosen: Bools, price: Floats, most: int, least: float = -np.inf
) -> Moves:
    """Return the cheapest single changes: adding, dropping or moving one copy.

    Those that lose more than ``-least`` at the prices are left out.
    """
    it = b.it
    k = it.shape[1]
    degree = chosen.sum(axis=1)
    reduced = it.worth - b.cost * price
    found = [
        _rows(np.argwhere(chosen & (degree > it.lo)[:, None]), 1),
        _rows(np.argwhere(it.may & ~chosen & (degree < it.hi)[:, None]), 2),
        np.argwhere(chosen[:, :, None] & (it.may & ~chosen)[:, None, :]),
    ]
    every = np.concatenate(found).astype(np.int64)
    entry, gone, come = every.T
    paid = _at(reduced, entry, come) - _at(reduced, entry, gone)
    near = np.flatnonzero(paid > least)
    keep = near[np.argsort(-paid[near], kind="stable")[:most]]
    entry, gone, come = entry[keep], gone[keep], come[keep]
    shift, seats = np.zeros((len(keep), k)), np.zeros((len(keep), k), np.int64)
    for at, sign in ((come, 1), (gone, -1)):
        here = np.flatnonzero(at >= 0)
        shift[here, at[here]] += sign * b.cost[entry[here], at[here]]
        seats[here, at[here]] += sign
    gain = _at(it.worth, entry, come) - _at(it.worth, entry, gone)
    return Moves(entry, gone, come, gain, paid[keep], shift, seats)


def _rows(pairs: npt.NDArray[Any], column: int) -> npt.NDArray[Any]:
    """Put (entry, adversary) into (entry, gone, come): adversary in ``column``."""
    out = np.full((len(pairs), 3), -1, np.int64)
    out[:, 0], out[:, column] = pairs[:, 0], pairs[:, 1]
    return out


def _at(table: Floats, entry: Ints, adversary: Ints) -> Floats:
    return np.where(adversary >= 0, table[entry, np.maximum(adversary, 0)], 0.0)


def improve(
    b: Balance, chosen: Bools, prices: Floats, over: Callable[[], bool]
) -> None:
    """Exchange one or two entries at a time while that gains; changes ``chosen``.

    Parameters
    ----------
    b : Balance
    chosen : bool array, shape (n, k)
    prices : float64 array, shape (k,)
    over : callable
    """
    price = scaled(prices, b.it.lambda_)
    for _ in range(_ROUNDS):
        if over():
            return
        # an exchange gains at most what its moves are paid at the prices plus the
        # imbalance of the loads, so few are examined once the plan is good
        means = b.means(chosen)
        slack = float(price @ (float(means.max()) - means)) - _TINY
        some = moves(b, chosen, price, PAIRS, -slack)
        free = b.it.room - chosen.sum(axis=0)
        rows = best_exchange(some, means, free, b.it.lambda_)
        if not rows:
            return
        some.make(chosen, rows)


def best_exchange(some: Moves, means: Floats, free: Ints, lambda_: float) -> list[int]:
    """Return the move, or the two moves of two entries, of highest gain; empty if none.

    Parameters
    ----------
    some : Moves
    means : float64 array, shape (k,)
    free : int64 array, shape (k,)
        Remaining capacity of each adversary.
    lambda_ : float
    """
    m = len(some.entry)
    entry, gain = np.append(some.entry, -1), np.append(some.gain, 0.0)  # -1: no move
    total = gain[:, None] + gain
    top = np.full((m + 1, m + 1), -np.inf)
    barred = entry[:, None] == entry
    for a in range(len(means)):  # tables (moves, moves), one adversary at a time
        shift = np.append(some.shift[:, a], 0.0)
        np.maximum(top, (means[a] + shift)[:, None] + shift, out=top)
        if free[a] < 2:  # two moves bring at most two pairs
            seats = np.append(some.seats[:, a], 0)
            barred |= seats[:, None] + seats > free[a]
    total -= lambda_ * (top - float(means.max()))
    total[barred] = -np.inf
    one, two = divmod(int(total.argmax()), m + 1)
    if total[one, two] <= _TINY:
        return []
    return [row for row in (one, two) if row < m]
