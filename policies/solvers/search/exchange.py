"""EXCHANGE: linear average tradeoffs as load balancing (paper, section 4.2; makespan).

With linear f the mean of one adversary is a sum of one cost an entry, so the tradeoff
has as many coupling rows as adversaries. Their prices come from the relaxation, whose
vertex splits fewer than k entries. What rounding loses is won back by meeting in the
middle where few plans are near the relaxation, else by exchanging two to four entries at
once: of the moves that cost least at these prices, those whose loads fit together. The
prices prove the bound; a search that came to its end lowers it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.problem import Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import Bools, Ints, Measure
from policies.solvers.interfaces import Limits, Solution, answer
from policies.solvers.load_balance import Balance, relaxed, scaled
from policies.solvers.load_tables import loads, plain, seated, unseated
from policies.solvers.search.exchange_moves import improve, moves
from policies.solvers.search.meet_in_the_middle import FEW, MANY, nearest
from policies.solvers.search.reduced_cost_fixing import decided, regret

Floats = npt.NDArray[np.float64]

STARTS: Final = 8
"""Roundings of the relaxation that are improved."""

KICKS: Final = 60
"""Times that the best plan is disturbed and improved again, for each unit of work."""

CLOSE: Final = 1e-8
"""Gap, relative to the value, at which the search ends."""

CORE: Final = 80
"""Open pairs up to which they are searched exactly."""

ALIKE: Final = 2000
"""The same where adversaries of one price are put together."""

ROWS: Final = 6
"""Rows of one price up to which much time is given to meeting in the middle."""

_NODES: Final = 20_000
_ROOT: Final = 2_000  # nodes where adversaries are put together
_SHARE: Final = 0.4  # of the time that is left, at most, for each such search
_MOST: Final = 1e6  # units of work, where there is no limit
_SPLIT: Final = 1e-9  # values further than this from 0 and 1 are fractional
_KICKED: Final = 40  # moves that a kick draws from, cheapest first
_KICK: Final = 3  # moves of a kick


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
        began, over = limits.clock(), limits.deadline()
        b = Balance.of(loads(problem))
        x, prices, rent = relaxed(b, limits)
        bound = b.bound(prices, rent)
        best = _rounded(b, x, prices, rng, [True], over, fours=False)
        even = False
        if best is not None:
            rest = limits.left(began, _SHARE)
            best, bound, even = proven(b, best, (prices, rent), bound, FEW, rest)
        if not even and not (best is not None and over()):
            starts = max(1, int(min(STARTS, limits.work * STARTS)))
            first = [i == 0 for i in range(starts)]
            others = _rounded(b, x, prices, rng, first, over)
            plans = [p for p in (best, others) if p is not None]
            best = max(plans, key=b.value, default=None)
        few = int(_alike(b, prices).max()) < ROWS and not b.it.capped
        if best is not None and few and not even:
            rest = limits.left(began, _SHARE)
            best, bound, _ = proven(b, best, (prices, rent), bound, MANY, rest)
        if best is None:
            return unseated(bound)
        kicks = int(min(limits.work, _MOST) * KICKS)
        end = _kicked(b, best, prices, rng, kicks, bound, limits, over)
        told = ("roundings of the relaxation, improved by exchanges",)
        return answer(
            problem, plan_of(best), bound=Fraction(bound), tried=told, stopped=end
        )


def proven(
    b: Balance,
    best: Bools,
    duals: tuple[Floats, Floats | None],
    bound: float,
    most: int,
    limits: Limits,
) -> tuple[Bools, float, bool]:
    """Search what a better plan could do differently, where that is little.

    Adversaries of one price are put together first: the relaxation does not tell them
    apart, so what it splits among them can be balanced, and the few rows that remain are
    soon searched.

    Parameters
    ----------
    b : Balance
    best : bool array, shape (n, k)
        A plan.
    duals : (float array (k,), float array (k,) or None)
        Prices of the means, and of places.
    bound : float
    most : int
        Size of the search: see :mod:`policies.solvers.search.meet_in_the_middle`.
    limits : Limits

    Returns
    -------
    best : bool array, shape (n, k)
        The plan, or a better one.
    bound : float
        Lowered where the search says so.
    even : bool
        Whether some plan reaches the bound but for the balance within rows.
    """
    prices, rent = duals
    over, each = limits.deadline(), np.arange(len(prices))
    alike = _alike(b, prices)
    top, even = b.bound(prices, rent), False
    for row in (alike, each)[int(alike.max() == each[-1]) :]:
        value = b.value(best)
        if closed(value, bound):
            return best, bound, True
        found, lost, whole = None, 0.0, False
        if not b.it.capped:
            found, lost, whole = nearest(b, prices, row, top - value, most, over)
        plans, ceiling = [found], top - lost
        if not whole and (b.it.capped or row is each):
            other, least = _searched(b, duals, top - value, row, limits)
            plans, ceiling = [found, other], min(ceiling, least)
        bound = min(bound, max(ceiling, value + 1e-9))
        for plan in plans:
            if plan is not None:
                improve(b, plan, prices, over)
                best = max(best, plan, key=b.value)
        even = even or whole
    return best, bound, even


def _alike(b: Balance, prices: Floats) -> Ints:
    """Number the adversaries from 0, those of one price alike."""
    price = scaled(prices, b.it.lambda_) / (b.it.lambda_ or 1.0)
    return np.unique(np.round(price, 9), return_inverse=True)[1]


def _searched(
    b: Balance,
    duals: tuple[Floats, Floats | None],
    gap: float,
    row: Ints,
    limits: Limits,
) -> tuple[Bools | None, float]:
    """Branch and bound over the pairs that are open, unless they are many.

    ``gap`` is between what the prices prove, whose regrets are looked at, and a plan.
    """
    prices, rent = duals
    reduced = b.it.worth - b.cost * scaled(prices, b.it.lambda_)
    ideal, loss = regret(b.it, reduced - (0.0 if rent is None else rent))
    open_ = loss <= gap + 1e-9
    each = len(np.unique(row)) == len(row)
    if open_.sum() > (CORE if each else ALIKE):
        return None, np.inf
    nodes = _NODES if each else _ROOT
    options: dict[str, float] = {"node_limit": nodes, "mip_rel_gap": 0.0}
    if limits.seconds != np.inf:
        options["time_limit"] = max(limits.seconds, 0.01)
    found, ceiling = decided(b.it, b.cost, b.base, (ideal, open_), options, row)
    return found, b.it.shift + ceiling


def closed(value: float, bound: float) -> bool:
    """Whether nothing is left to gain."""
    return bound - value <= CLOSE * (1 + abs(bound))


def ending(limits: Limits) -> str:
    """Why the deadline says that a search is over."""
    return "interrupt" if limits.stopped() else "time"


def _rounded(
    b: Balance,
    x: Floats,
    prices: Floats,
    rng: np.random.Generator,
    first: list[bool],
    over: Callable[[], bool],
    *,
    fours: bool = True,
) -> Bools | None:
    """Return the best of some roundings after exchanges."""
    best: Bools | None = None
    for one in first:
        if over() and not one:
            break
        chosen = _start(b, x, prices, rng, first=one)
        if chosen is None:
            continue
        improve(b, chosen, prices, over, fours=fours)
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
        if closed(value, bound):
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
