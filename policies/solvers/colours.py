"""Colourings of a few hundred entries: CP-SAT from first to last, plans and a bound beside it.

What CP-SAT learns on the way to a proof is lost where it is stopped and asked again; so
it has one thread for itself. On the other one annealing finds a plan, from which HiGHS
goes on: it bounds what CP-SAT does not finish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from policies.problem import Problem
from policies.solvers.crossing import anneal_across, crossable
from policies.solvers.models.cpsat import exactly
from policies.solvers.models.cpsat_model import coloured
from policies.solvers.models.milp import solve
from policies.solvers.race import Task, merged
from policies.solvers.role import Limits, Solution, Verdict

_LARGEST: Final = 300  # entries up to which rules alone may lead to a proof
_ANNEALED: Final = 0.3  # of the time, before HiGHS


def colourable(problem: Problem) -> bool:
    """Whether CP-SAT may prove the best colouring by itself."""
    return problem.n_entries <= _LARGEST and coloured(problem) and crossable(problem)


def colouring(problem: Problem, rng: np.random.Generator) -> list[Task]:
    """Return what runs at once; nothing where that is no :func:`colourable` problem."""
    if not colourable(problem):
        return []
    exact, drawn = rng.spawn(2)
    seed = int(rng.integers(2**31 - 1))

    def cpsat(limits: Limits, done: Callable[[], bool]) -> Solution:
        return exactly(problem, exact, limits, None, done)

    def beside(limits: Limits, done: Callable[[], bool]) -> Solution:
        began = limits.clock()
        first = replace(limits, seconds=limits.seconds * _ANNEALED)
        found = anneal_across(problem, None, drawn, first, done)
        start = found.plan if found.verdict is Verdict.SOLVED else None
        proven = solve(problem, limits.left(began), seed=seed, start=start, done=done)
        return merged([found, proven], proven.stopped)

    return [cpsat, beside]
