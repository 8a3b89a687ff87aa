"""SUBMODULAR: lazy greedy and exchanges for monotone submodular utilities below limits.

Theorem 2 of the paper promises the impossible (finding any plan is colouring a
hypergraph). What is possible: greedy over pairs that never crosses a limit. If only the
number of copies binds, that is greedy over a partition matroid and reaches half of the
best u (Fisher, Nemhauser and Wolsey 1978), usually far more; the bound that comes with
the plan says how much. Gains shrink, so an outdated gain is an upper bound, and only
the best few are recomputed (Minoux 1978).

Copies that limits leave missing are moved in by ejection chains, then by an exact
search for any plan; then pairs are added and moved while u rises.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.sets import Ints
from policies.solvers.exact.cpsat import CpSat, search_plan
from policies.solvers.explain.cores import feasibility_problem
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Verdict,
    answer,
    free_bound,
)
from policies.solvers.search.local_search import Meter, repair, with_end
from policies.solvers.search.oracle import Oracle, ceiling
from policies.solvers.search.plan_state import PlanState

_LARGEST = 10**6  # pairs
_LEAST = 1e-12  # relative to u: smaller rises are rounding errors


def sealed(problem: Problem) -> bool:
    """Whether limits are on single adversaries and u alone counts, at a feasible size."""
    links = problem.links
    free = links is None or not links.limited
    budget = problem.goal.objective is Objective.DISC_BUDGET
    small = problem.n_entries * problem.n_adversaries <= _LARGEST
    known = all(cap.aggregate is None for cap in problem.averages)
    return budget and free and small and known and not problem.coalitions


class SubmodularPlan:
    """Lazy greedy on a plan state, which knows the limits, and an oracle of u's gains.

    Parameters
    ----------
    problem : Problem
    meter : Meter
    """

    def __init__(self, problem: Problem, meter: Meter) -> None:
        self.problem, self.meter = problem, meter
        self.state, self.oracle = PlanState(problem), Oracle(problem)
        rows = len(problem.sets.entry) / max(1, problem.n_entries)
        self.looks = 1.0 + rows * problem.n_adversaries

    def give(self, entry: int, adversary: int) -> None:
        """Plan the pair."""
        self.state.give(entry, adversary)
        self.oracle.give(entry, adversary)

    def take(self, entry: int, adversary: int) -> None:
        """Withdraw the pair."""
        self.state.take(entry, adversary)
        self.oracle.take(entry, adversary)

    def deal(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Plan the pairs that no limit bars, in this order."""
        for entry, adversary in pairs:
            if self.state.open(entry)[adversary]:
                self.give(entry, adversary)

    def fill(self, copies: Ints) -> None:
        """Plan the pair of highest gain repeatedly, up to so many copies."""
        n, k = self.problem.n_entries, self.problem.n_adversaries
        version = [0] * k
        heap = [
            (-float(gain), d, a, 0)
            for a in range(k)
            for d, gain in enumerate(self.oracle.column(a).tolist())
            if len(self.state.holders[d]) < copies[d]
        ]
        heapq.heapify(heap)
        self.meter.spend(n * k)
        while heap:
            _, d, a, seen = heapq.heappop(heap)
            if len(self.state.holders[d]) >= copies[d] or not self.state.open(d)[a]:
                continue  # limits only tighten: this pair stays barred
            if seen != version[a]:
                heapq.heappush(heap, (-self.oracle.gain(d, a), d, a, version[a]))
                continue
            self.give(d, a)
            version[a] += 1
            self.meter.spend(self.looks + n)

    def climb(self, rng: np.random.Generator) -> None:
        """Add and move copies while u rises."""
        moved = True
        while moved:
            moved = False
            for d in rng.permutation(self.problem.n_entries).tolist():
                moved |= self._visit(d)
                if not self.meter.spend(self.looks * (1 + len(self.state.holders[d]))):
                    return

    def _visit(self, entry: int) -> bool:
        """Move or add the entry where it gains most; return whether anything changed."""
        changed = False
        for a in sorted(self.state.holders[entry]):
            self.take(entry, a)
            best, gain = self._best(entry)
            if best < 0 or gain <= self.oracle.gain(entry, a) + _LEAST:
                best = a
            self.give(entry, best)
            changed |= best != a
        while len(self.state.holders[entry]) < self.problem.hi[entry]:
            best, gain = self._best(entry)
            if best < 0 or gain <= _LEAST:
                break
            self.give(entry, best)
            changed = True
        return changed

    def _best(self, entry: int) -> tuple[int, float]:
        """Return the open adversary of highest gain, and the gain; -1 if there is none."""
        found = [
            (self.oracle.gain(entry, a), -a)
            for a in np.flatnonzero(self.state.open(entry)).tolist()
        ]
        gain, a = max(found, default=(0.0, 1))
        return -a, gain

    def load(self, plan: Plan) -> None:
        """Restart from a plan."""
        self.state, self.oracle = PlanState(self.problem), Oracle(self.problem)
        for d, a in zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True):
            self.give(d, a)

    def short(self) -> bool:
        """Whether copies are missing."""
        degree = np.array([len(h) for h in self.state.holders], np.int64)
        return bool((degree < self.problem.lo).any())

    def complete(self, rng: np.random.Generator) -> Solution | None:
        """Plan copies owed, then all that gain; climb. Return a Solution on failure."""
        problem = self.problem
        self.fill(problem.lo)
        if self.short():
            self.load(repair(problem, self.state.plan(), rng, self.meter.limits))
        if self.short():
            found = _any_plan(problem, rng, self.meter.limits)
            if found.verdict is not Verdict.SOLVED:
                return found
            self.load(found.plan)
        self.fill(problem.hi)
        self.climb(rng)
        return None

    def answer(self, tried: tuple[str, ...]) -> Solution:
        """Judge the plan, with the bound that its own gains prove."""
        made = answer(self.problem, self.state.plan(), tried=tried)
        bound = ceiling(self.problem, self.oracle, made.value)
        if made.verdict is Verdict.SOLVED and bound is not None:
            made = replace(made, bound=max(made.value, min(made.bound, bound)))
        return made


def _any_plan(problem: Problem, rng: np.random.Generator, limits: Limits) -> Solution:
    """Search exactly for any plan, whatever its u."""
    bare = feasibility_problem(problem)
    if CpSat().supports(bare):
        found = search_plan(bare, rng, limits, utility=False)
    else:
        found = Solution(Verdict.UNKNOWN)
    tried = ("greedy over pairs", "ejection chains", *found.tried)
    return replace(found, bound=free_bound(problem), tried=tried)


class Submodular:
    """A heuristic: half of the best u if only copies bind, and a bound in any case."""

    def supports(self, problem: Problem) -> bool:
        """Disc-budget problems without coalitions and links, up to 10^6 pairs."""
        return sealed(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Greedy, then exchanges."""
        meter = Meter(limits)
        plan = SubmodularPlan(problem, meter)
        failed = plan.complete(rng)
        if failed is not None:
            return with_end(failed, meter)
        return with_end(plan.answer(("greedy over pairs, then exchanges",)), meter)
