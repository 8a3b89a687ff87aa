"""Solve a planning problem by its sets, and by what only its rules can judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.judging.judge import judge
from policies.model.objective import Objective
from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import NO_CAP
from policies.model.weights import Weights
from policies.planning.caps_on_averages import AverageCaps
from policies.planning.problem import PlanningProblem
from policies.planning.relaxation import TOO_MUCH, RelaxedProblem, relax
from policies.solvers import Limits, Solution, Solver, Verdict
from policies.solvers.components import renumbered, split
from policies.solvers.explain.withholding import cheapest, without
from policies.solvers.interfaces import free_bound

Ints = npt.NDArray[np.int64]
Ask = Callable[[Problem], Solution]

SEARCHED: Final = 1000
"""Entries without a plan of which the cheapest to withhold are searched."""

ROUNDS: Final = 8
"""Plans to solve for, each without the excess of those before."""

FIRST: Final = 0.6
"""Share of the remaining time of one solve, if others may follow.

100 check-ins of Brightkite by the example policy, 3 s of CPU: 8 workers 88.07 of 88.41 in 1.90 s,
with half the same in .95, with .9 in 2.84; 3 workers 77.57, proven in .1 to .2 s with each.
"""


def solve(
    made: PlanningProblem, solver: Solver, auto: Solver, seed: int, limits: Limits
) -> Solution:
    """Solve a problem; INFEASIBLE only if no plan within the policy exists.

    The problem may be stricter than the policy about cosines (0), weights with many
    digits (rounded up), and averages that sets do not state. If such a problem has no
    plan, a less strict one is solved. All of them share the limits' time.

    Parameters
    ----------
    made : PlanningProblem
    solver : Solver
        Solves the problem as it was made.
    auto : Solver
        Solves the following ones.
    seed : int
    limits : Limits
    """
    rng, began, over = np.random.default_rng(seed), limits.clock(), limits.deadline()
    averages = AverageCaps(made)
    looser = relax(made, averages)
    share = FIRST if looser is not None or averages else 1.0

    def ask(problem: Problem, by: Solver = auto, share: float = FIRST) -> Solution:
        return answer_of(by, problem, rng, limits.left(began, share))

    asked = replace(made.problem, averages=averages.caps())
    found = _kept(averages, asked, lambda one: ask(one, solver, share), over)
    if found.verdict is Verdict.SOLVED or looser is None:
        return found
    loose = made.loose and replace(made.loose, averages=averages.caps())
    for problem in (loose, looser.averages):
        if problem is not None:
            below = _kept(averages, problem, ask, over)
            if below.verdict is Verdict.SOLVED:
                return below
    if found.verdict is Verdict.CERTIFIED:
        return found
    return _as_proven(found, ask(looser.problem, share=1.0), looser)


def answer_of(
    solver: Solver, problem: Problem, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Solve once; if a solver plans all or nothing, withhold all that is owed.

    Entries in a core are withheld because of it, the first one if there are several.
    """
    found = solver(problem, rng, limits)
    if found.verdict is Verdict.SOLVED or len(found.plan) or len(found.held):
        return found
    owed = np.flatnonzero(problem.lo)
    core = np.full(problem.n_entries, -1)
    for number in reversed(range(len(found.cores))):
        core[list(found.cores[number].entries)] = number
    return replace(found, held=owed, reason=core[owed])


def plan_rest(
    made: PlanningProblem, found: Solution, auto: Solver, seed: int, limits: Limits
) -> Solution:
    """Plan what can be of the components without a plan; hold back the least.

    A component without a plan is held back whole, but one entry of it may be all that
    has no place. An entry goes to as many as it must, or to nobody. What is withheld is
    worth least where components are few and small enough to search, and little else.

    Parameters
    ----------
    made : PlanningProblem
    found : Solution
        Of :func:`solve`.
    auto : Solver
    seed : int
    limits : Limits
    """
    if not len(found.held):
        return found
    averages = AverageCaps(made)
    problem = replace(made.problem, averages=averages.caps())
    rng, began = np.random.default_rng(seed), limits.clock()
    every, part = _without_plan(problem, found)
    least = None
    if len(found.held) <= SEARCHED:
        least = cheapest(with_withholding_prices(part), rng, limits.left(began, FIRST))
    more: Pairs
    if least is not None:
        more = least.plan
    else:
        more = _whole_entries(part, lambda one: auto(one, rng, limits.left(began)))
    plan = Plan(
        np.concatenate([found.plan.entry, every[more.entry]]),
        np.concatenate([found.plan.adversary, more.adversary]),
    )
    held = np.setdiff1d(found.held, plan.entry)
    judged = judge(without(problem, tuple(held.tolist())), plan)
    if not judged.feasible or averages.excess(plan):
        return found
    verdict = found.verdict if len(held) else Verdict.SOLVED
    rest = replace(found, verdict=verdict, plan=plan, held=held, judged=judged)
    return replace(
        rest,
        reason=_reasons(found, rest),
        value=judged.objective,
        bound=max(found.bound, judged.objective),
    )


def _without_plan(problem: Problem, found: Solution) -> tuple[Ints, Problem]:
    """Return what was held back, with its entries: what is planned counts as shown."""
    mine = np.isin(np.arange(problem.n_entries), found.held)
    part = replace(
        after(problem, found.plan),
        lo=np.where(mine, problem.lo, 0),
        hi=np.where(mine, problem.hi, 0),
        goal=replace(problem.goal, objective=Objective.DISC_BUDGET),
    )
    every = np.arange(problem.n_entries)
    if problem.averages or problem.links is not None:
        return every, part
    parts = split(problem.sets)
    chosen = np.unique(parts.label[found.held])
    every = parts.entries_of(chosen)
    return every, part.select(every, parts.sets_of(chosen))


def after(problem: Problem, shown: Pairs) -> Problem:
    """Return the problem that is left once these pairs have been shown."""
    capacity = problem.capacity
    if capacity is not None:
        given = np.bincount(shown.adversary, minlength=problem.n_adversaries)
        capacity = np.where(capacity == NO_CAP, NO_CAP, capacity - given)
    return replace(problem, history=problem.history.union(shown), capacity=capacity)


def with_withholding_prices(problem: Problem) -> Problem:
    """Return a problem that may withhold entries, at the worth of their answers."""
    weights = problem.weights
    worth = weights.base * weights.factor.max(axis=0, initial=0)[weights.kind]
    prices = np.maximum(problem.lo * worth, 1)
    return replace(problem, prices=prices // max(1, int(np.gcd.reduce(prices))))


def _whole_entries(problem: Problem, ask: Ask) -> Pairs:
    """Plan entries with all of their copies, round by round, none of them owed.

    Where a round brings none whole, those go that got the least of their copies.
    """
    wanted, kept = problem.lo, Pairs()
    problem = replace(problem, lo=np.zeros_like(wanted))
    for _ in range(ROUNDS):
        plan = ask(problem).plan
        copies = np.bincount(plan.entry, minlength=len(wanted))
        whole = (copies >= wanted) & (problem.hi > 0)
        open_ = (problem.hi > 0) & ~whole
        if whole.any():
            mine = whole[plan.entry]
            new = Pairs(plan.entry[mine], plan.adversary[mine])
            kept, problem = kept.union(new), after(problem, new)
        elif open_.any():
            share = copies[open_] / wanted[open_]
            open_[np.flatnonzero(open_)[share <= share.min()]] = False
        if not open_.any():
            break
        problem = replace(problem, hi=np.where(open_, problem.hi, 0))
    return kept


def _as_proven(found: Solution, proof: Solution, looser: RelaxedProblem) -> Solution:
    """Report INFEASIBLE only if even the problem no stricter than the policy is."""
    if proof.verdict is not Verdict.INFEASIBLE:
        return replace(
            found,
            verdict=Verdict.UNKNOWN,
            reason=np.full(len(found.held), -1),
            cores=(),
            tried=tuple(dict.fromkeys((*found.tried, *looser.beyond))),
        )
    every = np.arange(looser.problem.n_entries)
    cores = tuple(renumbered(core, every, looser.kept) for core in proof.cores)
    return replace(
        found, verdict=proof.verdict, reason=_reasons(proof, found), cores=cores
    )


# -- rounds for averages that only rules can count ------------------------------------


@dataclass(frozen=True)
class _Tried:
    """A plan, and its excess pairs (entry, adversary)."""

    found: Solution
    excess: list[tuple[int, int]]

    @property
    def whole(self) -> bool:
        """Whether all is planned, without excess."""
        return self.found.verdict is Verdict.SOLVED and not self.excess

    @property
    def kept(self) -> Plan:
        """The plan without the entries of excess pairs."""
        plan = self.found.plan
        mine = ~np.isin(plan.entry, [d for d, _ in self.excess])
        return Plan(plan.entry[mine], plan.adversary[mine])


def _kept(
    averages: AverageCaps, problem: Problem, ask: Ask, over: Callable[[], bool]
) -> Solution:
    """Return a plan that keeps the caps on averages, as its rules count them.

    A plan with excess pairs is solved again. Adversaries of most worth come first in a
    plan, and may be left with little: if no round gives a whole plan, one is solved
    that treats all alike. Of the fullest plan, the excess is withheld.
    """
    first = ask(problem)
    if not averages:
        return first
    tried = [_Tried(first, averages.excess(first.plan))]
    if not tried[0].excess:
        return first
    _rounds(averages, problem, tried, ask, over)
    if not tried[-1].whole and _favours(problem) and not over():
        n, k = problem.n_entries, problem.n_adversaries
        alike = replace(problem, weights=Weights.flat(n, k), utilities=None)
        found = ask(alike)
        tried.append(_Tried(found, averages.excess(found.plan)))
        _rounds(averages, alike, tried, ask, over)
    best = max(tried, key=lambda one: (one.whole, len(one.kept)))
    sure = first.verdict is Verdict.SOLVED
    bound = first.bound if sure else free_bound(problem)
    kept = _without_excess(problem, best, bound)
    return kept if best.whole else _unproven(first, kept)


def _favours(problem: Problem) -> bool:
    """Whether a showing is worth more to some adversaries than to others."""
    if problem.utilities is not None:
        return True
    return bool((problem.weights.factor != problem.weights.factor[:1]).any())


def _rounds(
    averages: AverageCaps,
    problem: Problem,
    tried: list[_Tried],
    ask: Ask,
    over: Callable[[], bool],
) -> None:
    """Solve again while there are excess pairs and time.

    Each round excludes the previous excess and gives nobody more than they could keep:
    otherwise other excess pairs would be planned for them.
    """
    capacity = problem.room()
    for _ in range(ROUNDS):
        last = tried[-1]
        if not last.excess or over():
            return
        much = Pairs.of(last.excess)
        less = np.bincount(last.found.plan.adversary, minlength=len(capacity))
        less -= np.bincount(much.adversary, minlength=len(capacity))
        mine = np.unique(much.adversary)
        capacity[mine] = np.minimum(capacity, less)[mine]
        forbidden = problem.forbidden.union(much)
        problem = replace(problem, forbidden=forbidden, capacity=capacity)
        found = ask(problem)
        tried.append(_Tried(found, averages.excess(found.plan)))


def _without_excess(problem: Problem, tried: _Tried, bound: Fraction) -> Solution:
    """Withhold the entries of excess pairs; judge the rest."""
    found, plan = tried.found, tried.kept
    held = np.union1d(found.held, [d for d, _ in tried.excess]).astype(np.int64)
    lo = problem.lo.copy()
    lo[held] = 0
    judged = judge(replace(problem, lo=lo), plan)
    value = judged.objective
    return replace(
        found,
        plan=plan,
        held=held,
        reason=np.full(len(held), -1),
        value=value,
        bound=max(bound, value),
        judged=judged,
    )


def _unproven(first: Solution, found: Solution) -> Solution:
    """Keep only the first solution's proof: later ones exclude excess pairs."""
    sure = first.verdict is Verdict.INFEASIBLE
    return replace(
        found,
        verdict=first.verdict if sure else Verdict.UNKNOWN,
        reason=_reasons(first, found),
        cores=first.cores,
        tried=(*found.tried, TOO_MUCH),
        proofs=(),
    )


def _reasons(proof: Solution, found: Solution) -> Ints:
    """Return for each withheld entry the index of its core in a proof, or -1."""
    known = dict(zip(proof.held.tolist(), proof.reason.tolist(), strict=True))
    return np.array([known.get(d, -1) for d in found.held.tolist()], np.int64)
