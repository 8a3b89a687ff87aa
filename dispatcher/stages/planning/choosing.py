"""The algorithm that was asked for: whether it can plan this backlog, and its answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dispatcher.core.errors import Usage
from dispatcher.strategies import find_solver, solvers_for
from policies.model.problem import Problem
from policies.solvers import SOLVERS, Limits, Solution, Verdict


def check_algorithm(algorithm: str, problem: Problem) -> None:
    """Refuse a built-in algorithm that does not take problems like this one.

    Raises
    ------
    Usage
        Names those that do.
    """
    solver = SOLVERS.get(algorithm)
    if solver is None or solver.supports(problem):
        return
    raise Usage(
        f"{algorithm} cannot plan this backlog",
        why="it does not take problems with these rules, limits or objectives",
        fix=f"leave --algorithm out, or take one of: {', '.join(solvers_for(problem))}",
    )


def answer_of(
    algorithm: str, problem: Problem, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Ask an algorithm once; one that plans all or nothing holds back all that is owed.

    What lies in one of its cores is held back by that, the first where it is several.
    """
    found = find_solver(algorithm)(problem, rng, limits)
    if found.verdict is Verdict.SOLVED or len(found.plan) or len(found.held):
        return found
    owed = np.flatnonzero(problem.lo)
    core = np.full(problem.n_entries, -1)
    for number in reversed(range(len(found.cores))):
        core[list(found.cores[number].entries)] = number
    return replace(found, held=owed, reason=core[owed])
