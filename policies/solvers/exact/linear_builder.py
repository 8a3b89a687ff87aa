"""The columns and rows of a linear model: what hands hold, and what sets disclose of it.

One 0-1 column a pair; one row a set and hand whose limit could be passed. What a
coalition holds of an entry that may get several copies is a column above each of its
members'; what it holds of an entry that gets one copy is their sum. Squares are secants
between the loads that can occur, so they are exact at whole loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Final

import numpy as np

from policies.model.problem import Problem
from policies.model.problem_arrays import able, grid_of
from policies.model.sets import NO_CAP, Ints, Measure
from policies.solvers.exact.linear_terms import SECANTS, Floats, Term, total
from policies.solvers.interfaces import never
from policies.solvers.scaling import cost_scale

TANGENTS: Final = 100
"""Those points, where many sets have squares: rows of a model that may not grow."""

MANY: Final = 20
"""Sets x hands from which they are many."""

MARGIN: Final = 1e-7
"""What a limit on a mean is kept away from at first, once a plan up to it was refused."""

ROUNDED: Final = 2e-9
"""How far weights of a set may add up beyond 1 by rounding alone."""

SIZE: Final = 1e3
"""Of the factors of a row of a sum: HiGHS's tolerance is the less, the larger they are."""

_CLOSE: Final = 1e-9  # of a step, by which floats may miss a whole number of them


class Late(Exception):
    """The time is over before the model is made."""


@dataclass
class Builder:
    """Makes the model of one problem.

    Parameters
    ----------
    problem : Problem
    margin : float
        What limits on means are kept away from, relative to them. Only a model with 0
        proves anything: another one leaves plans out.
    over : callable
        True once there is no time to make the model.

    Raises
    ------
    Late
        From any method that adds rows, once time is over.
    """

    problem: Problem
    margin: float = 0.0
    over: Callable[[], bool] = never
    cost: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    rows: list[tuple[Ints, Floats, float, float]] = field(default_factory=list)
    impossible: bool = False
    exact: bool = True
    slack: float = 1.0

    def __post_init__(self) -> None:
        problem = self.problem
        self.k = problem.n_adversaries
        may = able(problem)
        entry, adversary = np.nonzero(may)
        self.entry = entry.astype(np.int64)
        self.adversary = adversary.astype(np.int64)
        self.column = np.full((problem.n_entries, self.k), -1, np.int64)
        self.column[entry, adversary] = np.arange(len(entry))
        self.before = grid_of(problem, problem.history)
        worth = problem.weights.of(self.entry, self.adversary)
        scale = cost_scale(problem)
        self.scale = float(scale)
        self.cost = (-worth * float(problem.weights.unit * scale)).tolist()
        self.whole = [True] * len(entry)
        self.upper = [1.0] * len(entry)
        self.unions: dict[tuple[int, int], int] = {}
        self.judged = problem.judged()
        sums = problem.aggregate is not None  # whose terms are all off a little
        self.sharp = SIZE if sums else 1.0

    # -- columns and rows ----------------------------------------------------------

    def new(self, *, whole: bool = False, upper: float = 1.0, cost: float = 0.0) -> int:
        """Add a column."""
        self.cost.append(cost)
        self.whole.append(whole)
        self.upper.append(upper)
        return len(self.cost) - 1

    def row(self, term: Term, low: float = -np.inf, high: float = np.inf) -> None:
        """Add low <= term <= high."""
        if self.over():
            raise Late
        self.rows.append(
            (term.columns, term.factors, low - term.base, high - term.base)
        )

    # -- what hands hold -----------------------------------------------------------

    def held(self, entry: int, hand: int) -> Term:
        """Whether the hand holds the entry, as an expression from 0 to 1."""
        who = (hand,) if hand < self.k else self.problem.groups[hand - self.k]
        one = np.empty(0, np.int64)
        if self.before[entry, list(who)].any():
            return Term(one, np.empty(0), 1.0)
        columns = self.column[entry, list(who)]
        columns = columns[columns >= 0]
        if len(columns) <= 1 or self.problem.hi[entry] <= 1:
            return Term(columns, np.ones(len(columns)))
        key = (entry, hand)
        if key not in self.unions:
            union = self.new()
            self.unions[key] = union
            for c in columns.tolist():
                pair = np.array([c, union])
                self.row(Term(pair, np.array([1.0, -1.0])), high=0.0)
        return Term(np.array([self.unions[key]]), np.ones(1))

    def load(self, one: int, hand: int) -> Term:
        """Load of a hand on a set."""
        sets = self.problem.sets
        rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
        members = sets.entry[rows].tolist()
        amounts = sets.amount[rows].tolist()
        if not sets.classes[one]:
            return total(
                [
                    self.held(d, hand).scaled(float(w))
                    for d, w in zip(members, amounts, strict=True)
                    if w
                ]
            )
        by_class: dict[int, list[Term]] = {}
        for d, number in zip(members, amounts, strict=True):
            by_class.setdefault(number, []).append(self.held(d, hand))
        return total([self._touched(terms) for _, terms in sorted(by_class.items())])

    def _touched(self, terms: list[Term]) -> Term:
        """Whether one of the terms is 1."""
        if len(terms) == 1:
            return terms[0]
        if any(t.base >= 1 for t in terms):
            return Term(np.empty(0, np.int64), np.empty(0), 1.0)
        live = [t for t in terms if len(t.columns)]
        if len(live) == 1:
            return live[0]
        mark = self.new()
        for term in live:
            over = total([term, Term(np.array([mark]), np.array([-1.0]))])
            self.row(over, high=0.0)
        return Term(np.array([mark]), np.ones(1))

    def hands_of(self, one: int) -> list[int]:
        """Hands that are judged for the set."""
        hands = self.k + len(self.problem.groups)
        if self.judged is None:
            return list(range(hands))
        return np.flatnonzero(self.judged[int(self.problem.sets.owner[one])]).tolist()

    # -- the parts of the problem ----------------------------------------------------

    def degrees(self) -> None:
        """Copies of each entry, and capacities."""
        problem = self.problem
        for d in range(problem.n_entries):
            columns = self.column[d][self.column[d] >= 0]
            lo, hi = int(problem.lo[d]), int(problem.hi[d])
            if len(columns) < lo:
                self.impossible = True
            if len(columns) and (lo > 0 or hi < len(columns)):
                self.row(Term(columns, np.ones(len(columns))), lo, hi)
        if problem.capacity is None:
            return
        for a, room in enumerate(problem.room().tolist()):
            columns = self.column[:, a][self.column[:, a] >= 0]
            if len(columns) > room:
                self.row(Term(columns, np.ones(len(columns))), high=room)

    def limits(self) -> None:
        """Load at most the cap, for each set and hand."""
        sets = self.problem.sets
        for one in range(sets.n_sets):
            cap = int(sets.cap[one])
            if cap == NO_CAP:
                continue
            for hand in self.hands_of(one):
                self._limit(one, hand, cap)

    def _limit(self, one: int, hand: int, cap: int) -> None:
        term = self.load(one, hand)
        if term.base > cap:
            if self.problem.strict_history:
                self.impossible = True
            self._bar(one, hand)
            return
        if term.top() > cap:
            big = float(np.abs(term.factors).max(initial=1.0))
            size = min(1.0, 1e4 / big)  # rows of huge whole weights lose digits
            self.row(term.scaled(size), high=cap * size)

    def _bar(self, one: int, hand: int) -> None:
        """Give nothing of the set to a hand that history put past the cap."""
        who = (hand,) if hand < self.k else self.problem.groups[hand - self.k]
        for d in self.problem.sets.members(one).tolist():
            for c in self.column[d, list(who)].tolist():
                if c >= 0:
                    self.upper[c] = 0.0

    def share(self, one: int, hand: int) -> Term:
        """Disclosure of one set to one hand, as an expression at or above it."""
        sets = self.problem.sets
        match sets.measures[int(sets.owner[one])]:
            case Measure.LINEAR:
                return self.part(one, hand)
            case Measure.STEP:
                return self._complete(self.load(one, hand), int(sets.full[one]))
            case Measure.QUADRATIC:
                return self._square(one, self.part(one, hand))

    def part(self, one: int, hand: int) -> Term:
        """Load relative to ``full``, and 1 from there on, as an expression at or above it."""
        full, most = int(self.problem.sets.full[one]), float(self._totals[one])
        term = self.load(one, hand)
        if most <= self.divisor(one):
            return term.scaled(1 / self.divisor(one))
        if term.base >= full:
            return Term(np.empty(0, np.int64), np.empty(0), 1.0)
        part, top = term.scaled(1 / full), min(term.top(), most) / full
        if top <= 1:
            return part
        clipped, mark = self.new(), self.new(whole=True)
        beyond = Term(np.array([clipped, mark]), np.array([-1.0, 1.0 - top]))
        self.row(total([part, beyond]), high=0.0)
        self.row(Term(np.array([mark, clipped]), np.array([1.0, -1.0])), high=0.0)
        return Term(np.array([clipped]), np.ones(1))

    def divisor(self, one: int) -> float:
        """What loads of a set are divided by: ``full``, or all of it where that is past it.

        But only as far as weights are rounded up: the load of a set can be far above.
        """
        full, most = float(self.problem.sets.full[one]), float(self._totals[one])
        return max(full, most) if most <= full * (1 + ROUNDED) else full

    @cached_property
    def _totals(self) -> Floats:
        """Load of each whole set."""
        sets = self.problem.sets
        return np.bincount(sets.member_set, sets.amount, sets.n_sets).astype(np.float64)

    def _complete(self, term: Term, full: int) -> Term:
        """1 if the load reaches ``full``."""
        top = term.top()
        constant = np.empty(0, np.int64), np.empty(0)
        if term.base >= full:
            return Term(*constant, 1.0)
        if top < full:
            return Term(*constant, 0.0)
        mark = self.new(whole=top > full)
        spare = -(top - full + 1.0)
        over = total([term, Term(np.array([mark]), np.array([spare]))])
        self.row(over.scaled(self.sharp), high=(full - 1.0) * self.sharp)
        return Term(np.array([mark]), np.ones(1))

    def _square(self, one: int, part: Term) -> Term:
        """A column at or above the square of a term from 0 to 1."""
        sets = self.problem.sets
        amounts = sets.amount[int(sets.start[one]) : int(sets.start[one + 1])]
        step = int(np.gcd.reduce(amounts[amounts > 0])) if amounts.any() else 1
        square = self.new()
        self.chords(part, square, step / self.divisor(one), part.base)
        return Term(np.array([square]), np.ones(1))

    def chords(self, part: Term, square: int, step: float, low: float) -> None:
        """Keep a column at or above the square of a term with values in steps, and 1."""
        top = min(part.top(), 1.0)
        if len(part.columns) > 2:  # one column for the load: rows of chords stay short
            load = self.new(upper=max(top, 0.0))
            self.row(total([part, Term(np.array([load]), np.array([-1.0]))]), high=0.0)
            part = Term(np.array([load]), np.ones(1))
        count = ceil((top - low) / step - _CLOSE)
        if count <= SECANTS:
            steps = low + step * np.arange(max(count, 1) + 1, dtype=np.float64)
            steps = np.minimum(steps, top)
            self.lines(part, square, steps[:-1], steps[1:])
            return
        self.exact = False
        many = self.problem.sets.n_sets * self.k > MANY
        at = np.linspace(low, top, TANGENTS if many else SECANTS, dtype=np.float64)
        self.lines(part, square, at, at)

    def lines(self, part: Term, square: int, one: Floats, two: Floats) -> None:
        """Keep a column above chords of z * z from ``one`` to ``two``; equal: tangents."""
        minus = Term(np.array([square]), np.array([-1.0]))
        for a, b in zip(one.tolist(), two.tolist(), strict=True):
            chord = total([part.scaled(a + b), minus])
            self.row(chord.scaled(self.sharp), high=a * b * self.sharp)

    def mean(self, chosen: Ints, hand: int, over: int) -> Term:
        """Mean of f over the chosen sets for one hand."""
        terms = [
            self.share(one, hand)
            for one in chosen.tolist()
            if self.judged is None
            or self.judged[int(self.problem.sets.owner[one]), hand]
        ]
        whole = total(terms)
        columns, inverse = np.unique(whole.columns, return_inverse=True)
        factors = np.bincount(inverse, whole.factors, len(columns))
        return Term(columns, np.asarray(factors), whole.base).scaled(1.0 / over)
