"""Features of a problem, by which ``auto`` chooses solvers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.solvers.coloring import stuck, tight
from policies.solvers.exact.conflict_graph import pairs_only
from policies.solvers.exact.cpsat import CpSat
from policies.solvers.exact.enumeration import listable, looks
from policies.solvers.exact.epsilon_constraint import whole
from policies.solvers.exact.highs import Milp, building, linear, unstoppable
from policies.solvers.interfaces import Limits
from policies.solvers.load_tables import is_load_tradeoff
from policies.solvers.rounding.socp_rounding import SocpRounding
from policies.solvers.search.annealing import annealable, crossable
from policies.solvers.search.greedy import (
    dealing_seconds,
    examined,
    picking_seconds,
)

LARGE: Final = 12_000
"""Members x observers from which HiGHS proves no tradeoff over loads."""

PROVEN: Final = 600
"""Pairs up to which HiGHS often proves the best plan within a second."""

SUMMED: Final = 150
"""Pairs up to which CP-SAT proves the best plan below a limited mean before HiGHS does.

42 entries, 12 quadratic sets, 3 adversaries (126 pairs, 4 s of CPU, one thread): six of
six budgets with a first plan against three; linear means in a quarter of the time. At 60
entries and 3 adversaries it is .14 % better on one, .24 and .66 % worse on two.
"""

DEALT: Final = 100_000
"""Pairs examined in a sweep up to which GREEDYL takes at most .6 s of CPU.

500 entries, 20 sets of a linear mean and 10 adversaries (35,000) take .09 s, 50 sets
(80,000) .15, and .04 if they are steps; 5,000 entries in small sets and 5 adversaries
(112,000) .06.
"""

PICKED: Final = 0.3
"""Seconds that GREEDY may take, about, without being cut by the clock.

Of 1.5 s of CPU a starved machine made 30. At .3, with a limit of 1 s, two cores, four busy
loops and a load of 17, ``auto`` was below GREEDY or GREEDYL on none of 45 instances.
"""

# Sparse 1000, 2500, 15, 2: with half of _BEGUN .99463 in 6 s, where it is proven .99524 in 4.7; with
# twice proven in 4.6 of 4 s, and 500, 1500, 15, 2 in 1.84 of 1.5. With half of _SOON it is proven
# in 5.0 of 10 s, as it is in 6.0, with twice in 5.6 of 6 s instead of 4.6; 1000, 2500, 5, 2 and
# 500, 1500, 15, 2 (2 s) are the same with each.
_BEGUN: Final = 0.6  # share of the time after which HiGHS is of no use any more
_SOON: Final = 0.3  # share of the time from which HiGHS begins before the search


@dataclass(frozen=True, eq=False)
class Features:
    """The features of a problem and its limits that ``auto``'s table uses.

    Each is computed on first use.
    """

    problem: Problem
    limits: Limits

    @cached_property
    def pairs(self) -> int:
        """Entries x adversaries."""
        return self.problem.n_entries * self.problem.n_adversaries

    @cached_property
    def observers(self) -> int:
        """Adversaries, and coalitions of them."""
        return self.problem.n_adversaries + len(self.problem.groups)

    @cached_property
    def size(self) -> int:
        """Members of sets x observers: the size of models and kernels' work."""
        return len(self.problem.sets.entry) * self.observers

    @cached_property
    def looks(self) -> float:
        """About how many numbers an enumeration of all plans visits; inf if too many."""
        return looks(self.problem) if self.listable else inf

    @cached_property
    def listable(self) -> bool:
        """Whether all plans can be enumerated."""
        return listable(self.problem)

    @cached_property
    def kind(self) -> str:
        """The kind of f.

        ``mean`` or ``worst`` (f of a tradeoff, or a limited mean), ``sealed`` (limits on
        step sets alone) or ``links`` (links that count).
        """
        problem = self.problem
        if not linear(problem):
            return "links"
        if self.tradeoff:
            return "mean" if problem.goal.average else "worst"
        if problem.averages:
            return "mean"
        return "sealed" if problem.sets.has_only_steps else "worst"

    @cached_property
    def tradeoff(self) -> bool:
        """Whether the objective is a tradeoff."""
        return self.problem.goal.objective is Objective.TRADEOFF

    @cached_property
    def backlog(self) -> bool:
        """Whether the problem has only what plans of policies have."""
        problem = self.problem
        known = problem.goal.worst if self.tradeoff else problem.aggregate is None
        special = problem.coalitions or problem.links or problem.utilities
        return bool(known and not special and not problem.strict_history)

    @cached_property
    def valued(self) -> bool:
        """Whether the utility is not a sum over pairs."""
        return self.problem.utilities is not None

    @cached_property
    def separable(self) -> bool:
        """Whether components of the sets are independent of each other."""
        problem = self.problem
        shared = self.tradeoff or self.valued or problem.averages
        return not shared and problem.capacity is None

    @cached_property
    def counted(self) -> bool:
        """Whether all limits are on single sets, which CP-SAT counts in integers."""
        return not self.problem.averages and self.cpsat

    @cached_property
    def summed(self) -> bool:
        """Whether means are limited and CP-SAT is expected to prove the best plan first."""
        means = self.problem.averages
        plain = all(cap.aggregate is None for cap in means)
        return bool(means) and plain and self.pairs <= SUMMED and self.cpsat

    @cached_property
    def wholes(self) -> bool:
        """Whether this is a tradeoff over sets disclosed whole or not at all."""
        return whole(self.problem)

    @cached_property
    def pairs_only(self) -> bool:
        """Whether every set is a pair of which nobody may hold both."""
        return pairs_only(self.problem)

    @cached_property
    def cpsat(self) -> bool:
        """Whether CP-SAT supports the problem."""
        return CpSat().supports(self.problem)

    @cached_property
    def modelled(self) -> bool:
        """Whether HiGHS supports the problem and its model is built in time."""
        return Milp().supports(self.problem) and self.building < self.limits.seconds

    @cached_property
    def highs(self) -> bool:
        """Whether HiGHS also begins to search the whole problem in time."""
        return self.modelled and self.begun < _BEGUN * self.limits.seconds

    @cached_property
    def late(self) -> bool:
        """Whether HiGHS needs much of the time before it begins: the search waits."""
        return self.highs and self.begun > _SOON * self.limits.seconds

    @cached_property
    def begun(self) -> float:
        """Estimated CPU seconds until HiGHS begins to search."""
        return self.building + unstoppable(self.problem)

    @cached_property
    def building(self) -> float:
        """Estimated CPU seconds to write the linear model."""
        return building(self.problem)

    @cached_property
    def loads(self) -> bool:
        """Whether this is a tradeoff of the worst power of a load alone."""
        return is_load_tradeoff(self.problem, average=False)

    @cached_property
    def heavy(self) -> bool:
        """Whether this is a tradeoff over loads that is too large for HiGHS to prove."""
        problem = self.problem
        size = len(problem.sets.entry) * problem.n_adversaries
        return size >= LARGE and is_load_tradeoff(problem, average=problem.goal.average)

    @cached_property
    def large(self) -> bool:
        """Whether f counts and HiGHS is not expected to prove optimality soon."""
        return self.pairs >= PROVEN and self.kind in ("mean", "worst")

    @cached_property
    def tight(self) -> bool:
        """Whether an entry has few adversaries to go to."""
        return tight(self.problem)

    @cached_property
    def crossed(self) -> bool:
        """Whether penalty annealing finds plans; CP-SAT takes small or easy colourings."""
        return crossable(self.problem) and (not self.tight or stuck(self.problem))

    @cached_property
    def annealable(self) -> bool:
        """Whether the annealing search supports the problem."""
        return annealable(self.problem)

    @cached_property
    def alone(self) -> bool:
        """Whether no other heuristic supports it."""
        return only_annealing_fits(self.problem)

    @cached_property
    def dealt_at_once(self) -> bool:
        """Whether GREEDYL is quick at any limit."""
        return examined(self.problem) <= DEALT

    @property
    def dealing(self) -> float:
        """Estimated CPU seconds of GREEDYL: less once kernels are loaded."""
        return dealing_seconds(self.problem)

    @property
    def picking(self) -> float:
        """Estimated CPU seconds of GREEDY, likewise."""
        return picking_seconds(self.problem)


def only_annealing_fits(problem: Problem) -> bool:
    """Whether annealing is the only search that supports it, beside exact models."""
    fits = SocpRounding().supports(problem) or is_load_tradeoff(problem, average=False)
    return annealable(problem) and not fits


def free_plan(problem: Problem) -> Plan:
    """Return the best copies of every entry, each checked by itself."""
    may = able(problem)
    n, k = may.shape
    if not n:
        return Plan()
    weights = problem.weights
    worth = weights.base[:, None] * weights.factor.T[weights.kind]
    order = np.argsort(np.where(may, -worth, 1), axis=1, kind="stable")
    taken = np.arange(k) < np.minimum(problem.hi, may.sum(axis=1))[:, None]
    entry, column = np.nonzero(taken)
    return Plan(entry.astype(np.int64), order[entry, column].astype(np.int64))
