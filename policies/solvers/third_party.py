"""Solvers that other packages bring: what they answer is judged before it counts.

A plan is taken only as far as the judge agrees, with the judge's value, and the problem
that it is judged by is not the one that was handed out. A bound cannot be
checked, so it is never told above what needs no proof; and that there is no plan at all is
told as UNKNOWN: a verdict rests on proofs made here.
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

_CUT: Final = ("work", "time", "interrupt")  # what a search may say of its own end


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
        """Whether the solver says so; one that fails to say is heard when it is asked."""
        try:
            return bool(self.solver.supports(deepcopy(problem)))
        except (Exception, SystemExit):  # noqa: BLE001
            return True

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve a copy, and judge by the problem itself."""
        try:
            shown = deepcopy(problem)
            if not self.solver.supports(shown):
                return self._unknown(problem, "does not take problems like this")
            found: object = self.solver(shown, rng, limits)
            return self._read(problem, found)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            # somebody else's code: whatever it raises, there is no plan, and no leak
            return self._unknown(problem, f"raised {type(error).__name__}")

    def _read(self, problem: Problem, found: object) -> Solution:
        """Take from an answer what can be checked."""
        if not isinstance(found, Solution):
            return self._unknown(problem, f"gave a {type(found).__name__}")
        tried = tuple(map(str, found.tried))
        if found.verdict is Verdict.SOLVED and isinstance(found.plan, Plan):
            try:
                plan = Plan(found.plan.entry, found.plan.adversary)
                judged = answer(problem, plan, tried=(self.name, *tried))
            except ValueError as error:
                told = f"gave no plan of this problem: {error}"
                return self._unknown(problem, told)
            kept = judged.verdict is Verdict.SOLVED
            best = "optimal" if kept and judged.value == judged.bound else ""
            known = found.stopped in _CUT and str(found.stopped)
            return replace(judged, stopped=known or best)
        if found.verdict is Verdict.INFEASIBLE:
            return self._unknown(problem, "says that there is no plan, unproven here")
        return self._unknown(problem, "; ".join(tried) or "found no plan")

    def _unknown(self, problem: Problem, why: str) -> Solution:
        told = (f"{self.name} {why}",)
        return Solution(Verdict.UNKNOWN, bound=free_bound(problem), tried=told)
