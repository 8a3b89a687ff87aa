"""HITTING-SET: step functions with t = k, where every entry may go to everybody.

A plan is then given by what is withheld (paper, section 4.1, with t = k): for each
adversary a set W_a of entries that hits every D_p, with no entry withheld from all. Its
cost is

    sum over a of sum over d in W_a of u_da,

and u is the best utility minus the cost. Without the last rule the adversaries are
independent, so the sum of their cheapest hitting sets is a lower bound on the cost. To
find a plan that attains it, the adversaries are solved in turn, each without the
entries that the others used up; such a plan is optimal.

The cheapest hitting set of one adversary is found and proven by branch and bound:

* duals y >= 0 of the covering LP, rounded down to integers and kept only where y
  satisfies every column (sum of y over the sets that an entry hits <= its cost): by weak
  duality sum(y) is an exact bound;
* an entry whose reduced cost exceeds the gap to the best cover is in no cheaper cover,
  and is left out (reduced-cost fixing: Balas and Ho, Set covering algorithms using
  cutting planes, heuristics, and subgradient optimization, 1980).

In a tradeoff a plan that completes any set has f = 1, so its bound is lower by lambda.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import NO_CAP, Bools, Ints
from policies.solvers.exact.cpsat import refuted
from policies.solvers.interfaces import Limits, Solution, answer
from policies.solvers.kernels import cover as kernels_cover
from policies.solvers.kernels.compiling import FROM, kernels, ready
from policies.solvers.kernels.cover import BEST, FOUND, OPEN, STATES, Cover
from policies.solvers.search.local_search import Meter, with_end

# Step problems with k = t prove the same optima in the same time with half and twice of _TRIES
# (500, 50 and 500, 100 of k = 2: .04 and .12 s) and of _TURNS (60, 12 and 200, 20 of k = 5, 200,
# 20 of k = 4: .02 to .05 s; sparse 60, 100, 5, 5: .48 s). With one turn that one ends in .8413 of
# .8484, unproven; 24 are all orders of four adversaries.
_NODES = 20_000  # nodes between two checks of the clock
_TRIES = 30  # randomised greedy covers
_TURNS = 24  # orders of adversaries to try
_ROWS = 400  # members visited in one node, about: its price in work


class HittingSet:
    """Exact for step functions where every entry may go to everybody."""

    def supports(self, problem: Problem) -> bool:
        """Step sets, 0 or 1 to k copies, no history and no other limit."""
        sets, goal = problem.sets, problem.goal
        size = np.diff(sets.start)
        whole = (sets.full >= size) & ((sets.cap >= size) | (sets.cap == size - 1))
        plain = whole & ~sets.classes & (sets.power == 0)
        tradeoff = goal.objective is Objective.TRADEOFF
        return bool(
            plain.all()
            and (sets.amount == 1).all()
            and (problem.hi >= problem.n_adversaries).all()
            and (problem.lo <= min(1, problem.n_adversaries)).all()
            and not (tradeoff and (not goal.worst or (sets.cap != NO_CAP).any()))
            and not len(problem.history)
            and not len(problem.forbidden)
            and problem.capacity is None
            and problem.links is None
            and problem.utilities is None
            and not problem.averages
            and not problem.coalitions
        )

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Withhold as little as possible."""
        meter = Meter(limits)
        top = problem.weights.best(problem.hi) * problem.weights.unit
        full = np.ones((problem.n_entries, problem.n_adversaries), np.bool_)
        stuck = _stuck(problem)
        tradeoff = problem.goal.objective is Objective.TRADEOFF
        if stuck and not tradeoff:
            return refuted(problem, "an entry is a set by itself, for everybody")
        if stuck:
            leak = problem.goal.tau - _worst(problem, full)
            bound = top + problem.goal.lambda_ * leak
            return with_end(answer(problem, plan_of(full), bound=bound), meter)
        withheld, cost = _Turns(problem, rng, meter).solve()
        bound = top - cost * problem.weights.unit
        plans = [] if withheld is None else [plan_of(~withheld)]
        if tradeoff:
            goal = problem.goal
            bound = max(bound, top - goal.lambda_) + goal.lambda_ * goal.tau
            plans.append(plan_of(full))
        made = [answer(problem, p, bound=bound, tried=_TRIED) for p in plans]
        if not made:
            made = [answer(problem, Plan(), bound=bound, tried=_TRIED)]
        return with_end(
            max(made, key=lambda s: (s.verdict == "SOLVED", s.value)), meter
        )


_TRIED = ("cheapest hitting sets",)


def _worst(problem: Problem, chosen: Bools) -> Fraction:
    from policies.judging.judge import judge

    return judge(problem, plan_of(chosen)).f


def _binding(problem: Problem, a: int) -> Ints:
    """Return the sets that the adversary must not hold whole."""
    sets = problem.sets
    size = np.diff(sets.start)
    tradeoff = problem.goal.objective is Objective.TRADEOFF
    bind = sets.full == size if tradeoff else sets.cap < size
    judged = problem.judged()
    if judged is not None:
        bind = bind & judged[sets.owner, a]
    return np.flatnonzero(bind & (size > 0))


def _stuck(problem: Problem) -> bool:
    """Whether some entry that must be shown is a set by itself for every adversary."""
    alone = problem.lo.astype(np.bool_)
    size = np.diff(problem.sets.start)
    for a in range(problem.n_adversaries):
        mine = np.zeros(problem.n_entries, np.bool_)
        bind = _binding(problem, a)
        mine[problem.sets.entry[problem.sets.start[:-1][bind[size[bind] == 1]]]] = True
        alone &= mine
    return bool(alone.any()) and problem.n_adversaries > 0


@dataclass(frozen=True)
class _Found:
    """A hitting set, its cost, and a lower bound on the cost of any."""

    entries: Ints
    cost: int
    least: int


class _Turns:
    """Solves the adversaries one after another.

    Parameters
    ----------
    problem, rng, meter
    """

    def __init__(
        self, problem: Problem, rng: np.random.Generator, meter: Meter
    ) -> None:
        self.problem, self.rng, self.meter = problem, rng, meter
        self.n, self.k = problem.n_entries, problem.n_adversaries
        size = len(problem.sets.entry) * self.k
        self.search = kernels("cover", quick=size >= FROM)["search"]
        rows = np.arange(self.n)[:, None]
        self.cost = problem.weights.of(rows, np.arange(self.k)[None, :])

    def solve(self) -> tuple[Bools | None, int]:
        """Return what is withheld, shape (n, k), or None; and a lower bound on its cost."""
        free = np.ones(self.n, np.bool_)
        alone = [self._one(a, free, 0) for a in range(self.k)]
        least = sum(one.least for one in alone if one is not None)
        if any(one is None for one in alone):
            return None, 0
        best, price = None, 0
        for turn, order in enumerate(permutations(range(self.k))):
            if turn >= _TURNS or (turn and self.meter.ended):
                break
            found = self._in_turn(order, alone)
            if found is None:
                continue
            cost = int(self.cost[found].sum())
            if best is None or cost < price:
                best, price = found, cost
            if price <= least:
                break
        return best, least

    def _in_turn(
        self, order: tuple[int, ...], alone: list[_Found | None]
    ) -> Bools | None:
        """Withhold for adversaries in this order; each entry keeps at least ``lo``."""
        withheld = np.zeros((self.n, self.k), np.bool_)
        for a in order:
            free = withheld.sum(axis=1) < self.k - self.problem.lo
            one = alone[a]
            assert one is not None
            if not free[one.entries].all():
                one = self._one(a, free, one.cost)
                if one is None:
                    return None
            withheld[one.entries, a] = True
        return withheld

    def _one(self, a: int, free: Bools, floor: int) -> _Found | None:
        """Find the cheapest hitting set of one adversary among the free entries."""
        sets = self.problem.sets
        bind = _binding(self.problem, a)
        table = np.zeros((len(bind), self.n), np.bool_)
        size = np.diff(sets.start)[bind]
        rows = np.repeat(np.arange(len(bind)), size)
        offset = np.repeat(sets.start[bind] - np.cumsum(size) + size, size)
        table[rows, sets.entry[offset + np.arange(len(rows))]] = True
        table &= free[None, :]
        cost = self.cost[:, a]
        gifts = np.flatnonzero((cost == 0) & table.any(axis=0))  # free of cost
        table = table[~table[:, gifts].any(axis=1)]
        if not table.any(axis=1).all():
            return None
        if not len(table):
            return _Found(gifts, 0, 0)
        chosen, price, least = self._search(table, cost, floor)
        return _Found(np.concatenate([gifts, chosen]), price, least)

    def _search(self, table: Bools, cost: Ints, floor: int) -> tuple[Ints, int, int]:
        """Return the best cover, its cost, and a proven lower bound."""
        best = self._greedy(table, cost)
        price = int(cost[best].sum())
        dual = _duals(table, cost)
        low = int(dual.sum())
        reduced = cost - dual @ table
        kept = np.flatnonzero(table.any(axis=0) & (low + reduced < price))
        if price <= max(low, floor) or not len(kept):
            return best, price, price if price <= low or not len(kept) else low
        part = table[:, kept]
        if not part.any(axis=1).all():  # no cheaper cover exists
            return best, price, price
        cover = ready(_cover(part, cost[kept], dual, price))
        state = 1
        while state and self.meter.spend(0):
            state = int(self.search(cover, _NODES, floor))
            self.meter.spend(_NODES * _ROWS * 0.05)
        if cover.state[FOUND]:
            best = kept[cover.best[: cover.state[FOUND]]]
            price = int(cover.state[BEST])
        return best, price, max(low, floor) if state else price

    def _greedy(self, table: Bools, cost: Ints) -> Ints:
        """Return the cheapest of several randomised greedy covers."""
        best: list[int] = []
        price = -1
        for turn in range(_TRIES):
            if turn and not self.meter.spend(table.size):
                break
            noise = 1.0 + (0.3 * self.rng.random(table.shape[1]) if turn else 0.0)
            chosen = _greedy(table, cost * noise)
            total = int(cost[chosen].sum())
            if price < 0 or total < price:
                best, price = chosen, total
        return np.array(sorted(best), np.int64)


def _greedy(table: Bools, cost: Any) -> list[int]:  # noqa: ANN401 - floats
    """Take the column that hits most for its cost until all are hit; drop spare ones."""
    hits = table.sum(axis=0).astype(np.float64)
    open_ = np.ones(len(table), np.bool_)
    chosen: list[int] = []
    while open_.any():
        column = int(np.argmax(hits / np.maximum(cost, 1e-9)))
        chosen.append(column)
        now = open_ & table[:, column]
        hits -= table[now].sum(axis=0)
        open_ &= ~now
    times = table[:, chosen].sum(axis=1)
    for column in sorted(chosen, key=lambda c: -cost[c]):
        if len(chosen) > 1 and (times[table[:, column]] > 1).all():
            chosen.remove(column)
            times -= table[:, column]
    return chosen


def _duals(table: Bools, cost: Ints) -> Ints:
    """Return integer duals y >= 0 of the covering LP with ``y @ table <= cost``."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    used = np.flatnonzero(table.any(axis=0))
    scale = float(cost[used].min())
    made = linprog(
        cost[used] / scale,
        A_ub=-csr_matrix(table[:, used].astype(np.float64)),
        b_ub=-np.ones(len(table)),
        method="highs",
    )
    if made.status != 0:
        return np.zeros(len(table), np.int64)
    real = np.maximum(-made.ineqlin.marginals, 0.0) * scale
    for shrink in (1e-9, 1e-7, 1e-5, 1e-3):
        dual: Ints = np.floor(real * (1.0 - shrink)).astype(np.int64)
        if (dual @ table <= cost).all():
            return dual
    return np.zeros(len(table), np.int64)


def _cover(table: Bools, cost: Ints, dual: Ints, price: int) -> Cover:
    """Set up a search for a cheaper cover."""
    m, c = table.shape
    rows, columns = np.nonzero(table)
    by_column = np.argsort(columns, kind="stable")
    state = np.zeros(STATES, np.int64)
    state[BEST], state[OPEN] = price, m
    state[kernels_cover.DUAL] = dual.sum()
    zero: Callable[[int], Ints] = lambda size: np.zeros(size, np.int64)  # noqa: E731
    return Cover(
        set_start=np.searchsorted(rows, np.arange(m + 1)).astype(np.int64),
        set_column=columns.astype(np.int64),
        column_start=np.searchsorted(columns[by_column], np.arange(c + 1)).astype(
            np.int64
        ),
        column_set=rows[by_column].astype(np.int64),
        cost=np.ascontiguousarray(cost, np.int64),
        dual=dual,
        hits=table.sum(axis=0).astype(np.int64),
        banned=zero(c),
        covered=zero(m),
        choices=table.sum(axis=1).astype(np.int64),
        child=np.zeros((m + 1, c), np.int64),
        place=zero(m + 1),
        many=zero(m + 1),
        rest=zero(m + 1),
        picked=zero(m + 1),
        best=zero(m + 1),
        tally=zero(m + 1),
        state=state,
    )
