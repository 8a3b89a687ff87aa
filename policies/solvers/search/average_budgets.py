"""Caps on means while a plan is being built: what each adversary has left, exactly.

The mean of f over many sets is a budget in the sum of f. Sums are integers over one
common denominator, so that no comparison is ever rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, lcm

import numpy as np

from policies.model.disclosure import reachable
from policies.model.problem import Problem
from policies.model.sets import Measure


@dataclass
class _Budget:
    """One cap: sums of f so far and at most, by adversary, in units of the whole."""

    properties: frozenset[int]
    most: list[int]
    total: list[int]


class Means:
    """The sums of f that caps on means allow.

    Parameters
    ----------
    problem : Problem
        Its ``averages`` are kept, but for those of an aggregate: the judge sees to
        them. Without any, nothing is ever full.
    """

    def __init__(self, problem: Problem) -> None:
        sets, k = problem.sets, problem.n_adversaries
        self._power = [max(1, int(m)) for m in sets.measures]
        self._step = [m is Measure.STEP for m in sets.measures]
        self._owner: list[int] = sets.owner.tolist()
        self._full: list[int] = sets.full.tolist()
        self._trusted = problem.trusted
        counted = reachable(sets)
        per = np.bincount(sets.owner[counted], minlength=len(sets.properties)).tolist()
        pairs = {(o, f) for o, f in zip(self._owner, self._full, strict=True)}
        self.whole = lcm(1, *(f ** self._power[o] for o, f in pairs))
        self._budgets = []
        for cap in problem.averages:
            if cap.aggregate is not None:
                continue
            size = [
                cap.over
                or sum(per[p] for p in cap.properties if not self._trusts(p, a))
                for a in range(k)
            ]
            sums = [cap.limit * n * self.whole for n in size]
            most = [ceil(s) - 1 if cap.strict else floor(s) for s in sums]
            budget = _Budget(frozenset(cap.properties), most, [0] * k)
            self._budgets.append(budget)

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def _trusts(self, number: int, adversary: int) -> bool:
        return self._trusted is not None and bool(self._trusted[number, adversary])

    def rise(self, one: int, before: int, after: int) -> int:
        """How much f of a set changes from one load to another, in units."""
        full, owner = self._full[one], self._owner[one]
        if self._step[owner]:
            return self.whole * ((after >= full) - (before >= full))
        power = self._power[owner]
        change = min(after, full) ** power - min(before, full) ** power
        return int(change * (self.whole // full**power))

    def add(self, one: int, adversary: int, before: int, after: int) -> None:
        """Count a change of load."""
        owner = self._owner[one]
        if self._trusts(owner, adversary):
            return
        change = self.rise(one, before, after)
        for budget in self._budgets:
            if owner in budget.properties:
                budget.total[adversary] += change

    def near(self, sets: int) -> list[int]:
        """Adversaries who might not have room for f = 1 in so many further sets."""
        need = sets * self.whole
        return sorted(
            {
                a
                for budget in self._budgets
                for a, (most, total) in enumerate(
                    zip(budget.most, budget.total, strict=True)
                )
                if most - total < need
            }
        )

    def fits(self, adversary: int, changes: list[tuple[int, int, int]]) -> bool:
        """Whether the caps allow these changes: (set, load before, load after)."""
        for budget in self._budgets:
            rise = sum(
                self.rise(one, before, after)
                for one, before, after in changes
                if self._owner[one] in budget.properties
                and not self._trusts(self._owner[one], adversary)
            )
            if rise and budget.total[adversary] + rise > budget.most[adversary]:
                return False
        return True
