"""Problems of any kind with few plans: all of them are looked at, as the judge sees them.

What a hand sees follows from the subset that it is given and from what it held before.
So the judge is asked once for each hand and subset that occurs, with that hand alone,
and a plan is a row of answers. What hands disclose together is added up (or united) in
whole numbers: nothing is rounded, and at a limit nothing is guessed. Links alone have
quicker tables (:mod:`policies.solvers.exact.link_enumeration`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Final

import numpy as np

from policies.judging.judge import Tally, judge
from policies.model.aggregates import Aggregate, Parts
from policies.model.disclosure import loads
from policies.model.links import Counts, above_level, link_similarities
from policies.model.objective import Objective
from policies.model.problem import Goal, Pairs, Plan, Problem
from policies.model.sets import Bools, Ints
from policies.model.weights import Weights
from policies.solvers.exact import link_enumeration
from policies.solvers.exact.cpsat import refuted
from policies.solvers.exact.plan_iterator import (
    before,
    entries_of,
    every,
    plan_of,
    size,
)
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound

PLANS: Final = 60_000
"""Plans up to which all are listed."""

ANSWERS: Final = 2_048
"""Times that the judge is asked, at most: that takes about a second; fewer if dear."""

HANDS: Final = 250
"""Adversaries and coalitions, at most."""

CELLS: Final = 400_000
"""Plans times hands, at most."""

_BITS: Final = 60
"""Entries, and sets or links that are united, which one integer of 64 bits tells."""

_ROWS: Final = 100  # members of sets and links that the judge looks at with ease
_ASKED: Final = 5_000  # numbers that could be looked at while the judge is asked once


_Kind = tuple[int, bytes]


def listable(problem: Problem) -> bool:
    """Whether all plans can be looked at."""
    return link_enumeration.listable(problem) or _few(problem)


def _few(problem: Problem) -> bool:
    """Whether plans are few, and what hands see together can be told from their parts."""
    n, k, how = problem.n_entries, problem.n_adversaries, problem.aggregate
    if not 0 < k <= HANDS or n > _BITS or not 0 < size(problem) <= PLANS:
        return False
    if how is not None and how.shared and _pieces(problem) > _BITS:
        return False
    tradeoff = problem.goal.objective is Objective.TRADEOFF
    if tradeoff and _joint(how) and problem.goal.aggregate is None:
        return False  # f is one number of hands, what is capped another
    hands = k + len(problem.groups)
    if hands > HANDS or size(problem) * hands > CELLS:
        return False
    each = 1 + _rows(problem) // _ROWS
    return _answers(problem) * each <= ANSWERS


def _rows(problem: Problem) -> int:
    """How many members sets and links have."""
    links = 0 if problem.links is None else len(problem.links.entry)
    return len(problem.sets.entry) + links


def _pieces(problem: Problem) -> int:
    """How many sets or links there are."""
    return problem.sets.n_sets if problem.links is None else problem.links.n_links


def _joint(how: Aggregate | None) -> bool:
    """Whether what hands see counts together."""
    return how is not None and (how.summed or how.shared)


def _answers(problem: Problem) -> int:
    """How often the judge is asked, at most."""
    kinds, open_ = _kinds(problem), int(np.count_nonzero(problem.hi))
    return min(len(set(kinds)) << open_, size(problem) * len(kinds))


def looks(problem: Problem) -> int:
    """Return about how many numbers :func:`listed` looks at."""
    if link_enumeration.listable(problem):
        return link_enumeration.looks(problem)
    asked = _ASKED * (1 + _rows(problem) // _ROWS)
    return size(problem) * len(_hands(problem)) + asked * _answers(problem)


def listed(problem: Problem, limits: Limits) -> Solution:
    """Return the optimum, or that there is none; UNKNOWN where time ended first.

    Parameters
    ----------
    problem : Problem
        One that is :func:`listable`.
    limits : Limits
    """
    if link_enumeration.listable(problem):
        return link_enumeration.listed(problem, limits)
    over = limits.deadline()
    masks, u = every(problem)
    seen = _Seen(problem)
    rows = seen.look(masks, over)
    if rows is None:
        told = ("time ended before all plans were looked at",)
        return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=told)
    if not len(rows):
        return refuted(problem, "all plans were looked at")
    value, unit = _worth(problem, masks[rows], u[rows])
    goal = problem.goal
    if goal.objective is Objective.TRADEOFF:
        f, scale = seen.disclosed()
        price = goal.lambda_ / scale
        common = lcm(unit.denominator, price.denominator)
        value = value * int(unit * common) - f * int(price * common)
    row = rows[int(value.argmax())]
    best = answer(problem, plan_of(masks[row]), tried=("all plans",), stopped="optimal")
    return replace(best, bound=best.value) if best.verdict is Verdict.SOLVED else best


def _worth(problem: Problem, masks: Ints, u: Ints) -> tuple[Counts, Fraction]:
    """Return u of plans in whole numbers, and what one of them is worth."""
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
    """Return fractions as whole numbers of 1 / scale each."""
    out = np.empty(len(numbers), np.object_)
    out[:] = [one.numerator * (scale // one.denominator) for one in numbers]
    return out


def _hands(problem: Problem) -> list[tuple[int, ...]]:
    """Return who each hand is: adversaries, then coalitions."""
    alone = [(a,) for a in range(problem.n_adversaries)]
    return [*alone, *problem.groups]


def _kinds(problem: Problem) -> list[_Kind]:
    """Return all that hands can differ in: what they held, and who is trusted."""
    alone, trusted, found = before(problem), problem.trusted, []
    for members in map(list, _hands(problem)):
        held = int(np.bitwise_or.reduce(alone[members]))
        free = b"" if trusted is None else trusted[:, members].all(axis=1).tobytes()
        found.append((held, free))
    return found


@dataclass
class _Seen:
    """What hands see, as far as the judge was asked.

    Attributes
    ----------
    alone : dict of kind to Problem
        The problem of one hand of each kind.
    answers : dict of (kind, int) to int
        Index into ``f`` and ``above`` for a hand of this kind that is given this
        subset; -1 where that is past a limit.
    f : list of Fraction
        f as the goal counts it, or what is capped where hands count together.
    above : list of int
        Bits of the sets or links above the level, where those are counted once.
    rows : int array, shape (plans that are left, hands)
        Indices into both.
    """

    problem: Problem
    alone: dict[_Kind, Problem] = field(default_factory=dict)
    answers: dict[tuple[_Kind, int], int] = field(default_factory=dict)
    f: list[Fraction] = field(default_factory=list)
    above: list[int] = field(default_factory=list)
    rows: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))

    def look(self, masks: Ints, over: Callable[[], bool]) -> Ints | None:
        """Return the plans that keep all limits, by row; None where time ended first."""
        left, columns = np.arange(len(masks)), list[Ints]()
        for members, key in zip(
            _hands(self.problem), _kinds(self.problem), strict=True
        ):
            given = np.bitwise_or.reduce(masks[left][:, list(members)], axis=1)
            subsets, place = np.unique(given, return_inverse=True)
            number = np.empty(len(subsets), np.int64)
            if key not in self.alone:
                self.alone[key] = _alone(self.problem, members, key[0])
            for at, subset in enumerate(subsets.tolist()):
                if over():
                    return None
                number[at] = self._answer(key, subset)
            seen = number[place]
            kept = seen >= 0
            left = left[kept]
            columns = [column[kept] for column in [*columns, seen]]
        self.rows = np.stack(columns, axis=1)
        kept = self._kept()
        self.rows = self.rows[kept]
        return left[kept]

    def _answer(self, kind: _Kind, subset: int) -> int:
        """Ask the judge, once for all hands of the same kind."""
        if (kind, subset) not in self.answers:
            self.answers[kind, subset] = self._ask(self.alone[kind], subset)
        return self.answers[kind, subset]

    def _ask(self, one: Problem, subset: int) -> int:
        """Ask the judge about a hand that is given this subset."""
        plan = Plan.of((d, 0) for d in entries_of(subset))
        told = judge(one, plan)
        if not told.feasible:
            return -1
        how = one.aggregate
        shared = how is not None and how.shared
        self.f.append(told.f_goal)
        self.above.append(_above(one, plan) if shared else 0)
        return len(self.f) - 1

    def _kept(self) -> Bools:
        """Whether plans keep the caps on what hands see together."""
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
        """Return f of plans in whole numbers, and how many of them are 1."""
        how = self.problem.aggregate
        if how is not None and how.shared:
            return self._united(how)
        scale = lcm(*(one.denominator for one in self.f))
        f = _whole(self.f, scale)[self.rows]
        together = how is not None and how.summed
        return (f.sum(axis=1) if together else f.max(axis=1)), scale

    def _united(self, how: Aggregate) -> tuple[Counts, int]:
        """Count what anybody sees above the level."""
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
    """Return the problem of one hand alone: it may be given anything."""
    n, trusted = problem.n_entries, problem.trusted
    if trusted is not None:
        trusted = np.all(trusted[:, list(members)], axis=1)[:, None]
    how, goal = problem.aggregate, problem.goal
    if _joint(how):  # also where only a cap is on it: what hands see is added up
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
    """Bits of the sets or links that the only hand sees above the level."""
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
