"""Solvers that other packages bring: what they answer is judged before it counts.

A plan is taken only as far as the judge agrees, with the judge's value. A bound can not be
checked, so it is never told above what needs no proof; and that there is no plan at all is
told as UNKNOWN: a verdict rests on proofs made here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.problem import Plan, Problem
from policies.solvers.role import (
    Limits,
    Solution,
    Solver,
    Verdict,
    answer,
    free_bound,
)


class Foreign:
    """A solver of the role that trusts nothing that another one says.

    Parameters
    ----------
    solver : Solver
    name : str
        As it is chosen.
    """

    def __init__(self, solver: Solver, name: str) -> None:
        self.solver, self.name = solver, name

    def supports(self, problem: Problem) -> bool:
        """Whether the solver says so."""
        return bool(self.solver.supports(problem))

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve, and judge."""
        try:
            if not self.solver.supports(problem):
                return self._unknown(problem, "does not take problems like this")
            found: object = self.solver(problem, rng, limits)
        except Exception as error:  # noqa: BLE001
            # somebody else's code: whatever it raises, there is no plan, and no leak
            return self._unknown(problem, f"raised {type(error).__name__}")
        if not isinstance(found, Solution):
            return self._unknown(problem, f"gave a {type(found).__name__}")
        if found.verdict is Verdict.SOLVED and isinstance(found.plan, Plan):
            judged = self._judged(problem, found)
            return replace(judged, stopped=found.stopped)
        if found.verdict is Verdict.INFEASIBLE:
            return self._unknown(problem, "says that there is no plan, unproven here")
        return self._unknown(problem, "; ".join(found.tried) or "found no plan")

    def _judged(self, problem: Problem, found: Solution) -> Solution:
        try:
            return answer(problem, found.plan, tried=(self.name, *found.tried))
        except ValueError as error:
            return self._unknown(problem, f"gave no plan of this problem: {error}")

    def _unknown(self, problem: Problem, why: str) -> Solution:
        told = (f"{self.name} {why}",)
        return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=told)
