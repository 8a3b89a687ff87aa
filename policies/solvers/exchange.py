"""EXCHANGE: linear average tradeoffs as load balancing (paper, section 4.2; makespan).

With linear f the mean of one adversary is a sum of one cost an entry, so the tradeoff
has as many coupling rows as adversaries. Their prices come from the relaxation, whose
vertex splits fewer than k entries. What rounding loses is won back by exchanging two or
three entries at once: of the moves that cost least at these prices, those whose loads
fit together. The prices prove the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.problem import Problem
from policies.sets import Bools, Ints, Measure
from policies.solvers import kernel_exchange
from policies.solvers.balance import Balance, relaxed, scaled
from policies.solvers.core_search import decided, regret
from policies.solvers.kernels_numba import FROM, compiled
from policies.solvers.loads import loads, plain, seated
from policies.solvers.role import Limits, Solution, Verdict, answer
from policies.tables import plan_of

Floats = npt.NDArray[np.float64]

STARTS: Final = 8
"""Roundings of the relaxation that are improved."""

KICKS: Final = 60
"""Times that the best plan is disturbed and improved again, for each unit of work."""

PAIRS, TRIPLES, FOURS = 300, 70, 120
"""Moves that are looked at together, two, three and four at a time."""

SLOW: Final = (150, 24)
"""The same of two and three where nothing is compiled."""

CLOSE: Final = 1e-8
"""Gap, relative to the value, at which the search ends."""

CORE: Final = 80
"""Open pairs up to which they are searched exactly."""

_NODES: Final = 20_000
_MOST: Final = 1e6  # units of work, where there is no limit
_ROUNDS: Final = 200  # exchanges of one start; tens are usual
_TINY: Final = 1e-13
_SPLIT: Final = 1e-9  # values further than this from 0 and 1 are fractional
_NEAR: Final = 8  # neighbours of a pair that are tried
_KICKED: Final = 40  # moves that a kick draws from, cheapest first
_KICK: Final = 3  # moves of a kick


@cache
def fast() -> Mapping[str, Any]:
    """Compile the kernel, once."""
    return compiled(
        (vars(kernel_exchange),), kernel_exchange.NAMES, kernel_exchange.DOORS
    )


class Exchange:
    """A heuristic with a tight bound."""

    def supports(self, problem: Problem) -> bool:
        """Tradeoffs of the average over linear sets, without limits below 1."""
        return problem.n_adversaries > 0 and plain(
            problem, (Measure.LINEAR,), average=True
        )

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Relax, round, exchange."""
        over = limits.deadline()
        b = Balance.of(loads(problem))
        x, prices, rent = relaxed(b, limits)
        bound = b.bound(prices, rent)
        starts = max(1, int(min(STARTS, limits.work * STARTS)))
        best = _rounded(b, x, prices, rng, starts, over)
        if best is None:
            return Solution(
                Verdict.UNKNOWN,
                bound=Fraction(bound),
                tried=("no rounding fits the capacities",),
                stopped="work",
            )
        best, bound = proven(b, best, prices, rent, bound)
        kicks = int(min(limits.work, _MOST) * KICKS)
        end = _kicked(b, best, prices, rng, kicks, bound, limits, over)
        told = ("roundings of the relaxation, improved by exchanges",)
        return answer(
            problem, plan_of(best), bound=Fraction(bound), tried=told, stopped=end
        )


def proven(
    b: Balance, best: Bools, prices: Floats, rent: Floats | None, bound: float
) -> tuple[Bools, float]:
    """Search what a better plan could do differently, where that is little.

    Returns
    -------
    best : bool array, shape (n, k)
        The plan, or a better one.
    bound : float
        Lowered where the search says so.
    """
    it, price, value = b.it, scaled(prices, b.it.lambda_), b.value(best)
    reduced = it.worth - b.cost * price - (0.0 if rent is None else rent)
    ideal, loss = regret(it, reduced)
    open_ = loss <= bound - value + 1e-9 * (1 + abs(bound))
    if open_.sum() > CORE or bound - value <= CLOSE * (1 + abs(value)):
        return best, bound
    nodes = {"node_limit": _NODES, "mip_rel_gap": 0.0}
    found, ceiling = decided(it, b.cost, b.base, (ideal, open_), nodes)
    if found is not None and b.value(found) > value:
        best = found
    return best, min(bound, max(it.shift + ceiling, b.value(best) + 1e-9))


def ending(limits: Limits) -> str:
    """Why the deadline says that a search is over."""
    return "interrupt" if limits.stopped() else "time"


def _rounded(
    b: Balance,
    x: Floats,
    prices: Floats,
    rng: np.random.Generator,
    starts: int,
    over: Callable[[], bool],
) -> Bools | None:
    """Return the best of some roundings after exchanges."""
    best: Bools | None = None
    for i in range(starts):
        if best is not None and over():
            break
        chosen = _start(b, x, prices, rng, first=i == 0)
        if chosen is None:
            continue
        improve(b, chosen, prices, over)
        if best is None or b.value(chosen) > b.value(best):
            best = chosen
    return best


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
        if bound - value <= CLOSE * (1 + abs(value)):
            return "gap"
        if over():
            return ending(limits)
        chosen = best.copy()
        for _ in range(_KICK):
            some = moves(b, chosen, price, _KICKED)
            if len(some.entry):
                row = int(rng.integers(len(some.entry)))
                if (
                    not b.it.capped
                    or (chosen.sum(axis=0) + some.seats[row] <= b.it.room).all()
                ):
                    some.make(chosen, [row])
        improve(b, chosen, prices, over)
        found = b.value(chosen)
        if found >= value:
            best[:], value = chosen, found
    return "work"


def _start(
    b: Balance, x: Floats, prices: Floats, rng: np.random.Generator, *, first: bool
) -> Bools | None:
    """Round: the relaxation's pairs first, then those of best reduced worth."""
    it = b.it
    reduced = it.worth - b.cost * scaled(prices, it.lambda_)
    if not x.any():  # the relaxation was not solved
        return seated(it, reduced)
    split = (x > _SPLIT) & (x < 1 - _SPLIT)
    noise = 0.0 if first else rng.random(x.shape) - 0.5
    span = float(np.abs(reduced).max(initial=0.0)) + 1.0
    drawn = np.where(split, x + noise - 0.5, reduced - 2 * span)
    return seated(it, np.where(x >= 1 - _SPLIT, 2.0, drawn))


# -- exchanges ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moves:
    """Changes of one entry each, cheapest at the prices first.

    Attributes
    ----------
    entry, gone, come : int64 array, shape (moves,)
        The entry leaves ``gone`` and comes to ``come``; -1 for neither.
    gain : float64 array, shape (moves,)
        What u gains.
    paid : float64 array, shape (moves,)
        The same less what the change of loads costs at the prices.
    shift : float64 array, shape (moves, k)
        What the means change by.
    seats : int64 array, shape (moves, k)
        What the numbers of pairs change by.
    off, on : float64 array, shape (moves,)
        What leaves ``gone``'s mean, and what comes to ``come``'s.
    """

    entry: Ints
    gone: Ints
    come: Ints
    gain: Floats
    paid: Floats
    shift: Floats
    seats: Ints
    off: Floats
    on: Floats

    @property
    def columns(self) -> kernel_exchange.Columns:
        """What :mod:`policies.solvers.kernel_exchange` calls moves."""
        known = self.entry, self.gone, self.come, self.off, self.on
        return kernel_exchange.Columns(*known, self.gain, self.paid)

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
    off, on = _at(b.cost, entry, gone), _at(b.cost, entry, come)
    for at, sign, cost in ((come, 1, on), (gone, -1, off)):
        here = np.flatnonzero(at >= 0)
        shift[here, at[here]] += sign * cost[here]
        seats[here, at[here]] += sign
    gain = _at(it.worth, entry, come) - _at(it.worth, entry, gone)
    return Moves(entry, gone, come, gain, paid[keep], shift, seats, off, on)


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
    """Exchange up to three entries at once until that gains nothing; changes ``chosen``."""
    price = scaled(prices, b.it.lambda_)
    for _ in range(_ROUNDS):
        if over() or not _exchange(b, chosen, price):
            return


def _exchange(b: Balance, chosen: Bools, price: Floats) -> bool:
    """Make the best exchange of the fewest entries, one to four, that gains anything.

    No exchange gains more than its moves are paid at the prices and what the loads are
    out of balance by; so few moves are looked at once the plan is good.
    """
    it = b.it
    means, free = b.means(chosen), it.room - chosen.sum(axis=0)
    top = float(means.max())
    slack = float(price @ (top - means)) - _TINY
    quick = (it.parts.nnz + len(chosen)) * len(means) >= FROM
    pairs, triples = (PAIRS, TRIPLES) if quick else SLOW
    some = moves(b, chosen, price, pairs, -slack)
    if not len(some.entry):
        return False
    numbers = np.array([it.lambda_, top, slack, _TINY])
    state = kernel_exchange.State(means, free, np.array([int(it.capped)]))
    out, sizes = np.zeros(3, np.int64), np.array([pairs, triples])
    run = fast()["pick"] if quick else kernel_exchange.pick
    rows = out[: int(run(some.columns, state, numbers, sizes, out))].tolist()
    rows = rows or _four(b, some, b.means(chosen), free, slack)
    some.make(chosen, rows)
    return bool(rows)


def _four(
    b: Balance, some: Moves, means: Floats, free: Ints, slack: float
) -> list[int]:
    """Return four moves that gain: two pairs whose loads cancel, by nearest neighbours."""
    from scipy.spatial import KDTree

    i, j = _paired(some, FOURS, slack)
    if len(i) < 2:
        return []
    both = _joined(some, i, j)
    centred = both[1] - both[1].mean(axis=1, keepdims=True)
    near = min(_NEAR, len(centred))
    wanted = (means.mean() - means) - centred
    _, other = KDTree(centred).query(wanted, near)
    one, two = np.repeat(np.arange(len(centred)), near), other.reshape(-1)
    gain, shift, seats = (part[one] + part[two] for part in both)
    found = gain - b.it.lambda_ * ((means + shift).max(axis=1) - means.max())
    if b.it.capped:
        found = np.where((seats > free).any(axis=1), -np.inf, found)
    for at in np.argsort(-found, kind="stable")[:_NEAR].tolist():
        if found[at] <= _TINY:
            break
        rows = [int(r) for pair in (one[at], two[at]) for r in (i[pair], j[pair])]
        if len({int(some.entry[r]) for r in rows}) == 4:
            return rows
    return []


def _paired(some: Moves, most: int, slack: float) -> tuple[Ints, Ints]:
    """Pairs of the first moves that lose less than the slack, as two columns."""
    i, j = np.triu_indices(min(most, len(some.entry)), 1)
    kept = some.paid[i] + some.paid[j] > -slack
    kept &= some.entry[i] != some.entry[j]
    return i[kept], j[kept]


def _joined(some: Moves, i: Ints, j: Ints) -> tuple[Floats, Floats, Ints]:
    """Pairs of moves together: gain, shift, seats."""
    gain, shift, seats = some.gain, some.shift, some.seats
    return gain[i] + gain[j], shift[i] + shift[j], seats[i] + seats[j]
