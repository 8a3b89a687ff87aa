"""Aggregates of f in a linear model: see :mod:`policies.model.aggregates`.

Weights, means, counts and sums over hands are linear in what sets disclose, so the model
is exact. A power mean is not: in a tradeoff it is bounded from below by the mean and by
each set alone; below a limit its q-th powers are chords between the loads that can occur,
which is exact again, unless several hands' roots are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Final

import numpy as np

from policies.model.aggregates import Aggregate, Shape
from policies.model.disclosure import cap_at, highest_load
from policies.model.problem import Average
from policies.model.sets import NO_CAP, Measure
from policies.solvers.exact.linear_builder import SIZE, Builder
from policies.solvers.exact.linear_terms import SECANTS, Floats, Term, total

FINE: Final = 10**6
"""Steps to 1 up to which an aggregate is known to lie on them."""


def terms(b: Builder, how: Aggregate) -> Iterator[Term]:
    """Expressions of which the aggregate is the highest (a power mean: at least that)."""
    hands = range(b.k + len(b.problem.groups))
    if how.shared:
        yield _shared(b, how)
        return
    each = [_of_hand(b, how, hand) for hand in hands]
    if how.shape is Shape.SOFT_MAX:
        b.exact = False
    if not how.summed:
        for alternatives in each:
            yield from alternatives
        return
    yield total([_highest(b, alternatives) for alternatives in each])


def _highest(b: Builder, alternatives: list[Term]) -> Term:
    """Return an expression at or above all of these; 0 for none."""
    if len(alternatives) < 2:
        return total(alternatives)
    top = b.new(upper=np.inf)
    minus = Term(np.array([top]), np.array([-1.0]))
    for term in alternatives:
        b.row(total([term, minus]).scaled(SIZE), high=0.0)
    return Term(np.array([top]), np.ones(1))


def _judged(b: Builder, hand: int) -> Iterator[tuple[int, int]]:
    """Go through the sets that count for a hand, each with its property."""
    for one, owner in enumerate(b.problem.sets.owner.tolist()):
        if b.judged is None or b.judged[owner, hand]:
            yield one, owner


def _of_hand(b: Builder, how: Aggregate, hand: int) -> list[Term]:
    """Expressions of which one hand's part is the highest."""
    weighed = [
        (one, float(how.weight(owner)))
        for one, owner in _judged(b, hand)
        if how.weight(owner)
    ]
    if how.shape is Shape.COUNT:
        marks = [_mark(b, how, one, hand).scaled(w) for one, w in weighed]
        return [total(marks)]
    shares = [(b.share(one, hand), w) for one, w in weighed]
    if how.shape is Shape.WORST:
        return [term.scaled(w) for term, w in shares]
    over = float(how.over)
    mean = total([term.scaled(w / over) for term, w in shares])
    if how.shape is Shape.AVERAGE:
        return [mean]
    return [mean, *(term.scaled((w / over) ** (1.0 / how.q)) for term, w in shares)]


def _shared(b: Builder, how: Aggregate) -> Term:
    """Weight of the sets that somebody sees above the level."""
    found = []
    for one, owner in enumerate(b.problem.sets.owner.tolist()):
        weight = float(how.weight(owner))
        if weight:
            marks = [_mark(b, how, one, hand) for hand in b.hands_of(one)]
            found.append(_highest(b, [m for m in marks if m.top() > 0]).scaled(weight))
    return total(found)


def _mark(b: Builder, how: Aggregate, one: int, hand: int) -> Term:
    """1 if the hand sees more of the set than the level."""
    sets, constant = b.problem.sets, (np.empty(0, np.int64), np.empty(0))
    measure = sets.measures[int(sets.owner[one])]
    most = cap_at(measure, int(sets.full[one]), how.level)
    if most == NO_CAP:
        return Term(*constant)
    term = b.load(one, hand)
    spare = term.top() - most
    if term.base > most or spare <= 0:
        return Term(*constant, float(term.base > most))
    mark = b.new(whole=True)
    over = total([term, Term(np.array([mark]), np.array([-spare]))])
    size = SIZE / float(np.abs(over.factors).max())
    b.row(over.scaled(size), high=most * size)
    return Term(np.array([mark]), np.ones(1))


def limit(b: Builder, how: Aggregate, cap: Average) -> None:
    """Keep an aggregate within its cap.

    Where a strict limit has no steps of its own that it could be moved by, a model
    without a margin allows the limit itself: what it proves holds, and the judge sees to
    the rest.
    """
    how, unit = how.normed()
    cap = replace(cap, limit=cap.limit / unit)
    if how.shape is Shape.SOFT_MAX and not how.summed:
        _powers(b, how, cap)
        return
    size = max(1.0, float(cap.limit))
    highest = most(b, how, cap) * float(cap.limit or 1) / size
    for term in terms(b, how):
        if term.top() > highest * size:
            b.row(term.scaled(1.0 / size), high=highest)


def most(b: Builder, how: Aggregate, cap: Average, power: int = 1) -> float:
    """What the aggregate's power may be at most, relative to the limit's (0: absolute)."""
    steps, limit = _steps(b, how, power), cap.limit**power
    if not steps:
        return 1.0 - b.margin if limit else 0.0
    last = ceil(limit * steps) - 1 if cap.strict else floor(limit * steps)
    return float((last + Fraction(1, 2)) / steps / (limit or 1)) - b.margin


def _steps(b: Builder, how: Aggregate, power: int) -> int:
    """Steps to 1 that all values of the aggregate's power lie on; 0: too many, or none."""
    if how.shape is Shape.SOFT_MAX and how.summed:
        return 0
    sets, found = b.problem.sets, 1
    for owner, full in set(zip(sets.owner.tolist(), sets.full.tolist(), strict=True)):
        each = 0 if how.shape is Shape.COUNT else power * int(sets.measures[owner])
        part = how.weight(owner) / how.divisor / full**each
        found = lcm(found, part.denominator)
        if found > FINE:
            return 0
    return found


def _powers(b: Builder, how: Aggregate, cap: Average) -> None:
    """Keep every hand's mean of f^q within the limit's: sum of w / over (f / tau)^q <= 1."""
    highest = most(b, how, cap, how.q)
    for hand in range(b.k + len(b.problem.groups)):
        found = [
            _power(b, how, cap, one, hand)
            for one, owner in _judged(b, hand)
            if how.weight(owner)
        ]
        term = total(found)
        if term.top() > highest:
            b.row(term, high=highest)


def _power(b: Builder, how: Aggregate, cap: Average, one: int, hand: int) -> Term:
    """Return an expression at or above a set's part of that sum, and keep it within 1."""
    sets = b.problem.sets
    full, owner = int(sets.full[one]), int(sets.owner[one])
    measure, spread = sets.measures[owner], how.over / how.weight(owner)
    room = cap.limit**how.q * spread
    last = _within(measure, full, how.q, room, strict=cap.strict)
    if measure is Measure.STEP:
        whole = b.share(one, hand)
        if last >= full:
            return whole.scaled(float(1 / room))
        if whole.top() > 0:
            b.row(whole, high=0.5)
        return total([])
    load = b.load(one, hand)
    if last < full and load.top() > last:
        size = SIZE / max(SIZE, float(np.abs(load.factors).max(initial=1.0)))
        b.row(load.scaled(size), high=last * size)
    if min(last, load.top()) <= 0:
        return total([])
    edge = (float(cap.limit) * float(spread) ** (1 / how.q)) ** (1 / int(measure))
    step = int(
        np.gcd.reduce(sets.amount[int(sets.start[one]) : int(sets.start[one + 1])])
    )
    part, count = b.part(one, hand).scaled(1.0 / edge), last // step
    value = b.new(upper=np.inf)
    size = step / b.divisor(one) / edge
    _curve(b, part, value, how.q * int(measure), (size, count))
    return Term(np.array([value]), np.ones(1))


def _within(
    measure: Measure, full: int, q: int, room: Fraction, *, strict: bool
) -> int:
    """Highest load with f^q below the room, or at it; -1 where not even 0 is."""

    def kept(f: Fraction) -> bool:
        return f**q < room or (f**q == room and not strict)

    return highest_load(measure, full, (-1, full), kept)


def _curve(
    b: Builder, part: Term, value: int, power: int, steps: tuple[float, int]
) -> None:
    """Keep a column above the power of a term from 0 to about 1: of so many steps."""
    size, count = steps
    minus = Term(np.array([value]), np.array([-1.0]))
    if count > SECANTS:
        b.exact = False
        at: Floats = np.linspace(0.0, size * count, SECANTS // 4)
        slopes = power * at ** (power - 1)
        shifts = slopes * at - at**power
    else:
        at = size * np.arange(count + 1, dtype=np.float64)
        slopes = np.diff(at**power) / size
        shifts = slopes * at[:-1] - at[:-1] ** power
    for slope, shift in zip(slopes.tolist(), shifts.tolist(), strict=True):
        b.row(total([part.scaled(slope), minus]), high=shift)
