"""HiGHS, and CP-SAT where HiGHS leaves a small problem open.

HiGHS works with floats: a mean that ends on its limit is neither below it nor past it for
them. CP-SAT counts in whole numbers, and knows.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from policies.model.problem import Problem
from policies.solvers.exact.cpsat import CpSat, exactly
from policies.solvers.exact.milp import solve
from policies.solvers.interfaces import Limits, Solution, Verdict
from policies.solvers.parallel_portfolio import sure

_FIRST: Final = 0.6
"""Of the time and the work, for HiGHS where CP-SAT may come after it."""


def either(
    problem: Problem, rng: np.random.Generator, limits: Limits, seed: int
) -> list[Solution]:
    """Solve exactly by the first of both that is sure; else return what both say."""
    if not CpSat().supports(problem):
        return [solve(problem, limits, seed=seed)]
    began = limits.clock()
    first = solve(problem, limits.part(_FIRST).left(began, _FIRST), seed=seed)
    if sure(first) or limits.stopped():
        return [first]
    start = first.plan if first.verdict is Verdict.SOLVED else None
    rest = limits.part(1 - _FIRST).left(began)
    return [first, exactly(problem, rng, rest, start)]
