"""Solvers: one role, a literal registry, chosen by name.

A solver is a callable ``(problem, rng, limits) -> Solution`` with ``supports(problem)``.
"""

from __future__ import annotations

from typing import Final

from policies.solvers.auto import Auto
from policies.solvers.clique import Clique
from policies.solvers.cpsat import CpSat
from policies.solvers.greedyl import Greedyl
from policies.solvers.lp_rounding import LpRounding
from policies.solvers.milp import Milp
from policies.solvers.role import (
    Cause,
    Clash,
    Core,
    Limits,
    Solution,
    Solver,
    Verdict,
)

SOLVERS: Final[dict[str, Solver]] = {
    "auto": Auto(),
    "greedyl": Greedyl(),
    "cp-sat": CpSat(),
    "milp": Milp(),
    "lp-rounding": LpRounding(),
    "clique": Clique(),
}

__all__ = [
    "SOLVERS",
    "Cause",
    "Clash",
    "Core",
    "Limits",
    "Solution",
    "Solver",
    "Verdict",
]
