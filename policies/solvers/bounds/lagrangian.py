"""The Lagrangian bound: every load has a price; no solver is needed.

A plan gives entry d to a set S of adversaries. Observer o (an adversary or a coalition)
then holds the part c_dq of set q, once, however many of its members are in S. With
loads l_qo = base_qo + sum of c_dq over the entries that o sees, and prices y_qo >= 0 of
loads, w_o >= 0 of means (the sum over q of f_q(l_qo), divided by N) and r_a >= 0 of places,
no plan whose f is at most the level v has more utility than

    D(y, w, r) = sum over d of max over S of
                     [u_d(S) - sum of c_dq y_qo over o that see S - sum of r_a over S]
               + sum of max over possible l of [y_qo l - w_o f_q(l) / N] - sum of y_qo base_qo
               + sum of r_a room_a  + what the limit on means, or the tradeoff, pays for w

as all terms that D adds to u are >= 0 for such a plan (weak duality; Everett 1963,
Geoffrion 1974). So any prices prove a bound: subgradient steps (Polyak's length, aimed at
the best plan) only search for good ones, and
:data:`policies.solvers.load_tables.ERROR` covers rounding in sums of floats.

Loads are integer multiples of a step, which is used three times, each time exactly. A
worst f is one of finitely many levels v: each has its own bound, with ``l <= cap(v)``
rounded down to a step, and the bound of the tradeoff is the highest D - lambda v. The
maximum over l is over those multiples, not between them. And if any m adversaries pool
and may hold c of a set, all but m - 1 of them hold at most floor(c / m) (else m of them
exceed c), so any s of them together hold at most c + (s - m) floor(c / m); such sums
are added as observers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import comb, inf
from typing import Any, Final

import numpy as np

from policies.model.coalitions import membership
from policies.model.disclosure import raise_parts, reached_at
from policies.model.objective import Objective
from policies.model.problem import Problem
from policies.model.problem_arrays import Floats, Tables, tables
from policies.model.sets import Bools, Ints
from policies.solvers.exact.epsilon_constraint import levels, thinned
from policies.solvers.features import only_annealing_fits
from policies.solvers.interfaces import Limits, Solution, Verdict, best_of, free_bound
from policies.solvers.load_tables import ERROR
from policies.solvers.parallel_portfolio import sure
from policies.solvers.scaling import reached
from policies.solvers.search.annealing import annealable
from policies.solvers.search.annealing_state import widest

SUBSETS: Final = 256
"""Observers that are added to the existing ones, at most."""

_STEPS: Final = 2_000  # per unit of work
_MOST: Final = 20_000  # steps of one bound
_CHOICES: Final = 2**20  # entries x sets of adversaries above which nothing is proven
_HIT: Final = 2**22  # the same for observers x sets of adversaries: a table of 40 MB
_ROWS: Final = 2**21  # the same for members of sets x observers: milliseconds a step
# Bounds at work .25, no plan known, on linear-average-60-12-5-1, linear-worst-60-12-2-2,
# quadratic-worst-60-12-5-1, quadratic-average-60-12-2-2, collusion_any2_D60_P60_k3_t1_34 and
# step_caps_tight_D60_k6_t2: _SHORT of .5 and .9 and _IDLE of 12 and 50 end within .12 %;
# _KEEP of .3 is .1 % higher to 2 % lower, .8 up to 60 % higher; _AIM of .005 up to 80 %
# higher, .02 up to 2.6 % lower; _LEVELS of 200 and 800 and _ENOUGH of 1e-3 and 1e-5 the same.
_LEVELS: Final = 400  # levels of f that are bounded, at most
_IDLE: Final = 25  # steps without a better bound before they become shorter
_SHORT: Final = 0.7  # factor by which they become shorter
_ENOUGH: Final = 1e-4  # ends when steps are this short, relative to the first
_AIM: Final = 0.01  # relative distance below the bound to aim at without a plan
_KEEP: Final = 0.6  # share of the last direction in the next one
_LOOSE: Final = 1e-9  # a cap may be slightly too high, never too low


def priceable(problem: Problem) -> bool:
    """Whether the bound applies: few choices, and nobody is trusted."""
    if not annealable(problem) or problem.trusted is not None:
        return False
    if len(problem.history) and not problem.strict_history:
        return False
    k, copies = problem.n_adversaries, int(problem.hi.max(initial=0))
    choices = sum(comb(k, size) for size in range(copies + 1))
    observers = k + len(problem.groups) + SUBSETS
    rows = max(problem.sets.n_sets, len(problem.sets.entry)) * observers
    hit = (observers if problem.coalitions.any_m > 1 else observers - SUBSETS) * choices
    few = problem.n_entries * choices <= _CHOICES and hit <= _HIT
    return few and rows <= _ROWS


def price_bound(
    problem: Problem, limits: Limits, value: float | None = None
) -> Fraction:
    """Return a bound on the objective of all plans.

    Parameters
    ----------
    problem : Problem
        Must be :func:`priceable`.
    limits : Limits
    value : float, optional
        Objective of a known plan: no proof is needed below it.
    """
    free = free_bound(problem)
    search = _Search(problem, limits, value)
    search.run()
    if not np.isfinite(search.bound):  # there is no plan, which others report
        return free
    return min(free, Fraction(search.bound))


def bounded(
    problem: Problem, found: Sequence[Solution], limits: Limits
) -> list[Solution]:
    """Return the bound by prices together with the best solution; empty if useless."""
    if any(sure(one) for one in found) or not (
        only_annealing_fits(problem) and priceable(problem)
    ):
        return []
    best = best_of(found)
    bound = price_bound(problem, limits, None if best is None else float(best.value))
    method = "prices of what observers see"
    if best is None:
        return [Solution(Verdict.UNKNOWN, bound=bound, tried=(method,))]
    bound = max(bound, best.value)
    stopped = "optimal" if reached(best.value, bound) else ""
    return [replace(best, bound=bound, tried=(*best.tried, method), stopped=stopped)]


@dataclass(frozen=True, eq=False)
class _Prices:
    """Prices, or a direction in which to change them.

    Attributes
    ----------
    load : float64 array, shape (m, h)
    mean : float64 array, shape (h,)
    room : float64 array, shape (k,)
    """

    load: Floats
    mean: Floats
    room: Floats

    def moved(self, step: float, by: _Prices) -> _Prices:
        """Return these minus a step along a direction, clipped at 0."""
        pairs = zip(self.parts(), by.parts(), strict=True)
        return _Prices(*(np.maximum(one - step * two, 0.0) for one, two in pairs))

    def mixed(self, last: _Prices | None) -> _Prices:
        """Return this direction mixed with a part of the last one."""
        if last is None:
            return self
        pairs = zip(self.parts(), last.parts(), strict=True)
        return _Prices(*(one + _KEEP * two for one, two in pairs))

    def size(self) -> float:
        """Return the square of its length."""
        return float(sum((one * one).sum() for one in self.parts()))

    def parts(self) -> tuple[Floats, Floats, Floats]:
        """Return the three tables."""
        return self.load, self.mean, self.room


class _Search:
    """Subgradient steps, and the lowest bounds so far.

    Attributes
    ----------
    proven : float64 array, shape (levels,)
        Bound on plans with this f, without the constant of the tradeoff.
    """

    def __init__(self, problem: Problem, limits: Limits, value: float | None) -> None:
        self.limits, self.over = limits, limits.deadline()
        goal, self.t = problem.goal, tables(problem)
        tradeoff = goal.objective is Objective.TRADEOFF and goal.lambda_ > 0
        self.price = float(goal.lambda_) if tradeoff else 0.0
        self.shift = float(goal.lambda_ * goal.tau) if tradeoff else 0.0
        self.means = bool(problem.averages) or (tradeoff and goal.average)
        self.observers = observers_of(problem, summed=not self.means)
        self.loads = CoalitionLoads(self.t, problem, self.observers)
        self.limit, self.number = inf, float(self.t.over)
        if problem.averages:
            cap = problem.averages[0]
            self.limit, self.number = float(cap.limit), float(cap.over)
        self.value = -inf if value is None else value - self.shift
        self._worths(problem)
        self._levels(problem, worst=tradeoff and not self.means)
        free = float(free_bound(problem)) - self.shift
        self.proven: Floats = free - self.price * self.level
        self._impossible(problem)

    def _worths(self, problem: Problem) -> None:
        """Compute the worth of every entry for every set of adversaries, shape (n, s)."""
        choice, t = self.observers.choice, self.t
        each = choice.T.astype(float)
        self.worth = t.worth @ each
        size = choice.sum(axis=1)
        no = (size < t.lo[:, None]) | (size > t.hi[:, None])
        no |= (~t.able).astype(float) @ each > 0
        self.worth[no] = -inf
        self.scarce = problem.capacity is not None

    def _levels(self, problem: Problem, *, worst: bool) -> None:
        """Set up levels of f, ascending, and caps on loads at each."""
        beyond, self.like = np.unique(self.observers.beyond, return_inverse=True)
        self.alike = np.eye(len(beyond))[self.like]
        loads = self.loads
        self.level: Floats = np.zeros(1)
        caps = problem.sets.cap[None]
        if worst:
            every, complete = levels(problem.sets)
            ladder = thinned(every, _LEVELS)
            caps = np.minimum(caps, self._at(np.array([*map(float, ladder)])))
            exact = complete and len(ladder) == len(every)
            below = [Fraction(0), *ladder[:-1]]
            self.level = np.array([*map(float, ladder if exact else below)])
        self.caps = np.array([loads.caps(cap, beyond) for cap in caps]) + _LOOSE

    def _at(self, level: Floats) -> Ints:
        """Return the highest loads with f at or slightly above a level, (levels, m)."""
        power, full = self.t.power, self.t.full
        part = reached_at(level, power).T
        cap = np.floor(part * full * (1 + _LOOSE) + _LOOSE).astype(np.int64)
        cap = np.where(power > 0, cap, full - 1)
        return np.where(level[:, None] >= 1, self.loads.most, cap)

    def _impossible(self, problem: Problem) -> None:
        """Exclude levels below what history, or all adversaries together, hold."""
        wanted = self.loads.parts[self.t.lo > 0].sum(axis=0)
        all_of = self.observers.members.all(axis=1)
        least = self.loads.base.copy()
        if not problem.sets.classes.any():
            least[:, all_of] = np.maximum(least[:, all_of], wanted[:, None])
        least = np.stack(
            [least[:, self.like == i].max(axis=1) for i in range(self.caps.shape[2])], 1
        )
        bad = (least[None] > self.caps + _LOOSE).any(axis=(1, 2))
        if len(self.level) > 1:  # that there is no plan at all is for others to report
            self.proven[bad] = -inf

    @property
    def bound(self) -> float:
        """Proven upper bound on the objective of every plan."""
        return self.shift + max(float(self.proven.max()), self.value)

    def run(self) -> None:
        """Step until work or time ends, or no level is open."""
        most = int(min(self.limits.work * _STEPS, _MOST))
        prices, last, length, idle = self._first(), None, 1.0, 0
        for _ in range(most):
            at = int(np.argmax(self.proven))
            before = float(self.proven[at])
            if self.over() or before <= self.value + _LOOSE or length < _ENOUGH:
                return
            found, slope = self._dual(prices, at)
            direction = slope.mixed(last)
            idle = 0 if self.proven[at] < before - 1e-6 * abs(before) else idle + 1
            if idle > _IDLE:
                length, idle = length * _SHORT, 0
            aim = self.value if self.value > -inf else before - _AIM * abs(before)
            far, size = max(found - min(aim, before), 1e-9), direction.size()
            if size <= 0:
                return
            prices = prices.moved(length * far / size, direction)
            last = direction

    def _first(self) -> _Prices:
        """Return prices at an even spread."""
        m, h = self.loads.base.shape
        k = self.t.room.shape[0]
        load, mean = np.zeros((m, h)), np.zeros(h)
        if self.means:
            total = self.price or 1.0
            mean += total / h
            even = self.observers.members.sum(axis=1) / k
            power = self.t.power[:, None]
            rise = power * even ** np.maximum(power - 1, 0)  # 0 for a step
            load = rise * mean / self.number
        return _Prices(load, mean, np.zeros(k))

    def _dual(self, prices: _Prices, at: int) -> tuple[float, _Prices]:
        """Record the bound at a level; return it and its gradient."""
        observers, loads = self.observers, self.loads
        cost = np.asarray(loads.parts @ (prices.load @ observers.hit))
        if len(loads.past):
            spared = np.asarray(loads.own @ prices.load) * loads.seen
            cost[loads.past] -= spared @ observers.hit
        score = self.worth - cost - observers.choice @ prices.room
        pick = np.argmax(score, axis=1)
        best = score[np.arange(len(pick)), pick]
        held = observers.hit.T[pick]
        held[loads.past] *= 1 - loads.seen
        load = loads.base + np.asarray(loads.back @ held)
        rent = float(prices.room @ self.t.room) if self.scarce else 0.0
        fixed = float(best.sum()) + rent - float((prices.load * loads.base).sum())
        high, f = self._highest(prices, at)
        paid, slope = self._means_paid(prices, f)
        terms = self._terms(prices, high, f)
        found = fixed + paid + terms - self.price * self.level
        size = float(np.abs(best).sum()) + rent + np.abs(terms) + abs(paid)
        found = found + ERROR * (1.0 + size)
        self.proven = np.minimum(self.proven, found)
        taken = observers.choice[pick].sum(axis=0)
        room = self.t.room - taken if self.scarce else np.zeros(len(taken))
        return float(found[at]), _Prices(high - load, slope, room.astype(float))

    def _terms(self, prices: _Prices, high: Floats, f: Floats) -> Floats:
        """Return what loads pay at most, at each level, shape (levels,)."""
        if not self.means:
            return np.asarray(np.tensordot(self.caps, prices.load @ self.alike, 2))
        paid = float((prices.load * high).sum())
        return np.array([paid - float(prices.mean @ f)])

    def _means_paid(self, prices: _Prices, f: Floats) -> tuple[float, Floats]:
        """Return what means pay, and its gradient."""
        if not self.means:
            return 0.0, np.zeros(len(prices.mean))
        if self.limit < inf:
            return float(prices.mean.sum()) * self.limit, self.limit - f
        over = float(prices.mean.sum()) - self.price  # f is at most 1
        return max(over, 0.0), -f + float(over > 0)

    def _highest(self, prices: _Prices, at: int) -> tuple[Floats, Floats]:
        """Return loads that pay most, shape (m, h), and each observer's mean f then."""
        if not self.means:
            return self.caps[at][:, self.like], np.zeros(len(prices.mean))
        top, best, found = self.caps[0][:, self.like], None, None
        for load in self._candidates(prices, top):
            f = raise_parts(np.minimum(load, 1.0), self.t.power)
            pays = prices.load * load - prices.mean * f / self.number
            if best is None:
                best, found, share = pays, load, f
                continue
            more = pays > best
            best = np.where(more, pays, best)
            found, share = np.where(more, load, found), np.where(more, f, share)
        assert found is not None
        return found, share.sum(axis=0) / self.number

    def _candidates(self, prices: _Prices, top: Floats) -> Iterator[Any]:
        """Yield loads among which one pays most: the ends, and stationary points of f.

        What a load pays is concave in it for powers above 1, so the best integer number
        of steps is next to the stationary point; for a parabola it is the nearest.
        """
        base, power = self.loads.base, self.t.power[:, None]
        each = (self.loads.gcd / self.loads.full)[:, None]
        yield top
        below = np.minimum(np.maximum(self.loads.below, base), top)
        inner = np.where(power == 0, below, base)
        highest = int(power.max(initial=0))
        if highest <= 1:
            yield inner
            return
        slope = np.maximum(power * prices.mean / self.number, 1e-300)
        root = 1 / np.maximum(power - 1, 1)
        turn = np.clip((prices.load / slope) ** root, base, np.minimum(1.0, top))
        even = (self.loads.full % self.loads.gcd == 0)[:, None]
        even &= not len(self.loads.past)
        for to_whole in (np.round,) if highest == 2 else (np.floor, np.ceil):
            whole = np.minimum(to_whole(turn / each) * each, top)
            yield np.where(power > 1, np.where(even, whole, turn), inner)


@dataclass(frozen=True, eq=False)
class Observers:
    """The observers; h observers, and s sets of adversaries that an entry may go to.

    Attributes
    ----------
    members : bool array, shape (h, k)
    beyond : int64 array, shape (h,)
        Members beyond m of an observer that only bounds what any m may see; else 0.
    hit : float64 array, shape (h, s)
        1 if an observer sees what such a set gets.
    choice : bool array, shape (s, k)
    """

    members: Bools
    beyond: Ints
    hit: Floats
    choice: Bools


def observers_of(problem: Problem, *, summed: bool) -> Observers:
    """Return the observers that count; if ``summed``, also those of more than any m."""
    k, m = problem.n_adversaries, problem.coalitions.any_m
    every = membership(problem.groups, k)
    rows = [every[widest(every)]]
    beyond = [np.zeros(len(rows[0]), np.int64)]
    for size in range(k, m, -1) if summed and m > 1 else ():
        if comb(k, size) > SUBSETS - sum(map(len, rows[1:])):
            break
        rows.append(_subsets(k, size))
        beyond.append(np.full(len(rows[-1]), size - m))
    copies = range(min(int(problem.hi.max(initial=0)), k) + 1)
    choice = np.concatenate([_subsets(k, size) for size in copies])
    members = np.concatenate(rows)
    hit = members.astype(float) @ choice.T.astype(float)  # integers are far slower
    np.minimum(hit, 1.0, out=hit)
    return Observers(members, np.concatenate(beyond), hit, choice)


def _subsets(k: int, size: int) -> Bools:
    """Return all sets of so many of k adversaries, shape (sets, k)."""
    table = np.zeros((comb(k, size), k), np.bool_)
    if size:
        chosen = np.array(list(combinations(range(k), size)))
        table[np.arange(len(chosen))[:, None], chosen] = True
    return table


class CoalitionLoads:
    """Loads of observers as parts of f = 1; n entries, m sets, h observers.

    Attributes
    ----------
    parts : sparse matrix, shape (n, m)
        Contribution of an entry to a load. A class counts once: its entries share that.
    base : float64 array, shape (m, h)
        Loads that are present in any case.
    gcd, most, full : int64 array, shape (m,)
        Integer loads: their common divisor, the highest, and that of f = 1.
    below : float64 array, shape (m, 1)
        The highest load with f < 1, without what history holds.
    pool : int
        Any so many adversaries pool.
    """

    def __init__(self, t: Tables, problem: Problem, observers: Observers) -> None:
        from scipy.sparse import csr_array

        n, m = problem.n_entries, len(t.full)
        amount, inside = t.amount.astype(float), t.classes[t.set_of]
        pairs = np.stack([t.set_of, t.amount])[:, inside]
        _, where, size = np.unique(
            pairs, axis=1, return_inverse=True, return_counts=True
        )
        amount[inside] = 1 / size[where.reshape(-1)]
        full = t.full.astype(float)
        part = amount / full[t.set_of]
        self.parts = csr_array((part, (t.entry, t.set_of)), shape=(n, m))
        self.back = csr_array(self.parts.T)
        seen = t.held.astype(np.int64) @ observers.members.T.astype(np.int64) > 0
        self.past = np.flatnonzero(seen.any(axis=1))
        self.seen = seen[self.past].astype(float)
        self.own = self.parts[self.past]
        self.base = np.asarray(self.own.T @ self.seen)
        self.full, self.pool = t.full, max(1, problem.coalitions.any_m)
        self.gcd, self.most = problem.sets.step, problem.sets.total
        self.below = ((t.full - 1) // self.gcd * self.gcd / t.full)[:, None]

    def caps(self, cap: Ints, beyond: Ints) -> Floats:
        """Return the highest loads, where any m may see ``cap`` (m,), shape (m, h)."""
        each, m = self.gcd, self.pool
        cap = np.minimum(cap, self.most) // each * each
        share = cap // (m * each) * each
        high = np.minimum(cap[:, None] + share[:, None] * beyond, self.most[:, None])
        return np.asarray(high / self.full[:, None])
