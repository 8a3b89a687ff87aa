"""Bounds for cosines in a tradeoff or below a limit, by components of conflicting pairs.

Each pair that somebody holds discloses at least a fixed part (:mod:`link_pairs`). Two
relaxations follow, and the lower bound counts:

- *Prices.* The highest mean over adversaries is at least any weighted mean of theirs.
  So with prices y_a on what adversary a sees (their sum is lambda in a tradeoff) a plan
  is worth at most the best of utility minus priced pairs, for which components are
  solved one by one (Lagrangian relaxation: Geoffrion 1974). A few rounds move the prices
  to where most is seen.
- *Levels.* A worst disclosure below a level keeps all pairs apart that disclose more. So
  a tradeoff is worth at most the best, over levels, of the utility with those pairs
  apart and the price of the level below; a limit tau is one such level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.problem_arrays import Floats, able, grid_of
from policies.model.sets import SetSystem
from policies.solvers.bounds.link_pairs import BITS, LinkPairs, root_down
from policies.solvers.components import split
from policies.solvers.exact.epsilon_constraint import thinned
from policies.solvers.features import free_plan
from policies.solvers.interfaces import Solution, Verdict, answer, free_bound

NODES: Final = 2_000
"""Nodes for one component: 500, 2,000 and 8,000 prove the same bounds on cosine (100 users,
k = 3, t = 2, seeds 0 and 1, work .03)."""

DEPTH: Final = 150
"""Entries assigned one after another, at most."""

CHOICES: Final = 300
"""Choices of adversaries above which an entry is not branched on."""

Choice = tuple[int, tuple[int, ...]]  # worth minus price; the adversaries

_USUAL = 20  # entries of a component up to which it gets all nodes
_NODES = _USUAL * NODES  # entries visited in one component

FINE: Final = 20
"""Additional bits of worths and prices below the weights' unit."""

ROUNDS: Final = 8
"""Updates of prices: on cosine (100 users, k = 3, t = 2, seeds 0 and 1, work .03)
the bounds are .94667 and .94824; .94696 and .94845 after 2, .94666 and .94824 after 16."""

LEVELS: Final = 6
"""Levels of a worst disclosure to solve for.

Worst cosine, 100 users, k = 3, t = 2, 2 s of CPU, seeds 0 and 1: bounds .9039 and .9025 (values
.8949 and .8898); with half .9338 and .9290, with twice .8949 (proven) and .9525.
"""

_LARGEST: Final = 400_000  # pairs times adversaries above which prices are not tried

Question = Callable[[Problem], Solution]


def with_pairs_apart(problem: Problem, sets: SetSystem) -> Problem:
    """Return the problem of keeping these pairs apart, for utility alone."""
    return replace(
        problem,
        sets=sets,
        links=None,
        goal=Goal(),
        averages=(),
        trusted=None,  # nobody is trusted with a link
        strict_history=False,
    )


@dataclass
class LinkBounds:
    """Both relaxations of one problem with links that count.

    Parameters
    ----------
    problem : Problem
    pairs : LinkPairs
        The conflicting pairs of its entries.
    solve : callable
        Solves or bounds a problem of pairs kept apart.
    over : callable
        Whether time is over: then the bounds so far are returned.
    """

    problem: Problem
    pairs: LinkPairs
    solve: Question
    over: Callable[[], bool]
    best: Solution | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        goal, links = self.problem.goal, self.problem.links
        assert links is not None
        self.tradeoff = goal.objective is Objective.TRADEOFF
        self.count = goal.over or links.n_links or 1
        self.utility = free_bound(self.problem) - self._reward(Fraction(0))

    def bound(self, apart: Solution) -> Solution:
        """Return the lowest bound, or INFEASIBLE.

        Parameters
        ----------
        apart : Solution
            Solution of the problem with all pairs kept apart, by ``solve``.

        Returns
        -------
        Solution
            Without a plan: INFEASIBLE with its core if pairs that a limit keeps apart
            cannot be kept apart, else UNKNOWN with the bound.
        """
        found = free_bound(self.problem)
        links = self.problem.links
        assert links is not None
        if links.tau is not None:
            solution = self._apart(
                links.tau**2 if links.tau > 0 else Fraction(0), apart
            )
            if solution.verdict is Verdict.INFEASIBLE:
                return solution
            found = min(found, solution.bound + self._reward(Fraction(0)))
        goal = self.problem.goal
        if self.tradeoff and goal.lambda_ > 0 and goal.aggregate is None:
            found = min(found, self._by_level(apart))
        if goal.average if self.tradeoff else links.mean_tau is not None:
            found = min([found, *self._by_price()])
        return Solution(
            Verdict.UNKNOWN, bound=found, tried=("bounds by pairs that meet",)
        )

    def _reward(self, f: Fraction) -> Fraction:
        """Return the objective's term for a disclosure."""
        goal = self.problem.goal
        return goal.lambda_ * (goal.tau - f) if self.tradeoff else Fraction(0)

    # -- levels --------------------------------------------------------------------

    def _apart(self, square: Fraction, apart: Solution) -> Solution:
        """Solve for utility alone, with all pairs kept apart that disclose so much."""
        chosen = np.array([w >= square for w in self.pairs.worst], np.bool_)
        sets = self.pairs.kept_apart(chosen)
        if sets.n_sets == self.pairs.sets.n_sets:
            return apart
        if self.over():
            return Solution(Verdict.UNKNOWN, bound=self.utility)
        return self.solve(with_pairs_apart(self.problem, sets))

    def _by_level(self, apart: Solution) -> Fraction:
        """Bound a tradeoff by the pairs that keep disclosure below each level."""
        average, squares = self.problem.goal.average, sorted(set(self.pairs.worst))
        if average:  # one pair is one part of a mean
            squares, scale = squares[:1], Fraction(1, self.count)
        else:
            squares, scale = thinned(squares, LEVELS), Fraction(1)
        before, values = Fraction(0), []
        for square in squares:
            solution = self._apart(square, apart)
            if solution.verdict is not Verdict.INFEASIBLE:
                values.append(solution.bound + self._reward(before))
            before = root_down(square) * scale
        return max([*values, self.utility + self._reward(before)])

    # -- prices --------------------------------------------------------------------

    def _by_price(self) -> Iterator[Fraction]:
        """Yield bounds by prices, round after round."""
        problem, links = self.problem, self.problem.links
        k = problem.n_adversaries
        if not self.pairs.part or not k or len(self.pairs.part) * k > _LARGEST:
            return
        priced = PricedLinks(problem, self.pairs, self.count)
        total, limit = float(problem.goal.lambda_), Fraction(0)
        if not self.tradeoff and links is not None and links.mean_tau is not None:
            limit = links.mean_tau
            best = float(problem.weights.best(problem.hi) * problem.weights.unit)
            total = best / max(float(limit), 1e-6) / 4
        price = np.full(k, total / k)
        for number in range(1, ROUNDS + 1):
            found = priced.ceiling(price * (1 - 1e-9), self.over)
            if found is None:
                return
            self._keep(found.plan)
            pay = self._reward(Fraction(0)) if self.tradeoff else found.paid * limit
            yield found.bound + pay
            if self.over():
                return
            seen = found.seen
            top = max(float(seen.max()), float(limit), 1e-12)
            if self.tradeoff:
                price = price * (1 + (seen - seen.mean()) / top / number)
                price *= total / price.sum()
            else:
                price = price * np.maximum(1 + (seen - float(limit)) / top / number, 0)

    def _keep(self, plan: Plan) -> None:
        """Keep the best plan found with prices."""
        made = answer(self.problem, plan, tried=("pairs at a price",))
        better = self.best is None or made.value > self.best.value
        if made.verdict is Verdict.SOLVED and better:
            self.best = made


@dataclass(frozen=True, eq=False)
class _Component:
    """Entries in the whole problem's numbering; pairs (index, index, part)."""

    entries: list[int]
    pairs: list[tuple[int, int, int]]
    worth: list[dict[int, int]]
    lo: list[int]
    hi: list[int]


@dataclass(frozen=True, eq=False)
class Priced:
    """The result of one round of prices.

    Attributes
    ----------
    bound : Fraction
        Upper bound on utility minus the price of what is seen.
    paid : Fraction
        Sum of the prices, as rounded down.
    seen : float64 array, shape (k,)
        Lower bounds on the plan's means.
    plan : Plan
        A plan found on the way; empty if a component was cut short before its first.
    """

    bound: Fraction
    paid: Fraction
    seen: Floats
    plan: Plan


class PricedLinks:
    """A problem whose links are priced repeatedly.

    Parameters
    ----------
    problem : Problem
    pairs : LinkPairs
    count : int
        Divisor of an observer's sum of disclosures for its mean.
    """

    def __init__(self, problem: Problem, pairs: LinkPairs, count: int) -> None:
        self.problem, self.count = problem, count
        self.may, self.held = able(problem), grid_of(problem, problem.history)
        sets, parts = pairs.sets, split(pairs.sets)
        self.components = []
        busy = np.unique(parts.label[sets.entry])
        for c in busy.tolist():
            rows = slice(int(parts.entry_start[c]), int(parts.entry_start[c + 1]))
            entries = parts.entry[rows].tolist()
            place = {d: i for i, d in enumerate(entries)}
            met = []
            for one in parts.set[parts.set_start[c] : parts.set_start[c + 1]].tolist():
                ends = [place[d] for d in sets.members(one).tolist()]
                met.append((ends[0], ends[-1], pairs.part[one]))
            lo, hi = (x[entries].tolist() for x in (problem.lo, problem.hi))
            worth = [self._worth(d) for d in entries]
            self.components.append(_Component(entries, met, worth, lo, hi))
        loose = ~np.isin(parts.label, busy)
        self.loose = int(problem.weights.best(np.where(loose, problem.hi, 0)))
        free = free_plan(problem)
        at = loose[free.entry]
        rest = zip(free.entry[at].tolist(), free.adversary[at].tolist(), strict=True)
        self.rest = list(rest)

    def ceiling(self, price: Floats, over: Callable[[], bool]) -> Priced | None:
        """Bound utility minus the price of what is seen.

        Parameters
        ----------
        price : float64 array, shape (k,)
            Price of a mean of 1, by adversary, >= 0.
        over : callable
            Once True, components count with their free bound.

        Returns
        -------
        Priced or None
            None if some entry must have more copies than it may.
        """
        unit = self.problem.weights.unit
        step = self.count * unit / 2**BITS
        whole = [int(Fraction(y) / step) for y in price.tolist()]
        total, seen = self.loose << FINE, np.zeros(len(whole))
        given, every = self.rest.copy(), True
        for component in self.components:
            nodes = _NODES // max(len(component.entries), _USUAL)
            search = self._search(component, whole, 0 if over() else nodes)
            if search.ceiling is None:
                return None
            total += search.ceiling
            every = every and search.best is not None
            for d, who in zip(component.entries, search.plan, strict=False):
                given += [(d, a) for a in who]
            for i, j, part in component.pairs if search.plan else ():
                for a in set(search.plan[i]) & set(search.plan[j]):
                    seen[a] += part
        return Priced(
            bound=total * unit / 2**FINE,
            paid=sum(whole) * step,
            seen=seen / self.count / 2**BITS,
            plan=Plan.of(given) if every else Plan(),
        )

    def _search(
        self, component: _Component, price: list[int], nodes: int
    ) -> PricedPairs:
        """Search one component; a copy held before has no further price."""
        size, k = len(component.entries), len(price)
        alone = [[0] * k for _ in range(size)]
        near: list[dict[int, list[int]]] = [{} for _ in range(size)]
        for i, j, part in component.pairs:
            one, two = (self.held[component.entries[x]] for x in (i, j))
            costs = [part * y >> 2 * BITS - FINE for y in price]
            both = [0] * k
            for a, cost in enumerate(costs):
                if i != j and not one[a] and not two[a]:
                    both[a] = cost
                elif not one[a]:
                    alone[i][a] += cost
                elif not two[a]:
                    alone[j][a] += cost
            near[i][j] = near[j][i] = both
        worth, lo, hi = component.worth, component.lo, component.hi
        return PricedPairs(worth, alone, near, lo, hi, nodes)

    def _worth(self, d: int) -> dict[int, int]:
        """Return an entry's worth to those who may have it, times 2^FINE."""
        row = self.problem.weights.row(d)
        return {a: int(row[a]) << FINE for a in np.flatnonzero(self.may[d]).tolist()}


@dataclass(eq=False)
class PricedPairs:
    """A component, which is searched on construction.

    Attributes
    ----------
    worth : sequence of dict of int to int
        By entry: worth of a copy, by the adversaries who may get it.
    price : list of list of int
        By entry and adversary: price of a copy by itself, >= 0.
    near : sequence of dict of int to list of int
        By entry: the entries in conflict with it, and by adversary the price of both.
    lo, hi : sequence of int
        Copies.
    nodes : int
        Number of nodes to visit.
    best : int or None
        Value of the best assignment found.
    plan : list of tuple of int
        Adversaries of each entry in that assignment.
    ceiling : int or None
        Upper bound on all assignments; None if there is none.
    """

    worth: Sequence[dict[int, int]]
    price: list[list[int]]
    near: Sequence[dict[int, list[int]]]
    lo: Sequence[int]
    hi: Sequence[int]
    nodes: int = NODES
    best: int | None = None
    plan: list[tuple[int, ...]] = field(default_factory=list)
    ceiling: int | None = None

    def __post_init__(self) -> None:
        self._nodes = self._depth = 0
        self._chosen: list[tuple[int, ...]] = [()] * len(self.worth)
        self._deepen(0, set(range(len(self.worth))))
        if self.best is not None:
            self._leave(self.best)

    def _leave(self, bound: int) -> None:
        """Record the bound of what is not searched."""
        self.ceiling = bound if self.ceiling is None else max(self.ceiling, bound)

    def _net(self, d: int) -> list[tuple[int, int]]:
        """Return (worth minus price, adversary) of all who may get the entry, best first."""
        price = self.price[d]
        return sorted((price[a] - w, a) for a, w in self.worth[d].items())

    def _top(self, d: int) -> Choice | None:
        """Return the best choice at present prices; None if too few may get the entry."""
        net = self._net(d)
        if len(net) < self.lo[d]:
            return None
        taken = [
            (cost, a)
            for i, (cost, a) in enumerate(net[: self.hi[d]])
            if i < self.lo[d] or cost < 0
        ]
        return -sum(cost for cost, _ in taken), tuple(a for _, a in taken)

    def _choices(self, d: int) -> list[Choice]:
        """Return all choices, best first."""
        net = {a: -cost for cost, a in self._net(d)}
        sizes = range(self.lo[d], min(self.hi[d], len(net)) + 1)
        found = (who for size in sizes for who in combinations(sorted(net), size))
        return sorted(
            ((sum(net[a] for a in who), who) for who in found),
            key=lambda choice: (-choice[0], choice[1]),
        )

    def _deepen(self, value: int, left: set[int]) -> None:
        """Assign the remaining entries in all ways that may still beat the best."""
        self._nodes += 1
        tops: dict[int, Choice] = {}
        for d in left:
            top = self._top(d)
            if top is None:
                return
            tops[d] = top
        total = value + sum(worth for worth, _ in tops.values())
        if self.best is not None and total <= self.best:
            return
        clash = max(self._clashes(tops), default=None)
        if clash is None:
            self.best, self.plan = total, self._chosen.copy()
            for d, (_, who) in tops.items():
                self.plan[d] = who
            return
        d = -clash[1]
        width = sum(
            comb(len(self.worth[d]), size) for size in range(self.lo[d], self.hi[d] + 1)
        )
        if self._nodes > self.nodes or self._depth >= DEPTH or width > CHOICES:
            self._leave(total)
            return
        self._branch(d, value, total - value - tops[d][0], left - {d})

    def _branch(self, d: int, value: int, others: int, rest: set[int]) -> None:
        """Try the choices of one entry."""
        for worth, who in self._choices(d):
            bound = value + worth + others
            if self.best is not None and bound <= self.best:
                return
            if self._nodes > self.nodes:  # choices come best first
                self._leave(bound)
                return
            self._charge(d, who, rest, 1)
            self._chosen[d] = who
            self._depth += 1
            self._deepen(value + worth, rest)
            self._depth -= 1
            self._charge(d, who, rest, -1)

    def _clashes(self, tops: dict[int, Choice]) -> Iterator[tuple[int, int]]:
        """Yield (price, -entry) of entries whose best choices conflict."""
        for d, (_, who) in tops.items():
            cost = sum(
                price[a]
                for e, price in self.near[d].items()
                if e in tops
                for a in who
                if a in tops[e][1]
            )
            if cost:
                yield cost, -d

    def _charge(self, d: int, who: tuple[int, ...], rest: set[int], sign: int) -> None:
        """Add the price of conflicts to the remaining neighbours, or subtract it again."""
        for e, price in self.near[d].items():
            if e in rest:
                for a in who:
                    self.price[e][a] += sign * price[a]
