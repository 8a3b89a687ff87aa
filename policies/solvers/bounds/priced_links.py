"""Utility less what pairs that meet are priced at: a ceiling, component by component."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import Floats, able, grid_of
from policies.solvers.bounds.link_pairs import BITS, LinkPairs
from policies.solvers.bounds.priced_pairs import NODES, PricedPairs
from policies.solvers.components import split
from policies.solvers.features import free_plan

_USUAL = 20  # entries of a component up to which it may have all nodes
_NODES = _USUAL * NODES  # entries looked at in one component

FINE: Final = 20
"""Bits by which worths and prices are finer than the weights' unit."""


@dataclass(frozen=True, eq=False)
class _Component:
    """Entries in the whole problem's numbers; pairs (place, place, part)."""

    entries: list[int]
    pairs: list[tuple[int, int, int]]
    worth: list[dict[int, int]]
    lo: list[int]
    hi: list[int]


@dataclass(frozen=True, eq=False)
class Priced:
    """What came of one round of prices.

    Attributes
    ----------
    bound : Fraction
        No plan has more utility less the price of what is seen.
    paid : Fraction
        Sum of the prices, as they were rounded down.
    seen : float64 array, shape (k,)
        The means that the plan shows, at least.
    plan : Plan
        What was found on the way; empty where a component was cut before its first.
    """

    bound: Fraction
    paid: Fraction
    seen: Floats
    plan: Plan


class PricedLinks:
    """One problem whose links are priced again and again.

    Parameters
    ----------
    problem : Problem
    pairs : LinkPairs
    count : int
        What an observer's sum of disclosures is divided by for its mean.
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
        """Bound utility less the price of what is seen.

        Parameters
        ----------
        price : float64 array, shape (k,)
            Of a mean of 1, by adversary, >= 0.
        over : callable
            Once it is true, components count with their free bound.

        Returns
        -------
        Priced or None
            None where some entry must have more copies than it may.
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
        """Search one component; a copy that was held before costs nothing more."""
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
        """What an entry is worth to those who may have it, times 2^FINE."""
        row = self.problem.weights.row(d)
        return {a: int(row[a]) << FINE for a in np.flatnonzero(self.may[d]).tolist()}
