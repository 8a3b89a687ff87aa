"""Step tradeoffs by their sealed form: complete no set, or pay for a whole one.

A plan with f = 0 keeps the limits of the sealed problem, which is far easier to prove.
Any other plan completes a set, so its f is 1 (worst), or at least one part of the number
that a mean is divided by. The dearer of both bounds the tradeoff.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Goal, Problem
from policies.model.sets import Measure
from policies.solvers.interfaces import Solution, Verdict, answer, free_bound
from policies.solvers.scaling import reached


def whole(problem: Problem) -> bool:
    """Whether sets are disclosed whole or not at all, in a tradeoff of worst or mean."""
    goal, sets = problem.goal, problem.sets
    if goal.objective is not Objective.TRADEOFF or goal.lambda_ <= 0:
        return False
    if goal.aggregate is not None:
        return False
    return bool(sets.n_sets) and all(m is Measure.STEP for m in sets.measures)


def leakless(problem: Problem, solve: Callable[[Problem], Solution]) -> Solution:
    """Return the best plan that completes no set, with a bound over all plans.

    Parameters
    ----------
    problem : Problem
        One that is :func:`whole`.
    solve : callable
        Solves the sealed problem.

    Returns
    -------
    Solution
        UNKNOWN, with the bound, where no such plan was found.
    """
    sets, goal = problem.sets, problem.goal
    caps = np.minimum(sets.cap, np.maximum(sets.full - 1, 0))
    sealed = replace(
        problem, sets=replace(sets, cap=caps), goal=Goal(), strict_history=False
    )
    inner = solve(sealed)
    free = free_bound(problem)
    over = (goal.over or sets.n_sets) if goal.average else 1
    bound = free - goal.lambda_ / over
    if inner.verdict is not Verdict.INFEASIBLE:
        bound = max(bound, min(free, inner.bound + goal.lambda_ * goal.tau))
    made = answer(problem, inner.plan, bound=bound, tried=inner.tried)
    proven = made.verdict is Verdict.SOLVED and reached(made.value, made.bound)
    return replace(made, stopped="optimal" if proven else "")
