"""Solvers from other packages: their answers are judged before they count.

Such a solver gets a copy of the problem; its plan is judged by the original, and its
value is the judge's. Bounds cannot be checked and are discarded, and a claim of
infeasibility is reported as UNKNOWN: a verdict needs a proof made here.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Final

import numpy as np

from policies.model.problem import Plan, Problem
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Solver,
    Verdict,
    answer,
    free_bound,
)

_CUT: Final = ("work", "time", "interrupt")  # accepted reasons for stopping


class Foreign:
    """Wraps a solver whose answers are not trusted.

    Parameters
    ----------
    solver : Solver
    name : str
        The name by which it is selected.
    """

    def __init__(self, solver: Solver, name: str) -> None:
        self.solver, self.name = solver, name

    def supports(self, problem: Problem) -> bool:
        """Whether the solver supports the problem; True if it fails to say."""
        try:
            return bool(self.solver.supports(deepcopy(problem)))
        except (Exception, SystemExit):  # noqa: BLE001
            return True

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve a copy, and judge the plan by the original."""
        try:
            shown = deepcopy(problem)
            if not self.solver.supports(shown):
                return self._unknown(problem, "does not take problems like this")
            found: object = self.solver(shown, rng, limits)
            return self._read(problem, found)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            # third-party code: whatever it raises, there is no plan and no leak
            return self._unknown(problem, f"raised {type(error).__name__}")

    def _read(self, problem: Problem, found: object) -> Solution:
        """Take over what can be checked of an answer."""
        if not isinstance(found, Solution):
            return self._unknown(problem, f"gave a {type(found).__name__}")
        tried = tuple(map(str, found.tried))
        if found.verdict is Verdict.SOLVED and isinstance(found.plan, Plan):
            try:
                plan = Plan(found.plan.entry, found.plan.adversary)
                judged = answer(problem, plan, tried=(self.name, *tried))
            except ValueError as error:
                why = f"gave no plan of this problem: {error}"
                return self._unknown(problem, why)
            kept = judged.verdict is Verdict.SOLVED
            best = "optimal" if kept and judged.value == judged.bound else ""
            known = found.stopped in _CUT and str(found.stopped)
            return replace(judged, stopped=known or best)
        if found.verdict is Verdict.INFEASIBLE:
            return self._unknown(problem, "says that there is no plan, unproven here")
        return self._unknown(problem, "; ".join(tried) or "found no plan")

    def _unknown(self, problem: Problem, why: str) -> Solution:
        tried = (f"{self.name} {why}",)
        return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=tried)
