"""The library: the policy language, the disclosure model, the judge and the solvers.

It computes on numbers: no I/O, no database. What most callers need is exported here
(docs/howto/library.md). Each name loads its module on first use, so that reading a
policy does not import numpy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from policies.document.reader import InvalidPolicy, read_policy
    from policies.judging.judge import judge
    from policies.model.problem import Plan, Problem
    from policies.model.sets import InvalidProblem
    from policies.solvers.interfaces import Solution, Verdict

_MODULES: Final = {
    "InvalidPolicy": "policies.document.reader",
    "InvalidProblem": "policies.model.sets",
    "Plan": "policies.model.problem",
    "Problem": "policies.model.problem",
    "Solution": "policies.solvers.interfaces",
    "Verdict": "policies.solvers.interfaces",
    "judge": "policies.judging.judge",
    "read_policy": "policies.document.reader",
}

__all__ = [
    "InvalidPolicy",
    "InvalidProblem",
    "Plan",
    "Problem",
    "Solution",
    "Verdict",
    "judge",
    "read_policy",
    "solve",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of whatever type the name is
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def solve(
    problem: Problem,
    seconds: float = 10,
    seed: int = 0,
    *,
    algorithm: str = "auto",
    threads: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> Solution:
    """Search for the best plan of a problem, and for a bound that proves it optimal.

    Parameters
    ----------
    problem : Problem
    seconds : float
        > 0. The search ends within this time, with the best plan found.
    seed : int
        >= 0. A search that ends before ``seconds`` have passed is reproducible.
    algorithm : str
        A name of docs/reference/instances.md; ``auto`` chooses by the problem.
    threads : int
        >= 1, for exact search; more than one is not deterministic.
    clock : callable
        Seconds, monotonic.

    Returns
    -------
    Solution
        The verdict says what is known; if it is SOLVED, the plan was judged.

    Raises
    ------
    ValueError
        If no algorithm has this name, or it does not support this problem.
    """
    import numpy as np

    from policies.solvers import SOLVERS, Limits

    if algorithm not in SOLVERS:
        known = ", ".join(SOLVERS)
        raise ValueError(f"algorithm is {algorithm!r}, expected one of {known}")
    solver = SOLVERS[algorithm]
    if not solver.supports(problem):
        fit = ", ".join(n for n, other in SOLVERS.items() if other.supports(problem))
        raise ValueError(f"{algorithm} does not take this problem, but {fit} do")
    limits = Limits(work=float("inf"), seconds=seconds, clock=clock, threads=threads)
    return solver(problem, np.random.default_rng(seed), limits)
