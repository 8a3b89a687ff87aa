"""Solvers: one interface, a literal registry, selection by name.

A solver is a callable ``(problem, rng, limits) -> Solution`` with ``supports(problem)``.
"""

from __future__ import annotations

from typing import Final

from policies.solvers.auto import Auto
from policies.solvers.exact.conflict_graph import Clique
from policies.solvers.exact.cpsat import CpSat
from policies.solvers.exact.highs import Milp
from policies.solvers.exact.hitting_set import HittingSet
from policies.solvers.interfaces import (
    Cause,
    Clash,
    Core,
    Limits,
    Solution,
    Solver,
    Verdict,
)
from policies.solvers.rounding.continuous_greedy import ContinuousGreedy
from policies.solvers.rounding.dependent_rounding import DependentRounding
from policies.solvers.rounding.lp_rounding import LpRounding
from policies.solvers.rounding.moser_tardos import MoserTardos
from policies.solvers.rounding.rand_plus import RandPlus
from policies.solvers.rounding.socp_rounding import SocpRounding
from policies.solvers.search.annealing import AnnealingSolver
from policies.solvers.search.exchange import Exchange
from policies.solvers.search.greedy import Grasp, Graspl, Greedy
from policies.solvers.search.local_search import LocalSearch
from policies.solvers.search.makespan import Makespan
from policies.solvers.search.submodular import Submodular

SOLVERS: Final[dict[str, Solver]] = {
    "auto": Auto(),
    "greedy": Greedy(),
    "grasp": Grasp(),
    "greedyl": Greedy(myopic=True),
    "graspl": Graspl(),
    "local-search": LocalSearch(),
    "rand-plus": RandPlus(),
    "hitting-set": HittingSet(),
    "moser-tardos": MoserTardos(),
    "dependent-rounding": DependentRounding(),
    "cp-sat": CpSat(),
    "milp": Milp(),
    "lp-rounding": LpRounding(),
    "clique": Clique(Auto()),
    "exchange": Exchange(),
    "annealing": AnnealingSolver(),
    "makespan": Makespan(),
    "socp-rounding": SocpRounding(),
    "submodular": Submodular(),
    "continuous-greedy": ContinuousGreedy(),
}

PRINTED: Final = frozenset(
    {
        "greedy",
        "grasp",
        "greedyl",
        "graspl",
        "local-search",
        "rand-plus",
        "lp-rounding",
        "dependent-rounding",
    }
)
"""The paper's algorithms that can work as printed: those that read Limits.paper."""

ORDERED: Final = ("greedyl", "graspl")
"""Those that go entry by entry, so that a caller may choose ``order`` and ``local``."""

__all__ = [
    "ORDERED",
    "PRINTED",
    "SOLVERS",
    "Cause",
    "Clash",
    "Core",
    "Limits",
    "Solution",
    "Solver",
    "Verdict",
]
