"""Limits on sums of f as rows of a CP-SAT model: means, and aggregates of any shape.

All numbers are integers, so what CP-SAT says of them is exact. Rows whose integers would
not fit are left out, or rounded down onto a coarser grid where that is asked for: the
model then says too little, never too much, and the judge has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, lcm
from typing import Any, Final

import numpy as np

from policies.model.aggregates import Aggregate, Shape
from policies.model.disclosure import cap_at
from policies.model.problem import Average, Problem
from policies.model.sets import Bools, Measure
from policies.solvers.exact.linear_terms import counted
from policies.solvers.interfaces import never

MOST: Final = 2**50
"""Largest sum that a row may come to."""

LISTED: Final = 500
"""Loads up to which powers above the second are listed."""

GRID: Final = 36
"""Bits of what stands for 1 on a coarser grid: room is left for many sets."""

SQUARE: Final = 2

Load = Callable[[int, int, Fraction], tuple[Any, int]]
"""Load of a hand on a set, as an expression, and what it can come to at most.

Weights of members are times the fraction, rounded down.
"""


@dataclass(frozen=True)
class _Part:
    """Something that is added up: a factor times an expression from 0 to ``top``."""

    factor: Fraction
    value: Any
    top: int


@dataclass(frozen=True)
class Sums:
    """Adds the rows of one problem.

    Attributes
    ----------
    problem : Problem
    model : CpModel of ortools
    load : callable
    over : callable
        True once time is over: what is not read by then is left out.
    coarse : bool
        Whether numbers that are too large are rounded down instead of left out.
    """

    problem: Problem
    model: Any
    load: Load
    over: Callable[[], bool] = never
    coarse: bool = False

    def add(self) -> None:
        """Add the rows of all caps."""
        for cap in self.problem.averages:
            if not cap.kept(Fraction(0)):
                self.model.add_bool_or([])
            elif cap.aggregate is None:
                self._means(cap)
            else:
                self._aggregated(cap.aggregate, cap)

    @property
    def _hands(self) -> range:
        return range(self.problem.n_adversaries + len(self.problem.groups))

    def _means(self, cap: Average) -> None:
        owners, chosen = self.problem.sets.owner, np.array(cap.properties, np.int64)
        inside = np.flatnonzero(np.isin(owners, chosen)).tolist()
        for hand in self._hands:
            over = cap.over or counted(self.problem, cap, hand)
            if over:
                part = Fraction(1, over)
                found = [
                    self._share(one, hand, part)
                    for one in inside
                    if self._sees(hand, one)
                ]
                self._row(found, cap.limit, strict=cap.strict)

    @cached_property
    def _judged(self) -> Bools | None:
        return self.problem.judged()

    def _sees(self, hand: int, one: int) -> bool:
        """Whether the set is judged for the hand, and there is time to say so."""
        if self.over():
            return False
        owner = int(self.problem.sets.owner[one])
        return self._judged is None or bool(self._judged[owner, hand])

    def _aggregated(self, how: Aggregate, cap: Average) -> None:
        power = how.q if how.shape is Shape.SOFT_MAX else 1
        if how.summed and power > 1:
            return  # roots
        limit = cap.limit**power
        if how.shared:
            self._row(self._shared(how), limit, strict=cap.strict)
            return
        hands = [list(self._of_hand(how, hand, power)) for hand in self._hands]
        if how.shape is Shape.WORST:  # by sets unless it is summed
            hands = [self._highest(parts) for parts in hands]
        if how.summed:
            hands = [[part for parts in hands for part in parts]]
        for parts in hands:
            self._row(parts, limit, strict=cap.strict)

    def _of_hand(self, how: Aggregate, hand: int, power: int) -> Iterator[_Part]:
        """What one hand's part is made of."""
        for one, owner in enumerate(self.problem.sets.owner.tolist()):
            weight = how.weight(owner) / how.divisor
            if not weight or not self._sees(hand, one):
                continue
            if how.shape is Shape.COUNT:
                yield _Part(weight, self._above(how, one, hand), 1)
            else:
                yield self._share(one, hand, weight, power)

    def _shared(self, how: Aggregate) -> list[_Part]:
        """Sets that somebody sees above the level."""
        found = []
        for one, owner in enumerate(self.problem.sets.owner.tolist()):
            weight = how.weight(owner)
            hands = [hand for hand in self._hands if self._sees(hand, one)]
            if weight and hands:
                mark = self.model.new_bool_var("")
                for hand in hands:
                    self.model.add(self._above(how, one, hand) <= mark)
                found.append(_Part(weight, mark, 1))
        return found

    def _above(self, how: Aggregate, one: int, hand: int) -> Any:  # noqa: ANN401
        """1 if a hand sees more of a set than the level."""
        sets = self.problem.sets
        measure = sets.measures[int(sets.owner[one])]
        return self._mark(one, hand, cap_at(measure, int(sets.full[one]), how.level))

    def _mark(self, one: int, hand: int, most: int) -> Any:  # noqa: ANN401
        """1 if the load is above this."""
        load, top = self.load(one, hand, Fraction(1))
        if top > MOST and self.coarse:
            unit = Fraction(2**GRID, top)
            most = floor(most * unit)
            load, top = self.load(one, hand, unit)
        if top <= most or top > MOST:
            return 0
        mark = self.model.new_bool_var("")
        self.model.add(load <= most + (top - most) * mark)
        return mark

    def _share(self, one: int, hand: int, weight: Fraction, power: int = 1) -> _Part:
        """Return f of a set to a power, with its weight."""
        sets = self.problem.sets
        full, measure = int(sets.full[one]), sets.measures[int(sets.owner[one])]
        if measure is Measure.STEP:
            return _Part(weight, self._mark(one, hand, full - 1), 1)
        load, top = self.load(one, hand, Fraction(1))
        power *= int(measure)
        if max(full**power, top) > MOST:
            if not self.coarse:
                return _Part(weight, 0, 0)
            grid = min(2 ** (GRID // power), LISTED if power > SQUARE else 2**GRID)
            load, top = self.load(one, hand, Fraction(grid, full))
            full = grid
            if top > MOST:
                return _Part(weight, 0, 0)
        if top > full or power > 1:
            held = self.model.new_int_var(0, full, "")
            self.model.add_min_equality(held, [load, full])
            load, top = held, full
        if power > 1:
            load, top = self._power(load, full, power), full**power
        return _Part(weight / full**power, load, top)

    def _power(self, held: Any, full: int, power: int) -> Any:  # noqa: ANN401
        """Return a load to a power; 0, which is too little, where that is a long list."""
        if full > LISTED and power > SQUARE:
            return 0
        value = self.model.new_int_var(0, full**power, "")
        if power == SQUARE:
            self.model.add_multiplication_equality(value, [held, held])
        else:
            table = [(at, at**power) for at in range(full + 1)]
            self.model.add_allowed_assignments([held, value], table)
        return value

    def _highest(self, parts: list[_Part]) -> list[_Part]:
        """Return one part at or above all of these."""
        scale = lcm(1, *(part.factor.denominator for part in parts))
        top = max((int(part.factor * scale) * part.top for part in parts), default=0)
        step = max(1, -(-top // MOST)) if self.coarse else 1
        if not 0 < top // step <= MOST:
            return []
        high = self.model.new_int_var(0, top // step, "")
        for part in parts:
            self.model.add(int(part.factor * scale) // step * part.value <= high)
        return [_Part(Fraction(step, scale), high, top // step)]

    def _row(self, parts: list[_Part], limit: Fraction, *, strict: bool) -> None:
        """Keep a sum within a limit."""
        scale = lcm(1, *(part.factor.denominator for part in parts))
        factors = [int(part.factor * scale) for part in parts]
        most = ceil(limit * scale) - 1 if strict else floor(limit * scale)
        top = sum(f * part.top for f, part in zip(factors, parts, strict=True))
        if top > MOST and self.coarse:
            step = -(-top // MOST)
            factors, most = [f // step for f in factors], most // step
            top = sum(f * part.top for f, part in zip(factors, parts, strict=True))
        if most < top <= MOST:
            values = [part.value for part in parts]
            terms = [f * value for f, value in zip(factors, values, strict=True)]
            self.model.add(sum(terms) <= most)
