"""CLIQUE: zero disclosure over pairs, by component, with one row a clique.

Where every sensitive set is a pair (friends' entries at one place, the edges of a
graph), a plan is a list colouring. Entries that are all in conflict with each other
share one row "at most one of them to an adversary": far tighter than a row a pair.
"""

from __future__ import annotations

import numpy as np

from policies.model.problem import Problem
from policies.solvers.auto import Auto
from policies.solvers.exact.edge_cliques import pairs_only
from policies.solvers.interfaces import Limits, Solution, Verdict, answer


class Clique:
    """Exact for sets of two, however many entries: it goes by component."""

    def supports(self, problem: Problem) -> bool:
        """Problems whose limits are all "not both of these two"."""
        return pairs_only(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve over cliques; the plan is judged over the pairs."""
        found = Auto()(problem, rng, limits)
        if found.verdict is not Verdict.SOLVED:
            return found
        return answer(
            problem,
            found.plan,
            bound=found.bound,
            tried=("cliques by component",),
            stopped=found.stopped,
        )
