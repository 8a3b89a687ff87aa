"""TRADEOFF as a sweep over disclosure levels: max u + lambda * (tau - f).

f takes few values. With f held at most at one of them the problem is a disc-budget
problem; the best over the levels is the answer (epsilon-constraint method). Levels that
can no longer win by their bound are not solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from policies.judging.judge import judge
from policies.model.aggregates import Aggregate
from policies.model.disclosure import cap_at, share
from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.sets import NO_CAP, Ints, Measure, SetSystem
from policies.solvers.interfaces import Limits, Solution, Verdict

_LEVELS = 40  # more are thinned; bounds then count the gap


def levels(sets: SetSystem) -> list[Fraction]:
    """Values that f of any set can take up to its cap, ascending, 0 included."""
    found = {Fraction(0)}
    if not sets.n_sets:
        return [Fraction(0)]
    measure = np.array([int(m) for m in sets.measures])[sets.owner]
    step = np.ones(sets.n_sets, np.int64)
    filled = np.flatnonzero(np.diff(sets.start) > 0)
    if len(filled):
        step[filled] = np.gcd.reduceat(sets.amount, sets.start[filled])
    step = np.where(sets.classes, 1, np.maximum(step, 1))
    kinds = np.unique(np.stack([measure, sets.full, sets.cap, step], axis=1), axis=0)
    for number, full, cap, each in kinds.tolist():
        top = min(full, cap)
        if number == Measure.STEP:
            if cap >= full:
                found.add(Fraction(1))
            continue
        each = max(each, top // 1_000)  # noqa: PLW2901
        for load in [*range(each, top, each), top]:
            found.add(share(Measure(number), load, full))
    return sorted(found, key=lambda v: (float(v), v))  # floats compare sooner


def thinned(values: list[Fraction], most: int) -> list[Fraction]:
    """Return at most so many of them, the first and the last included."""
    at = np.unique(np.linspace(0, len(values) - 1, most).astype(int))
    return [values[i] for i in at.tolist()] if len(values) > most else values


def capped(sets: SetSystem, level: Fraction, how: Aggregate | None = None) -> SetSystem:
    """Return the sets with caps lowered so that f <= level everywhere.

    With an aggregate its weight times f is what is held there.
    """
    pairs, index = np.unique(
        np.stack([sets.owner, sets.full], axis=1), axis=0, return_inverse=True
    )

    def cap(number: int, full: int) -> int:
        f = level if how is None else how.level_of(number, level)
        return NO_CAP if f is None else cap_at(sets.measures[number], full, f)

    caps: Ints = np.array([cap(o, f) for o, f in pairs.tolist()], np.int64)
    if not sets.n_sets:
        return sets
    return replace(sets, cap=np.minimum(sets.cap, caps[index.reshape(-1)]))


def sweep(
    solver: Callable[[Problem, np.random.Generator, Limits], Solution],
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
) -> Solution:
    """Solve a tradeoff with a solver for disc-budget problems.

    Returns
    -------
    Solution
        The best plan over all levels of f; its bound holds for the tradeoff.
    """
    goal, unit = problem.goal, problem.weights.unit
    most = problem.weights.best(problem.hi) * unit
    floor = judge(problem, Plan()).f
    every = levels(problem.sets)
    ladder = [v for v in every if v >= floor]
    thin = len(ladder) > _LEVELS
    ladder = thinned(ladder, _LEVELS)
    over = limits.deadline()
    best: Solution | None = None
    bound: Fraction | None = None
    below = floor
    last = Solution(Verdict.UNKNOWN)
    part = limits.part(1 / max(1, min(len(ladder), 8)))
    for level in [*ladder, None]:
        reach = goal.lambda_ * (goal.tau - (below if thin or level is None else level))
        won = best is not None and best.value >= most + reach
        if won or (over() and best is not None) or (level is None and best is not None):
            rest = most + reach
            bound = rest if bound is None or not won else bound
            break
        sets = problem.sets if level is None else capped(problem.sets, level)
        plain = replace(problem, sets=sets, goal=replace(goal, objective=_BUDGET))
        last = solver(plain, rng, part)
        if level is not None:
            below = level
        if last.verdict is not Verdict.INFEASIBLE:
            bound = max(last.bound + reach, bound or last.bound + reach)
        if last.verdict is Verdict.SOLVED:
            judged = judge(problem, last.plan)
            found = replace(last, value=judged.objective, judged=judged)
            if best is None or found.value > best.value:
                best = found
    ceiling = bound if bound is not None else most + goal.lambda_ * goal.tau
    if best is None:
        return replace(last, bound=ceiling)
    return replace(best, bound=max(ceiling, best.value))


_BUDGET = Objective.DISC_BUDGET
