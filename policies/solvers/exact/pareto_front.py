"""The Pareto front of utility and disclosure, by the epsilon-constraint method.

A tradeoff of one lambda misses plans that no lambda would choose (paper, section 3). Here
f is held at most at one level after another, from what the best utility discloses down to
nothing, and utility is maximised at each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from policies.model.objective import Objective
from policies.model.problem import Average, Problem
from policies.solvers.exact.level_sweep import capped
from policies.solvers.interfaces import Solution, Verdict


def held_at(problem: Problem, level: Fraction | None) -> Problem:
    """Return the problem of utility alone with f <= level; None: without such a limit.

    What history discloses alone counts: below that, nothing is feasible.
    """
    goal = replace(problem.goal, objective=Objective.DISC_BUDGET)
    plain = replace(problem, goal=goal)
    if level is None:
        return plain
    plain = replace(plain, strict_history=True)
    how = goal.aggregate
    if goal.worst or (how is not None and how.by_set):
        return replace(plain, sets=capped(problem.sets, level, how))
    if how is not None:
        cap = Average((), level, aggregate=how)
        return replace(plain, averages=(*problem.averages, cap))
    every = tuple(range(len(problem.sets.properties)))
    mean = Average(every, level, over=goal.over)
    looser = [
        one
        for one in problem.averages
        if (one.properties, one.over) == (every, goal.over) and level < one.limit
    ]
    kept = [one for one in problem.averages if one not in looser]
    return replace(plain, averages=(*kept, mean))


def front(
    problem: Problem, count: int, solve: Callable[[Problem], Solution]
) -> Iterator[tuple[Fraction | None, Solution]]:
    """Solve at levels of f that are evenly spaced, the loosest first.

    Parameters
    ----------
    problem : Problem
        Without links; its goal says how f is counted.
    count : int
        Levels, >= 2.
    solve : callable

    Yields
    ------
    level : Fraction or None
        f was held at most there; None for the first.
    found : Solution
        Judged by the problem of utility alone at this level: its bound is a proven
        ceiling of the utility there.

    Raises
    ------
    ValueError
        If count is less than 2.
    """
    if count < 2:
        raise ValueError(f"count is {count}, expected >= 2")
    plain = held_at(problem, None)
    first = solve(plain)
    yield None, first
    if first.verdict is not Verdict.SOLVED or first.judged is None:
        return
    top = last = first.judged.f_goal
    for step in range(count - 2, -1, -1):
        level = top * step / (count - 1)
        if level >= last and step:
            continue  # the plan before keeps this level, and none is better
        found = solve(held_at(problem, level))
        if found.verdict is Verdict.SOLVED:
            assert found.judged is not None
            last = min(last, found.judged.f_goal)
        yield level, found
        if found.verdict is Verdict.INFEASIBLE:
            return  # nothing tighter has a plan
