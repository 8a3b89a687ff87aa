"""Exact solution of problems with few plans by complete enumeration.

A plan is a row of subsets of entries, one an adversary; a subset is the bits of an
integer. What an observer sees follows from the subset that it is given and what it held
before, so a table gives, for each subset that occurs, f and whether it exceeds a limit.
A plan keeps all limits if and only if all its observers do, and its f is the highest of
theirs, their sum, or their union. The best of these rows is the optimum; if no row
keeps all limits there is no plan.

The judge fills the table, once for each subset and each kind of observer: what
observers disclose together is added (or united) in integers, and nothing is rounded.
With links alone, all 2^n subsets are computed at once in floats; those within rounding
error of a limit are recomputed exactly, and a tradeoff's bound is above the best row by
more than the rounding error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import ceil, comb, floor, lcm, prod
from typing import Final

import numpy as np

from policies.judging.judge import Tally, judge
from policies.model.aggregates import Aggregate, Parts
from policies.model.disclosure import loads
from policies.model.links import (
    Counts,
    LinkMeasure,
    Links,
    above_level,
    below_limit,
    link_similarities,
)
from policies.model.objective import Objective
from policies.model.problem import Goal, Pairs, Plan, Problem
from policies.model.problem_arrays import Floats, able
from policies.model.sets import Bools, Ints
from policies.model.weights import Weights
from policies.solvers.exact.cpsat import refuted
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound

PLANS: Final = 60_000
"""Plans that are enumerated, at most."""

ANSWERS: Final = 2_048
"""Calls of the judge, at most: about a second; fewer if they are slow."""

OBSERVERS: Final = 250
"""Adversaries and coalitions, at most."""

CELLS: Final = 400_000
"""Plans times observers, at most."""

_BITS: Final = 60
"""Entries, and sets or links in a union, at most: the bits of an int64."""

_ROWS: Final = 100  # members of sets and links that slow down a call of the judge
_ASKED: Final = 5_000  # numbers visited in the time of one call of the judge

LINKED_ENTRIES: Final = 12
"""Entries up to which all subsets are computed, where limits are on links alone."""

LINKED_PLANS: Final = 200_000
"""Plans that are enumerated there, at most."""

LINKED_CELLS: Final = 5_000_000
"""Plans times observers there, at most: a table of them takes 40 MB."""

_CALL: Final = 500  # numbers visited in the time that a link's arrays take
_CLOSE: Final = 1e-9  # rounding error of floats
_BATCH: Final = 256  # subsets counted between two checks of the clock

_Kind = tuple[int, bytes]


def listable(problem: Problem) -> bool:
    """Whether all plans can be enumerated."""
    return _linked(problem) or _few(problem)


def _linked(problem: Problem) -> bool:
    """Whether limits are on links alone, and plans are few."""
    n, k = problem.n_entries, problem.n_adversaries
    plain = not problem.sets.n_sets and not problem.averages
    plain = plain and problem.links is not None and problem.aggregate is None
    if not plain or problem.utilities is not None or n > LINKED_ENTRIES or not k:
        return False
    plans = plan_count(problem)
    cells = plans * (k + len(problem.groups))
    return 0 < plans <= LINKED_PLANS and cells <= LINKED_CELLS


def _few(problem: Problem) -> bool:
    """Whether plans are few, and observers' joint f follows from that of each."""
    n, k, how = problem.n_entries, problem.n_adversaries, problem.aggregate
    if not 0 < k <= OBSERVERS or n > _BITS or not 0 < plan_count(problem) <= PLANS:
        return False
    if how is not None and how.shared and _pieces(problem) > _BITS:
        return False
    tradeoff = problem.goal.objective is Objective.TRADEOFF
    if tradeoff and _joint(how) and problem.goal.aggregate is None:
        return False  # the goal's f and the cap count differently
    observers = k + len(problem.groups)
    if observers > OBSERVERS or plan_count(problem) * observers > CELLS:
        return False
    each = 1 + _rows(problem) // _ROWS
    return _answers(problem) * each <= ANSWERS


def _rows(problem: Problem) -> int:
    """Return the number of members of sets and links."""
    links = 0 if problem.links is None else len(problem.links.entry)
    return len(problem.sets.entry) + links


def _pieces(problem: Problem) -> int:
    """Return the number of sets or links."""
    return problem.sets.n_sets if problem.links is None else problem.links.n_links


def _joint(how: Aggregate | None) -> bool:
    """Whether the aggregate counts all observers together."""
    return how is not None and (how.summed or how.shared)


def _answers(problem: Problem) -> int:
    """Return how many calls of the judge are needed, at most."""
    kinds, open_ = _kinds(problem), int(np.count_nonzero(problem.hi))
    return min(len(set(kinds)) << open_, plan_count(problem) * len(kinds))


def looks(problem: Problem) -> int:
    """Return about how many numbers :func:`enumerate_plans` visits."""
    every = plan_count(problem) * len(_observers(problem))
    if _linked(problem):
        links = 0 if problem.links is None else problem.links.n_links
        return every + ((1 << problem.n_entries) + _CALL) * (1 + links)
    return every + _ASKED * (1 + _rows(problem) // _ROWS) * _answers(problem)


def enumerate_plans(problem: Problem, limits: Limits) -> Solution:
    """Return the optimum or INFEASIBLE; UNKNOWN if time ended first.

    Parameters
    ----------
    problem : Problem
        Must be :func:`listable`.
    limits : Limits
    """
    over = limits.deadline()
    masks, u = every(problem)
    seen = (_LinkTable if _linked(problem) else _JudgeTable)(problem)
    rows = seen.look(masks, over)
    if rows is None:
        tried = ("time ended before all plans were looked at",)
        return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=tried)
    if not len(rows):
        return refuted(problem, "all plans were looked at")
    value, unit = _worth(problem, masks[rows], u[rows])
    goal = problem.goal
    tradeoff = goal.objective is Objective.TRADEOFF
    if tradeoff:
        f, scale = seen.disclosed()
        price = goal.lambda_ / scale
        common = lcm(unit.denominator, price.denominator)
        value = value * int(unit * common) - f * int(price * common)
        unit = Fraction(1, common)
    row = int(value.argmax())
    best = answer(problem, plan_of_masks(masks[rows[row]]), tried=("all plans",))
    best = replace(best, stopped="optimal")
    if best.verdict is not Verdict.SOLVED:
        return best
    if not (seen.rounded and tradeoff):
        return replace(best, bound=best.value)
    top = value[row] * unit + goal.lambda_ * goal.tau
    top += Fraction(_CLOSE) * max(Fraction(1), abs(top))
    return replace(best, bound=max(best.value, top), stopped="")


def plan_count(problem: Problem) -> int:
    """Return the number of plans, capacities and barred pairs ignored."""
    k = problem.n_adversaries
    ways = zip(problem.lo.tolist(), problem.hi.tolist(), strict=True)
    return prod(_ways(k, low, high) for low, high in ways)


def _ways(k: int, low: int, high: int) -> int:
    return sum(comb(k, size) for size in range(low, min(high, k) + 1))


def every(problem: Problem) -> tuple[Ints, Ints]:
    """Return all plans: the subset of each adversary, shape (plans, k); and utility."""
    k, may = problem.n_adversaries, able(problem)
    masks, u = np.zeros((1, k), np.int64), np.zeros(1, np.int64)
    load = np.zeros((1, k), np.int64)
    for d in range(problem.n_entries):
        row = problem.weights.row(d)
        who = np.flatnonzero(may[d]).tolist()
        sizes = range(int(problem.lo[d]), min(int(problem.hi[d]), k) + 1)
        ways = [list(way) for size in sizes for way in combinations(who, size)]
        given = np.zeros((len(ways), k), np.int64)
        for i, way in enumerate(ways):
            given[i, way] = 1
        worth = np.array([row[way].sum() for way in ways], np.int64)
        masks = (masks[:, None] | (given << d)[None]).reshape(-1, k)
        u = (u[:, None] + worth[None]).reshape(-1)
        if problem.capacity is not None:
            load = (load[:, None] + given[None]).reshape(-1, k)
            fits = (load <= problem.capacity).all(axis=1)
            masks, u, load = masks[fits], u[fits], load[fits]
    return masks, u


def before(problem: Problem) -> Ints:
    """Return the subset that each adversary holds by history, shape (k,)."""
    found = np.zeros(problem.n_adversaries, np.int64)
    history = problem.history
    np.bitwise_or.at(found, history.adversary, 1 << history.entry)
    return found


def entries_of(mask: int) -> list[int]:
    """Return the entries of a subset, ascending."""
    return [d for d in range(mask.bit_length()) if mask >> d & 1]


def plan_of_masks(masks: Ints) -> Plan:
    """Return the plan of one row of subsets."""
    rows = enumerate(masks.tolist())
    return Plan.of((d, a) for a, mask in rows for d in entries_of(mask))


def _worth(problem: Problem, masks: Ints, u: Ints) -> tuple[Counts, Fraction]:
    """Return u of plans in integers, and the value of one unit."""
    if problem.utilities is None:
        return u.astype(np.object_), problem.weights.unit
    functions, scales = problem.utilities.functions, problem.utilities.scale
    columns = []
    for column, function, weight in zip(masks.T, functions, scales, strict=True):
        alone = replace(problem.utilities, functions=(function,), scale=(weight,))
        given, place = np.unique(column, return_inverse=True)
        worth = [alone.total([frozenset(entries_of(m))]) for m in given.tolist()]
        columns.append((worth, place))
    scale = lcm(*(one.denominator for worth, _ in columns for one in worth))
    value = np.zeros(len(masks), np.object_)
    for worth, place in columns:
        value = value + _whole(worth, scale)[place]
    return value, Fraction(1, scale)


def _whole(numbers: list[Fraction], scale: int) -> Counts:
    """Return fractions as integers in units of 1 / scale."""
    out = np.empty(len(numbers), np.object_)
    out[:] = [one.numerator * (scale // one.denominator) for one in numbers]
    return out


def _observers(problem: Problem) -> list[tuple[int, ...]]:
    """Return the members of each observer: adversaries, then coalitions."""
    alone = [(a,) for a in range(problem.n_adversaries)]
    return [*alone, *problem.groups]


def _kinds(problem: Problem) -> list[_Kind]:
    """Return what distinguishes each observer: what it held, and who is trusted."""
    alone, trusted, found = before(problem), problem.trusted, []
    for members in map(list, _observers(problem)):
        held = int(np.bitwise_or.reduce(alone[members]))
        free = b"" if trusted is None else trusted[:, members].all(axis=1).tobytes()
        found.append((held, free))
    return found


class _Table(ABC):
    """f and limits of each subset, by observer, over the remaining plans.

    Attributes
    ----------
    f : list of Fraction
        f as in the goal, or the capped number where observers count together.
    rows : int array, shape (remaining plans, observers)
        Indices into ``f``.
    rounded : bool
        Whether f comes from floats.
    """

    rounded = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.f: list[Fraction] = []
        self.rows: Ints = np.empty((0, 0), np.int64)

    def prepare(self, masks: Ints, over: Callable[[], bool]) -> bool:
        """Compute the table as far as possible in advance; return False if time ended."""
        del masks, over
        return True

    @abstractmethod
    def answers(
        self, observer: int, subsets: Ints, over: Callable[[], bool]
    ) -> Ints | None:
        """Index into ``f`` of each subset given to an observer; -1: past a limit."""

    def kept(self) -> Bools:
        """Whether plans keep the caps on all observers together, shape (plans,)."""
        return np.ones(len(self.rows), np.bool_)

    def look(self, masks: Ints, over: Callable[[], bool]) -> Ints | None:
        """Return the indices of the plans that keep all limits; None if time ended first."""
        if not self.prepare(masks, over):
            return None
        left, columns = np.arange(len(masks)), list[Ints]()
        for observer, members in enumerate(_observers(self.problem)):
            given = np.bitwise_or.reduce(masks[left][:, list(members)], axis=1)
            subsets, place = np.unique(given, return_inverse=True)
            number = self.answers(observer, subsets, over)
            if number is None:
                return None
            seen = number[place]
            kept = seen >= 0
            left = left[kept]
            columns = [column[kept] for column in [*columns, seen]]
        self.rows = np.stack(columns, axis=1)
        kept = self.kept()
        self.rows = self.rows[kept]
        return left[kept]

    def disclosed(self) -> tuple[Counts, int]:
        """Return f of plans in integers, and the integer for 1."""
        scale = lcm(*(one.denominator for one in self.f))
        keyed = [(float(f), f, at) for at, f in enumerate(self.f)]  # floats sort faster
        order = [at for _, _, at in sorted(keyed)]
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ascending = _whole([self.f[at] for at in order], scale)
        return ascending[rank[self.rows].max(axis=1)], scale


class _JudgeTable(_Table):
    """A table from the judge, called with one observer of each kind.

    Attributes
    ----------
    alone : dict of kind to Problem
        The problem of one observer of each kind.
    known : dict of (kind, int) to int
        The judge's answers so far.
    above : list of int
        Bits of the sets or links above the level, where each counts once.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.kinds = _kinds(problem)
        self.alone: dict[_Kind, Problem] = {}
        self.known: dict[tuple[_Kind, int], int] = {}
        self.above: list[int] = []

    def answers(
        self, observer: int, subsets: Ints, over: Callable[[], bool]
    ) -> Ints | None:
        """Judge the subsets that are new."""
        kind, number = self.kinds[observer], np.empty(len(subsets), np.int64)
        members = _observers(self.problem)[observer]
        if kind not in self.alone:
            self.alone[kind] = _alone(self.problem, members, kind[0])
        for at, subset in enumerate(subsets.tolist()):
            if over():
                return None
            if (kind, subset) not in self.known:
                self.known[kind, subset] = self._ask(self.alone[kind], subset)
            number[at] = self.known[kind, subset]
        return number

    def _ask(self, one: Problem, subset: int) -> int:
        """Judge an observer that is given this subset."""
        plan = Plan.of((d, 0) for d in entries_of(subset))
        judged = judge(one, plan)
        if not judged.feasible:
            return -1
        how = one.aggregate
        shared = how is not None and how.shared
        self.f.append(judged.f_goal)
        self.above.append(_above(one, plan) if shared else 0)
        return len(self.f) - 1

    def kept(self) -> Bools:
        """Whether plans keep the caps on all observers together, shape (plans,)."""
        problem, kept = self.problem, np.ones(len(self.rows), np.bool_)
        links = problem.links
        if not _joint(problem.aggregate):
            return kept
        caps = [
            (c.limit, c.strict) for c in problem.averages if c.aggregate is not None
        ]
        if links is not None and links.aggregate_tau is not None:
            caps.append((links.aggregate_tau, True))
        f, scale = self.disclosed()
        for limit, strict in caps:
            edge = limit * scale
            within = f < ceil(edge) if strict else f <= floor(edge)
            kept &= np.asarray(within, np.bool_)
        return kept

    def disclosed(self) -> tuple[Counts, int]:
        """Return f of plans in integers, and the integer for 1."""
        how = self.problem.aggregate
        if how is not None and how.shared:
            return self._united(how)
        if how is None or not how.summed:
            return super().disclosed()
        scale = lcm(*(one.denominator for one in self.f))
        return _whole(self.f, scale)[self.rows].sum(axis=1), scale

    def _united(self, how: Aggregate) -> tuple[Counts, int]:
        """Sum the weights of what any observer sees above the level."""
        bits = np.array(self.above, np.int64)[self.rows]
        seen = np.bitwise_or.reduce(bits, axis=1)
        links, owner = self.problem.links, self.problem.sets.owner
        numbers = owner.tolist() if links is None else range(links.n_links)
        scale = lcm(*(weight.denominator for weight in how.weights))
        weights = _whole([how.weight(number) for number in numbers], scale)
        total = np.zeros(len(seen), np.object_)
        for one, weight in enumerate(weights.tolist()):
            total = total + (seen >> one & 1).astype(np.object_) * weight
        return total, scale


def _alone(problem: Problem, members: tuple[int, ...], held: int) -> Problem:
    """Return the problem of a single observer, which may be given anything."""
    n, trusted = problem.n_entries, problem.trusted
    if trusted is not None:
        trusted = np.all(trusted[:, list(members)], axis=1)[:, None]
    how, goal = problem.aggregate, problem.goal
    if _joint(how):  # also where only a cap is on it: observers are added up
        goal = Goal(goal.objective, aggregate=how)
    return Problem(
        sets=problem.sets,
        lo=np.zeros(n, np.int64),
        hi=np.ones(n, np.int64),
        weights=Weights.flat(n, 1),
        history=Pairs.of((d, 0) for d in entries_of(held)),
        trusted=trusted,
        goal=goal,
        averages=problem.averages,
        links=problem.links,
        strict_history=problem.strict_history,
    )


def _above(one: Problem, plan: Plan) -> int:
    """Return the bits of the sets or links above the level for the only observer."""
    links, how = one.links, one.aggregate
    assert how is not None
    if links is not None:
        held = plan.union(one.history)
        seen = link_similarities(links, held.entry, held.adversary)
        level = how.level
        found = {x.link for x in seen if above_level(x, links.relation, level)}
        return sum(1 << link for link in found)
    tally = Tally(one)
    for piece in loads(one.sets, plan, one.history):
        tally.add(piece)
    parts = tally.parts or Parts(how)
    return sum(1 << number for number in parts.sets)


class _LinkTable(_Table):
    """A table of links, for all 2^n subsets at once: all observers see alike.

    Attributes
    ----------
    past : bool array, shape (2^n,)
        Whether holding a subset exceeds a limit.
    """

    rounded = True

    def prepare(self, masks: Ints, over: Callable[[], bool]) -> bool:
        """Compute f of every subset; exactly where floats are too close to a limit."""
        problem = self.problem
        self.before = before(problem)
        seen = _link_shares(problem, over)
        if seen is None:
            return False
        there = np.zeros(1 << problem.n_entries, np.bool_)
        for members in map(list, _observers(problem)):
            held = np.bitwise_or.reduce(
                masks[:, members] | self.before[members], axis=1
            )
            there[held] = True
        past = _links_past(problem, there, seen, over)
        if past is None:
            return False
        self.past = past
        self.f = [Fraction(f) for f in seen[int(problem.goal.average)].tolist()]
        return True

    def answers(
        self, observer: int, subsets: Ints, over: Callable[[], bool]
    ) -> Ints | None:
        """Look up the subsets, united with what was held before."""
        del over
        members = list(_observers(self.problem)[observer])
        held = subsets | int(np.bitwise_or.reduce(self.before[members]))
        return np.where(self.past[held], -1, held)


def _links_past(
    problem: Problem,
    there: Bools,
    seen: tuple[Floats, Floats],
    over: Callable[[], bool],
) -> Bools | None:
    """Return whether holding a subset exceeds a limit, shape (2^n,); None if time ended.

    Subsets close to a limit are counted exactly, if they are ``there``.
    """
    links, past = problem.links, np.zeros(len(seen[0]), np.bool_)
    assert links is not None
    close, whole = np.zeros_like(past), (1, problem.goal.over or links.n_links or 1)
    taus = (links.tau, links.mean_tau)
    for f, tau, one in zip(seen, taus, whole, strict=True):
        if tau is None:
            continue
        if links.relation is LinkMeasure.COMMON:  # numbers of links: compare exactly
            number, place = np.unique(np.rint(f * one), return_inverse=True)
            high = [Fraction(int(many), one) >= tau for many in number.tolist()]
            past |= np.array(high)[place]
        else:
            past |= f > float(tau) + _CLOSE
            close |= abs(f - float(tau)) <= _CLOSE
    open_ = np.flatnonzero(there & close & ~past)
    for at in range(0, len(open_), _BATCH):
        if over():
            return None
        masks = open_[at : at + _BATCH]
        past[masks] = _exactly_past(links, masks, whole[1])
    return past


def _exactly_past(links: Links, masks: Ints, whole: int) -> Bools:
    """Whether holding each of these subsets exceeds a limit, counted as the judge does."""
    bits = (masks[:, None] >> np.arange(len(links.place))) & 1
    observer, entry = np.nonzero(bits)
    past, total = np.zeros(len(masks), np.bool_), [Fraction(0)] * len(masks)
    for alike in link_similarities(links, entry, observer):
        if links.tau is not None:
            past[alike.observer] |= not below_limit(alike, links.relation, links.tau)
        if links.mean_tau is not None:
            total[alike.observer] += alike.share(links.relation)
    if links.mean_tau is not None:
        past |= np.array([f >= links.mean_tau * whole for f in total])
    return past


def _link_shares(
    problem: Problem, over: Callable[[], bool]
) -> tuple[Floats, Floats] | None:
    """Worst and mean disclosure of the links by subset held, shape (2^n,).

    None if time ended first.
    """
    links, n = problem.links, problem.n_entries
    assert links is not None
    bits = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    wide = links.count.dtype == np.object_  # Python integers, too large for floats
    bits = bits.astype(np.object_) if wide else bits
    count = links.count if wide else links.count.astype(np.float64)
    link, left, right = links.conflicts()
    worst, total = np.zeros(1 << n), np.zeros(1 << n)
    for one in np.unique(link).tolist():
        if over():
            return None
        rows = link == one
        d, e = left[rows], right[rows]
        dot = (bits[:, d] * bits[:, e]) @ (count[d] * count[e])
        f = (dot > 0).astype(np.float64)
        if links.relation is LinkMeasure.COSINE:
            mine = links.link == one
            ends = [links.entry[mine & (links.side == side)] for side in (0, 1)]
            square = prod(bits[:, x] @ (count[x] ** 2) for x in ends)
            f = np.sqrt((dot * dot / np.maximum(square, 1)).astype(np.float64))
        worst, total = np.maximum(worst, f), total + f
    return worst, total / (problem.goal.over or links.n_links or 1)
