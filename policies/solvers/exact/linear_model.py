"""A Problem as one mixed-integer linear model, shared by HiGHS and CP-SAT.

Columns: x_da, 0-1, whether adversary a is given entry d (paper, section 4), and columns
that depend on them. Rows, for each set p and observer h (an adversary or a coalition):

* copies and capacities: lo_d <= sum_a x_da <= hi_d and sum_d x_da <= room_a;
* what a coalition holds: z_dh >= x_da for each of its members a (their sum if d gets at
  most one copy);
* classes: touched_ch >= z_dh for each entry d of class c;
* limits: load_ph = sum_d amount_d z_dh <= cap_p;
* step functions: load_ph <= full_p - 1 + (most_p - full_p + 1) whole_ph;
* powers of a load (of measures, of soft maxima): a column above the chords between
  the loads that can occur. For neighbouring loads a < b, L^2 >= (a + b) L - a b, and
  likewise for any power: the chords are exact at loads that occur;
* means and other aggregates (:mod:`policies.model.aggregates`): weighted sums of those
  columns; in tradeoffs, one column y above f of every observer.

Every such column is bounded only from below, by what it stands for, and a higher value
never helps in any row. So integer plans satisfy the model if and only if they keep all
limits, and the least y is f; fractional plans bound it. A power mean is no sum: where
its root counts, it is bounded from below by the mean and by each set alone.

Numbers are integers or fractions: CP-SAT's rows are exact. Where HiGHS needs floats, or
a row scaled so that its tolerance of 10^-9 is small, the row says so (``scale``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import floor, lcm
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.aggregates import Aggregate, Shape
from policies.model.disclosure import cap_at, highest_load, reachable
from policies.model.objective import Objective
from policies.model.problem import Average, Problem
from policies.model.problem_arrays import able, grid_of
from policies.model.sets import NO_CAP, Bools, Ints
from policies.solvers.interfaces import never
from policies.solvers.scaling import cost_scale

Floats = npt.NDArray[np.float64]

SECANTS: Final = 400
"""Loads up to which chords are exact; beyond, tangents bound powers from below."""

TANGENTS: Final = 100
"""Chords of one power where many sets have powers: keeps the model small."""

MANY: Final = 20
"""Sets x observers from which these are many."""

ROUNDED: Final = Fraction(2, 10**9)
"""Excess over 1 that the rounded weights of a set may add up to."""

SIZE: Final = 1e3
"""Scale of rows that add up many columns, each off by up to HiGHS's tolerance."""

MOST: Final = 2**50
"""Largest sum of integers in a row of CP-SAT."""

FINE: Final = 10**6
"""Most steps to 1 for which a sum is treated as lying on steps."""

_ROOTS: Final = 10**12  # roots are rounded down to multiples of 1 / _ROOTS
_HUGE: Final = 1e4  # factors of a row of loads above which it is scaled down


class Late(Exception):
    """Time is over before the model is built."""


@dataclass(frozen=True, eq=False)
class Sum:
    """unit * (base + sum of amounts * columns)."""

    columns: Ints
    amounts: Ints
    base: int = 0
    unit: Fraction = Fraction(1)

    def times(self, by: Fraction) -> Sum:
        """Return the sum multiplied by a number."""
        return Sum(self.columns, self.amounts, self.base, self.unit * by)


_EMPTY: Final = np.empty(0, np.int64)
_ONE: Final = np.ones(1, np.int64)
_MINUS: Final = Fraction(-1)


def _constant(value: int) -> Sum:
    return Sum(_EMPTY, _EMPTY, value)


def _column(index: int) -> Sum:
    return Sum(np.array([index]), _ONE)


@dataclass(frozen=True, eq=False)
class LinearRow:
    """low <= sum of parts <= high.

    Attributes
    ----------
    parts : tuple of Sum
    high : Fraction, float or int
    low : int, optional
        For rows whose factors are all 1.
    limit : bool
        Whether ``high`` is a limit of the problem, which ``strict`` excludes.
    strict : bool
    scale : float
        Factor of the row for HiGHS.
    guard : int
        The row applies only if this 0-1 column is 1; -1: always.
    defines : int
        The column, with factor -1, that the row bounds from below; -1: none.
    """

    parts: tuple[Sum, ...]
    high: Fraction | float
    low: int | None = None
    limit: bool = False
    strict: bool = False
    scale: float = 1.0
    guard: int = -1
    defines: int = -1


@dataclass(frozen=True, eq=False)
class Power:
    """Keep a column at or above ``load^power``, for loads from ``low`` to ``high``.

    Attributes
    ----------
    column : int
        In units of ``of``: ``of * column >= load^power``.
    load : Sum
        An integer sum.
    power : int
    of : Fraction
        The power for which the column is 1.
    full : int
        Upper bound of the load.
    low, high, step : int
        Loads that can occur: ``low``, in steps, up to ``high``.
    scale : float
    """

    column: int
    load: Sum
    power: int
    of: Fraction
    full: int
    low: int
    high: int
    step: int
    scale: float = 1.0

    def lines(self, tangents: int) -> list[tuple[Fraction, Fraction]]:
        """Return (slope, shift) pairs with column >= slope * load - shift."""
        q, count = self.power, max(-(-(self.high - self.low) // self.step), 1)
        if count > SECANTS:
            ends = np.linspace(self.low, self.high, tangents).tolist()
            points = [(Fraction(x), Fraction(x)) for x in map(round, ends)]
        else:
            at = [self.low + self.step * i for i in range(count)]
            points = [
                (Fraction(x), Fraction(min(x + self.step, self.high))) for x in at
            ]
        chords = (_chord(x, y, q) for x, y in points)
        return [(slope / self.of, shift / self.of) for slope, shift in chords]


def _chord(a: Fraction, b: Fraction, power: int) -> tuple[Fraction, Fraction]:
    """Return slope and shift of the chord of x^power from a to b; the tangent if a = b."""
    rise = b**power - a**power
    slope = power * a ** (power - 1) if a == b else rise / (b - a)
    return slope, slope * a - a**power


@dataclass(frozen=True, eq=False)
class Union:
    """A 0-1 column that is the maximum of others.

    Attributes
    ----------
    column : int
    of : list of int
    """

    column: int
    of: list[int]


@dataclass(eq=False)
class Builder:
    """Builds the linear model of a problem.

    Parameters
    ----------
    problem : Problem
    over : callable
        True once time is over.
    whole_numbers : bool
        Whether the engine needs integers, so that nothing may be rounded.
    guarded : bool
        Whether each set gets a 0-1 column that switches its limit on.
    prices : int64 array, shape (n,), optional
        Entries with a price may be withheld: each gets a column, 1 if it goes to
        nobody.
    may : bool array, shape (n, k), optional
        The pairs to model; None: those that exceed no limit by themselves.

    Attributes
    ----------
    column : int64 array, shape (n, k)
        Index of x_da; -1 if it is not modelled.
    upper : list of Fraction or float
        Upper bound of each column.
    grid : list of Fraction
        Value of one unit of its integer in CP-SAT.
    impossible : bool
        No plan exists: an entry has too few pairs, or history exceeds a limit.
    slack : float
        Error of y in multiples of HiGHS's tolerance: y can be a sum.

    Raises
    ------
    Late
        From any method that adds rows, once time is over.
    """

    problem: Problem
    over: Callable[[], bool] = never
    whole_numbers: bool = False
    guarded: bool = False
    prices: Ints | None = None
    may: Bools | None = None
    cost: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    upper: list[Fraction | float] = field(default_factory=list)
    grid: list[Fraction] = field(default_factory=list)
    rows: list[LinearRow | Power | Union] = field(default_factory=list)
    guards: list[int] = field(default_factory=list)
    withheld: dict[int, int] = field(default_factory=dict)
    impossible: bool = False
    slack: float = 1.0

    def __post_init__(self) -> None:
        problem = self.problem
        self.k = problem.n_adversaries
        self.observers = [(a,) for a in range(self.k)] + list(problem.groups)
        may = able(problem) if self.may is None else self.may
        entry, adversary = np.nonzero(may)
        self.entry = entry.astype(np.int64)
        self.adversary = adversary.astype(np.int64)
        self.column = np.full((problem.n_entries, self.k), -1, np.int64)
        self.column[entry, adversary] = np.arange(len(entry))
        self.before = grid_of(problem, problem.history)
        self.scale = float(cost_scale(problem))
        worth = problem.weights.of(self.entry, self.adversary)
        unit = float(problem.weights.unit * cost_scale(problem))
        self.cost = (-worth * unit).tolist()
        self.whole = [True] * len(entry)
        self.upper = [1.0] * len(entry)
        self.grid = [Fraction(1)] * len(entry)
        self.judged = problem.judged()
        self._unions: dict[tuple[int, int], Sum] = {}
        self._sharp = SIZE if problem.aggregate is not None else 1.0
        if self.guarded:
            self.guards = [self.new() for _ in range(problem.sets.n_sets)]

    def build(self, *, averages: bool = True, disclosure: bool = True) -> Builder:
        """Add all rows; caps on averages and aggregates, and f, only if asked for."""
        self._copies()
        self._limits()
        for cap in self.problem.averages if averages else ():
            if not cap.kept(Fraction(0)):
                self.impossible = True
            elif cap.aggregate is not None:
                self._aggregate_limit(cap.aggregate, cap)
            else:
                self._mean_limit(cap)
        if disclosure:
            self._disclosure()
        return self

    # -- columns and rows --------------------------------------------------------------

    def new(
        self,
        *,
        whole: bool = True,
        upper: Fraction | float = 1.0,
        grid: Fraction = Fraction(1),
        cost: float = 0.0,
    ) -> int:
        """Add a column."""
        self.cost.append(cost)
        self.whole.append(whole)
        self.upper.append(upper)
        self.grid.append(grid)
        return len(self.cost) - 1

    def row(
        self,
        *parts: Sum,
        high: Fraction | float,
        low: int | None = None,
        scale: float = 1.0,
        guard: int = -1,
    ) -> None:
        """Add low <= sum of parts <= high."""
        self._add(LinearRow(parts, high, low=low, scale=scale, guard=guard))

    def _add(self, row: LinearRow | Power | Union) -> None:
        if self.over():
            raise Late
        self.rows.append(row)

    def above(self, column: int, *parts: Sum, scale: float = 1.0) -> None:
        """Bound a column from below by a sum."""
        minus = Sum(np.array([column]), _ONE, unit=_MINUS)
        self._add(LinearRow((*parts, minus), 0, scale=scale, defines=column))

    def most(self, *parts: Sum) -> Fraction:
        """Return the highest value of a sum of nonnegative parts."""
        total = Fraction(0)
        for part in parts:
            amounts, columns = part.amounts.tolist(), part.columns.tolist()
            if len(columns) == 1:
                top = amounts[0] * Fraction(self.upper[columns[0]])
            else:
                top = Fraction(sum(amounts))  # all columns are 0-1
            total += part.unit * (part.base + top)
        return total

    def steps(self, parts: tuple[Sum, ...]) -> int:
        """Return the number of steps to 1 on which a sum's values lie; 0 if too many."""
        found = 1
        for part in parts:
            columns = part.columns.tolist()
            grid = self.grid[columns[0]] if len(columns) == 1 else 1
            found = lcm(found, (part.unit * grid).denominator)
            if found > FINE:
                return 0
        return found

    # -- holdings of observers ---------------------------------------------------------

    def held(self, entry: int, observer: int) -> Sum:
        """Return whether the observer holds the entry, as a 0-1 expression."""
        key = (entry, observer)
        if key in self._unions:
            return self._unions[key]
        who = list(self.observers[observer])
        if self.before[entry, who].any():
            return _constant(1)
        columns = self.column[entry, who]
        columns = columns[columns >= 0]
        single = self.problem.hi[entry] <= 1 and not self.whole_numbers
        if len(columns) <= 1 or single:  # CP-SAT clauses have one literal an entry
            return Sum(columns, np.ones(len(columns), np.int64))
        union = self.new(whole=False)
        self._add(Union(union, columns.tolist()))
        self._unions[key] = _column(union)
        return self._unions[key]

    def load(self, one: int, observer: int) -> Sum:
        """Return the load of an observer on a set."""
        sets = self.problem.sets
        rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
        members, amounts = sets.entry[rows], sets.amount[rows]
        if sets.classes[one]:
            return self._classes(members.tolist(), amounts.tolist(), observer)
        if observer < self.k:
            columns, held = self.column[members, observer], self.before[:, observer]
            held = held[members]
            free = ~held & (columns >= 0) & (amounts > 0)
            return Sum(columns[free], amounts[free], int(amounts[held].sum()))
        parts = [self.held(d, observer) for d in members.tolist()]
        times = np.repeat(amounts, [len(part.columns) for part in parts])
        base = sum(w * p.base for w, p in zip(amounts.tolist(), parts, strict=True))
        columns = np.concatenate([_EMPTY, *(part.columns for part in parts)])
        return Sum(columns[times > 0], times[times > 0], int(base))

    def _classes(self, members: list[int], numbers: list[int], observer: int) -> Sum:
        """Return the number of classes of which the observer holds an entry."""
        by_class: dict[int, list[Sum]] = {}
        for d, number in zip(members, numbers, strict=True):
            by_class.setdefault(number, []).append(self.held(d, observer))
        base, columns = 0, []
        for _, parts in sorted(by_class.items()):
            free = [part for part in parts if len(part.columns)]
            if any(part.base for part in parts):
                base += 1
            elif len(free) == 1:
                columns.append(free[0].columns)
            elif free:
                touched = self.new(whole=False)
                for part in free:
                    self.above(touched, part)
                columns.append(np.array([touched]))
        every = np.concatenate([_EMPTY, *columns])
        return Sum(every, np.ones(len(every), np.int64), base)

    def observers_of(self, one: int) -> list[int]:
        """Return the observers that are judged for the set."""
        if self.judged is None:
            return list(range(len(self.observers)))
        return np.flatnonzero(self.judged[int(self.problem.sets.owner[one])]).tolist()

    # -- copies, capacities, limits ----------------------------------------------------

    def _copies(self) -> None:
        """Add rows for copies of each entry, and for capacities."""
        problem = self.problem
        for d in range(problem.n_entries):
            columns = self.column[d][self.column[d] >= 0]
            given = Sum(columns, np.ones(len(columns), np.int64))
            lo, hi = int(problem.lo[d]), int(problem.hi[d])
            if self.prices is not None and lo and self.prices[d]:
                mark = self.withheld[d] = self.new()
                both = np.append(columns, mark)
                ones = np.ones(len(both), np.int64)
                ones[-1] = lo
                self.row(Sum(both, ones), high=np.inf, low=lo)
                ones = ones.copy()
                ones[-1] = hi
                self.row(Sum(both, ones), high=hi)
            elif len(columns) < lo:
                self.impossible = True
            elif len(columns) and (lo > 0 or hi < len(columns)):
                self.row(given, high=hi, low=lo)
        if problem.capacity is None:
            return
        for a, room in enumerate(problem.room().tolist()):
            columns = self.column[:, a][self.column[:, a] >= 0]
            if len(columns) > room:
                self.row(Sum(columns, np.ones(len(columns), np.int64)), high=room)

    def _limits(self) -> None:
        """Add load <= cap for each set and observer."""
        sets = self.problem.sets
        for one in np.flatnonzero(sets.cap < NO_CAP).tolist():
            for observer in self.observers_of(one):
                self._limit(one, observer, int(sets.cap[one]))

    def _limit(self, one: int, observer: int, cap: int) -> None:
        load = self.load(one, observer)
        guard = self.guards[one] if self.guards else -1
        if load.base > cap:  # past by history: nothing of the set may be added
            members = self.problem.sets.members(one)
            columns = self.column[members][:, list(self.observers[observer])]
            columns = columns[columns >= 0]
            if self.problem.strict_history and guard < 0:
                self.impossible = True
            elif self.problem.strict_history:
                self.row(_constant(1), high=0, guard=guard)
            elif guard >= 0:
                ones = np.ones(len(columns), np.int64)
                self.row(Sum(columns, ones), high=0, guard=guard)
            for c in columns.tolist() if guard < 0 else ():
                self.upper[c] = 0.0
        elif load.base + int(load.amounts.sum()) > cap:
            big = float(load.amounts.max())
            self.row(load, high=cap, scale=min(1.0, _HUGE / big), guard=guard)

    # -- f of one set ------------------------------------------------------------------

    def share(self, one: int, observer: int) -> Sum:
        """Return the disclosure of one set to one observer, or an upper bound of it."""
        sets = self.problem.sets
        power = sets.measures[int(sets.owner[one])].power
        if power == 0:
            return self._complete(one, observer)
        load, full = self._clipped(one, observer)
        if power == 1:
            return load.times(Fraction(1, full))
        return self._power(one, load, full, power, Fraction(full) ** power, full)

    def _clipped(self, one: int, observer: int) -> tuple[Sum, int]:
        """Return the load of a set, at most ``full``, and its divisor.

        If rounded weights add up to more than ``full``, the divisor is their sum: f is
        then too low by less than a tolerance.
        """
        full, most = int(self.problem.sets.full[one]), self.totals[one]
        load = self.load(one, observer)
        if load.base >= full:
            return _constant(full), full
        if full < most <= full * (1 + ROUNDED) and not self.whole_numbers:
            return load, most
        top = min(load.base + int(load.amounts.sum()), most)
        if top <= full:
            return load, full
        clipped = self.new(
            whole=False, grid=max(Fraction(1, full), Fraction(1, MOST // 2))
        )
        mark = self.new()
        beyond = Sum(np.array([mark]), np.array([-1]), 0, Fraction(top, full) - 1)
        self.above(clipped, load.times(Fraction(1, full)), beyond)
        self.row(_column(mark), _column(clipped).times(Fraction(-1)), high=0)
        return _column(clipped).times(Fraction(full)), full

    @cached_property
    def totals(self) -> list[int]:
        """Return the load of each whole set."""
        sets = self.problem.sets
        total = np.zeros(sets.n_sets, np.int64)
        np.add.at(total, sets.member_set, np.where(sets.amount > 0, sets.amount, 0))
        every: list[int] = np.where(sets.classes, sets.full, total).tolist()
        return every

    def _complete(self, one: int, observer: int) -> Sum:
        """Return a column that is 1 if the load reaches ``full``."""
        full = int(self.problem.sets.full[one])
        return self._beyond(one, observer, full - 1, self._sharp, whole=False)

    def _beyond(
        self, one: int, observer: int, last: int, scale: float = 0.0, *, whole: bool
    ) -> Sum:
        """Return ``mark``, 1 if load > ``last``: load <= last + (top - last) mark."""
        load = self.load(one, observer)
        top = load.base + int(load.amounts.sum())
        if load.base > last or top <= last:
            return _constant(int(load.base > last))
        mark = self.new(whole=whole or top > last + 1)
        spare = Sum(np.array([mark]), np.array([last - top]))
        big = max(int(load.amounts.max()), top - last)
        self.row(load, spare, high=last, scale=scale or SIZE / big)
        return _column(mark)

    def _power(
        self, one: int, load: Sum, full: int, power: int, of: Fraction, last: int
    ) -> Sum:
        """Return a column at or above a power of a load of at most ``last``."""
        sets = self.problem.sets
        amounts = sets.amount[int(sets.start[one]) : int(sets.start[one + 1])]
        amounts = amounts[amounts > 0]
        step = 1
        if len(amounts) and not sets.classes[one]:
            step = int(np.gcd.reduce(amounts))
        low, high = int(load.unit * load.base), min(int(self.most(load)), last)
        column = self.new(whole=False, upper=np.inf, grid=1 / of)
        if (
            len(load.columns) > 2 and not self.whole_numbers
        ):  # keeps rows of chords short
            top = self.most(load) / full
            part = self.new(
                whole=False,
                upper=max(min(top, Fraction(1)), Fraction(0)),
            )
            self.above(part, load.times(Fraction(1, full)))
            load = _column(part).times(Fraction(full))
        self.upper[column] = Fraction(max(high, 0)) ** power / of
        self._add(
            Power(column, load, power, of, full, low, high, step, scale=self._sharp)
        )
        return _column(column)

    # -- means and aggregates ----------------------------------------------------------

    def _judged_sets(self, observer: int) -> Iterator[tuple[int, int]]:
        """Yield the sets that count for an observer, each with its property."""
        for one, owner in enumerate(self.problem.sets.owner.tolist()):
            if self.judged is None or self.judged[owner, observer]:
                yield one, owner

    def _mean(
        self, properties: frozenset[int] | None, observer: int, over: int
    ) -> tuple[Sum, ...]:
        """Return the mean of f over the sets of some properties for one observer."""
        return tuple(
            self.share(one, observer).times(Fraction(1, over))
            for one, owner in self._judged_sets(observer)
            if properties is None or owner in properties
        )

    def _mean_limit(self, cap: Average) -> None:
        """Add a cap on the mean of some properties' sets."""
        properties = frozenset(cap.properties)
        for observer in range(len(self.observers)):
            over = cap.over or _reachable_sets(self.problem, cap, observer)
            if over:
                mean = self._mean(properties, observer, over)
                self._capped(mean, cap.limit, strict=cap.strict, scale=SIZE)

    def _capped(
        self, parts: tuple[Sum, ...], limit: Fraction, *, strict: bool, scale: float
    ) -> None:
        """Limit a sum, unless it is always within the limit."""
        if self.most(*parts) > limit or (strict and self.most(*parts) == limit):
            self._add(LinearRow(parts, limit, limit=True, strict=strict, scale=scale))

    def _aggregate_limit(self, how: Aggregate, cap: Average) -> None:
        """Limit an aggregate to its cap.

        A power mean is limited by its powers: sum of w f^q <= over limit^q.
        """
        how, unit = how.normed()
        limit = cap.limit / unit
        if how.shape is Shape.SOFT_MAX and not how.summed:
            for observer in range(len(self.observers)):
                parts = tuple(self._powers(how, limit, observer, strict=cap.strict))
                self._capped(parts, Fraction(1), strict=cap.strict, scale=1.0)
            return
        scale = 1.0 / max(1.0, float(limit))
        for parts in self._terms(how):
            self._capped(parts, limit, strict=cap.strict, scale=scale)

    def _powers(
        self, how: Aggregate, limit: Fraction, observer: int, *, strict: bool
    ) -> Iterator[Sum]:
        """Yield parts of sum of w f^q / (over limit^q); each set keeps it by itself."""
        sets = self.problem.sets
        for one, owner in self._judged_sets(observer):
            if not how.weight(owner):
                continue
            full, measure = int(sets.full[one]), sets.measures[owner]
            room = limit**how.q * how.over / how.weight(owner)

            def kept(f: Fraction, room: Fraction = room) -> bool:
                return f**how.q < room or (f**how.q == room and not strict)

            last = highest_load(measure, full, (-1, full), kept)
            if measure.is_step:
                whole = self.share(one, observer)
                if last >= full and room:
                    yield whole.times(1 / room)
                elif self.most(whole) > 0:
                    self.row(whole, high=0, scale=SIZE)
                continue
            load, full = self._clipped(one, observer)
            if last < full and self.most(load) > last:
                big = float(load.amounts.max(initial=1))
                self.row(load, high=last, scale=min(1.0, SIZE / big))
            if self.most(load) > 0 and last > 0 and room:
                power = how.q * measure.power
                of = Fraction(full) ** power * room
                yield self._power(one, load, full, power, of, last)

    def _terms(self, how: Aggregate) -> Iterator[tuple[Sum, ...]]:
        """Yield sums whose highest is the aggregate (of a power mean, a lower bound)."""
        if how.shared:
            yield tuple(self._seen_by_anybody(how))
            return
        each = [self._of_observer(how, o) for o in range(len(self.observers))]
        if how.summed:
            yield tuple(part for parts in each for part in self._highest(parts))
            return
        for alternatives in each:
            yield from alternatives

    def _of_observer(self, how: Aggregate, observer: int) -> list[tuple[Sum, ...]]:
        """Return sums whose highest is one observer's part."""
        weighed = [
            (one, how.weight(owner) / how.divisor)
            for one, owner in self._judged_sets(observer)
            if how.weight(owner)
        ]
        if how.shape is Shape.COUNT:
            marks = (
                self._above_level(how, one, observer).times(w) for one, w in weighed
            )
            return [tuple(marks)]
        shares = [(self.share(one, observer), w) for one, w in weighed]
        if how.shape is Shape.WORST:
            return [(part.times(w),) for part, w in shares]
        mean = tuple(part.times(w) for part, w in shares)
        if how.shape is Shape.AVERAGE:
            return [mean]
        roots = [
            Fraction(floor(float(w) ** (1.0 / how.q) * _ROOTS) - 1, _ROOTS)
            for _, w in shares
        ]
        single = [
            (s.times(r),) for (s, _), r in zip(shares, roots, strict=True) if r > 0
        ]
        return [mean, *single]

    def _highest(self, alternatives: Sequence[tuple[Sum, ...]]) -> tuple[Sum, ...]:
        """Return parts at or above all of these sums; empty if there are none."""
        if len(alternatives) < 2:
            return alternatives[0] if alternatives else ()
        top = max(self.most(*parts) for parts in alternatives)
        if not top:
            return ()
        steps = lcm(
            *(
                (part.unit * self.grid[c]).denominator
                for parts in alternatives
                for part in parts
                for c in part.columns.tolist()
            )
        )
        grid = max(Fraction(1, steps), top / (MOST // 2))
        column = self.new(whole=False, upper=top, grid=grid)
        for parts in alternatives:
            self.above(column, *parts, scale=SIZE)
        return (_column(column),)

    def _seen_by_anybody(self, how: Aggregate) -> Iterator[Sum]:
        """Yield the weights of the sets that any observer sees above the level."""
        for one, owner in enumerate(self.problem.sets.owner.tolist()):
            weight = how.weight(owner)
            if weight:
                marks = [
                    (self._above_level(how, one, o),) for o in self.observers_of(one)
                ]
                possible = [mark for mark in marks if self.most(*mark) > 0]
                yield from (part.times(weight) for part in self._highest(possible))

    def _above_level(self, how: Aggregate, one: int, observer: int) -> Sum:
        """Return a column that is 1 if the observer's f of the set exceeds the level."""
        sets = self.problem.sets
        measure = sets.measures[int(sets.owner[one])]
        last = cap_at(measure, int(sets.full[one]), how.level)
        if last == NO_CAP:
            return _constant(0)
        return self._beyond(one, observer, last, whole=True)

    # -- f of a tradeoff ---------------------------------------------------------------

    def _disclosure(self) -> None:
        """Add y >= f with its cost, if f counts."""
        problem, goal = self.problem, self.problem.goal
        sets = problem.sets
        tradeoff = goal.objective is Objective.TRADEOFF and problem.links is None
        if not (tradeoff and goal.lambda_ > 0 and sets.n_sets):
            return
        if goal.aggregate is not None:
            self._aggregated(goal.aggregate)
            return
        powers = {measure.power for measure in sets.measures}
        most = sets.n_sets / goal.over if goal.average and goal.over else 1.0
        cost = float(goal.lambda_) * self.scale
        y = self.new(whole=False, cost=cost, upper=max(1.0, most))
        if goal.average:
            for observer in range(len(self.observers)):
                over = goal.over or sum(1 for _ in self._judged_sets(observer))
                if over:
                    self.above(y, *self._mean(None, observer, over))
        elif len(powers) == 1 and max(powers) > 1:
            self._worst_power(y, max(powers))
        else:
            for one in range(sets.n_sets):
                for observer in self.observers_of(one):
                    self.above(y, self.share(one, observer))

    def _aggregated(self, how: Aggregate) -> None:
        """Bound y from below by an aggregate whose highest weight is 1."""
        normed, unit = how.normed()
        cost = float(self.problem.goal.lambda_ * unit) * self.scale
        y, before = self.new(whole=False, cost=cost, upper=np.inf), len(self.cost)
        for parts in self._terms(normed):
            self.above(y, *parts, scale=SIZE)
        if how.summed or how.shared:  # the error of each added column counts
            self.slack = max(1.0, (len(self.cost) - before + 1) / SIZE)

    def _worst_power(self, y: int, power: int) -> None:
        """Bound y from below by the chords of z^power, where z is above every share."""
        sets = self.problem.sets
        z = self.new(whole=False)
        found, listed = {Fraction(0), Fraction(1)}, True
        for one in range(sets.n_sets):
            for observer in self.observers_of(one):
                load, full = self._clipped(one, observer)
                self.above(z, load.times(Fraction(1, full)))
            values = self._values(one)
            listed, found = listed and values is not None, found | (values or set())
        ladder = sorted(found)
        if not listed or len(ladder) > 4 * SECANTS:
            points = [(Fraction(x), Fraction(x)) for x in np.linspace(0, 1, SECANTS)]
        else:
            points = list(pairwise(ladder))
        for a, b in points:
            slope, shift = _chord(a, b, power)
            minus = _column(y).times(Fraction(-1))
            self.row(_column(z).times(slope), minus, high=shift, scale=self._sharp)

    def _values(self, one: int) -> set[Fraction] | None:
        """Return the shares that a set can have; None if they are too many to list."""
        sets = self.problem.sets
        amounts = sets.amount[int(sets.start[one]) : int(sets.start[one + 1])]
        amounts = amounts[amounts > 0]
        if not len(amounts):
            return set()
        full, most = int(sets.full[one]), self.totals[one]
        over = most if full < most <= full * (1 + ROUNDED) else full
        step = 1 if sets.classes[one] else int(np.gcd.reduce(amounts))
        count = min(most, full) // step
        if count > 4 * SECANTS:  # chords between a subset would lie above f
            return None
        return {Fraction(min(j * step, over), over) for j in range(count + 1)}


def _reachable_sets(problem: Problem, cap: Average, observer: int) -> int:
    """Return how many of a cap's sets could disclose anything to an observer."""
    judged = problem.judged()
    owners = problem.sets.owner[reachable(problem.sets)]
    inside = np.isin(owners, np.array(cap.properties, np.int64))
    if judged is not None:
        inside &= judged[owners, observer]
    return int(inside.sum())
