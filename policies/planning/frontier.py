"""The frontier: what a stricter policy costs, in utility and in workers.

One limit on f for every rule, from none at all down to 0: at each, the most utility that
the present adversaries can give (what finds no place is withheld), and the least number
of adversaries with whom every answer that is wanted can be given. Both come with proven
bounds. The sweep over limits is
:func:`policies.solvers.exact.epsilon_constraint.front`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, repeat
from typing import Final

import numpy as np

from policies.model.problem import Pairs, Problem
from policies.model.sets import NO_CAP
from policies.model.weights import Weights
from policies.solvers import Cause, Limits, Solution, Solver, Verdict
from policies.solvers.bounds.counting import needs, singles
from policies.solvers.components import shapes, split
from policies.solvers.exact.epsilon_constraint import front, held_at
from policies.solvers.explain.cores import adversaries_needed
from policies.solvers.interfaces import free_bound

_HALF: Final = 0.5
"""Share of the time for plans; the rest counts adversaries."""


@dataclass(frozen=True)
class AdversariesNeeded:
    """How many adversaries all the answers take; new ones, who have seen nothing.

    Attributes
    ----------
    least : int
        Fewer cannot give them.
    enough : int or None
        So many can. None: not found, or ``never``.
    never : bool
        Whether no number can, since an entry is past the limit by itself.
    """

    least: int
    enough: int | None
    never: bool = False


@dataclass(frozen=True)
class Point:
    """What can be had at one limit on f.

    Attributes
    ----------
    limit : Fraction or None
        f of every set is at most this; None: the limits of the problem.
    verdict : Verdict
        Of the plan for the adversaries that there are.
    utility, bound : Fraction or None
        Of that plan, and of any: shares of the best without limits. None without a
        plan, as where past showings alone are past the limit.
    f : Fraction or None
        Worst disclosure of that plan.
    needed : AdversariesNeeded
    """

    limit: Fraction | None
    verdict: Verdict
    utility: Fraction | None
    bound: Fraction | None
    f: Fraction | None
    needed: AdversariesNeeded


@dataclass(frozen=True)
class Frontier:
    """The sweep.

    Attributes
    ----------
    points : tuple of Point
        From the loosest limit to the strictest.
    policy : Point
        With the limits of the problem itself.
    adversaries : int
        Those that there are.
    answers : int
        Those that are wanted.
    """

    points: tuple[Point, ...]
    policy: Point
    adversaries: int
    answers: int


def frontier(
    problem: Problem, count: int, solver: Solver, seed: int, limits: Limits
) -> Frontier:
    """Sweep the limit on f of every set, from none to 0.

    Parameters
    ----------
    problem : Problem
        Without links. Its own limits, on sets and on averages, are those of the policy;
        they are lifted for the other points.
    count : int
        Points, >= 2.
    solver : Solver
        Solves for utility alone below limits.
    seed : int
    limits : Limits
        Of all searches together.
    """
    some = replace(problem, lo=np.zeros_like(problem.lo))
    free = replace(
        some,
        sets=replace(problem.sets, cap=np.full(problem.sets.n_sets, NO_CAP)),
        averages=(),
    )
    began, rest = limits.clock(), chain(range(count + 1, 0, -1), repeat(1))

    def solve(one: Problem) -> Solution:
        share = limits.part(_HALF / (count + 1)).left(began, _HALF / next(rest))
        return solver(one, np.random.default_rng(seed), share)

    own = solve(held_at(some, None))
    swept = list(front(free, count, solve))
    loosest = swept[0][1].judged
    top = Fraction(1) if loosest is None else loosest.f_goal
    every = [top * step / (count - 1) for step in range(count - 1, -1, -1)]
    found = {top if level is None else level: one for level, one in swept}
    best = free_bound(held_at(free, None))
    searches = chain(range(count + 1, 0, -1), repeat(1))

    def point(limit: Fraction | None, plan: Solution) -> Point:
        at = problem
        if limit is not None:
            at = replace(held_at(free, limit), lo=problem.lo)
        share = limits.part(_HALF / (count + 1)).left(began, 1 / next(searches))
        return _point(limit, plan, best, adversaries_for(at, seed, share))

    points, last = [], swept[0][1]
    for level in dict.fromkeys(every):
        last = found.get(level, last)  # the plan before keeps this limit too
        points.append(point(level, last))
    return Frontier(
        _tightened(points),
        point(None, own),
        problem.n_adversaries,
        int(problem.lo.sum()),
    )


def _tightened(points: list[Point]) -> tuple[Point, ...]:
    """Carry proofs over: a stricter limit never takes fewer adversaries."""
    least, made = 0, []
    for point in points:
        least = max(least, point.needed.least)
        made.append(replace(point, needed=replace(point.needed, least=least)))
    enough: int | None = None
    for i in reversed(range(len(made))):
        found = [n for n in (made[i].needed.enough, enough) if n is not None]
        enough = min(found, default=None)
        if not made[i].needed.never:
            made[i] = replace(made[i], needed=replace(made[i].needed, enough=enough))
    return tuple(made)


def _point(
    limit: Fraction | None, plan: Solution, best: Fraction, needed: AdversariesNeeded
) -> Point:
    if plan.verdict is not Verdict.SOLVED or plan.judged is None:
        return Point(limit, plan.verdict, None, None, None, needed)
    return Point(
        limit,
        plan.verdict,
        plan.judged.u / best if best else Fraction(1),
        min(max(plan.bound, plan.judged.u) / best, Fraction(1))
        if best
        else Fraction(1),
        plan.judged.f_goal,
        needed,
    )


def adversaries_for(problem: Problem, seed: int, limits: Limits) -> AdversariesNeeded:
    """Count the adversaries whom all wanted answers take.

    Components of one shape are searched once.
    """
    bare = replace(
        problem,
        weights=Weights.flat(problem.n_entries, 1),
        capacity=None,
        forbidden=Pairs(),
        history=Pairs(),
        trusted=None,
        utilities=None,
    )
    least, began = 0, limits.clock()
    enough: int | None = 0
    parts = list(_parts(bare))
    for number, part in enumerate(parts):
        if any(clash.cause is Cause.ALONE for clash in singles(part)):
            return AdversariesNeeded(least, None, never=True)
        low = max(int(needs(part).max(initial=0)), int(part.lo.max(initial=0)))
        if not low:
            continue
        rng, share = np.random.default_rng(seed), limits.part(1 / len(parts))
        left = share.left(began, 1 / (len(parts) - number))
        low, high = adversaries_needed(part, low, rng, left)
        least = max(least, low)
        enough = None if enough is None or high is None else max(enough, high)
    return AdversariesNeeded(least, enough)


def _parts(problem: Problem) -> list[Problem]:
    """Return one component of each shape; all as one where means join them."""
    if problem.averages or problem.coalitions:
        return [problem]
    parts = split(problem.sets)
    _, first = np.unique(shapes(problem, parts), return_index=True)
    return [
        problem.select(parts.entries_of(one), parts.sets_of(one))
        for one in first.reshape(-1, 1)
    ]
