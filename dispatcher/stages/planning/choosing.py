"""Whether the algorithm that was asked for can plan this backlog at all."""

from __future__ import annotations

from dispatcher.errors import Usage
from policies.problem import Problem
from policies.solvers import SOLVERS


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
    able = sorted(name for name, one in SOLVERS.items() if one.supports(problem))
    raise Usage(
        f"{algorithm} can not plan this backlog",
        why="it does not take problems with these rules, limits or objectives",
        fix=f"leave --algorithm out, or take one of: {', '.join(able)}",
    )
