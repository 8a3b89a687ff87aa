"""The safe objective: fewest complete sets first, then the paper's objective.

The paper's worst case is a maximum, so once one set must leak, all others leak at no
further cost (section 5, GREEDY with t = k). Here plans are compared lexicographically:
by the number of sets that somebody holds whole, then by u or u + lambda (tau - f).

1. The solver is asked for a plan without any complete set: caps just below whole.
2. If there is none, CP-SAT minimises the number of complete sets, then maximises
   utility at that number. In a worst-case tradeoff nothing else counts: f is 1.
3. A mean also counts what is held of the other sets: the solver is asked again, with
   the sets capped that stayed incomplete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from policies.judging.judge import judge
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.problem_arrays import able
from policies.model.sets import NO_CAP, Bools, SetSystem
from policies.solvers.exact.cpsat import CpSat, build, maximise, run_model
from policies.solvers.exact.epsilon_constraint import whole
from policies.solvers.exact.linear_model import Late
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Verdict,
    answer,
    best_of,
    free_bound,
)

# Sparse problems as tradeoffs, 1.5 s of CPU: 100, 260, 2, 1 is proven in .2 s with half and twice
# of _SEALED; 200, 500, 3, 2 ended in 1.582 of 1.69, with half 1.578, with twice 1.634; in 1.640
# since what is left goes to it too. Of 60, 400,
# 2, 1, where sets must be complete, 113 are; with half of _COUNTED 115, with .9 104, .7 s late.
_SEALED = 0.4  # share of the time for a plan without any complete set
_COUNTED = 0.5  # share of the rest for the fewest complete sets

Solve = Callable[[Problem, Limits], Solution]


@dataclass(frozen=True, eq=False)
class Fewest:
    """A solution by the safe objective.

    Attributes
    ----------
    solution : Solution
        Judged by the original problem. Its bound is over the plans that complete no
        more sets than this one.
    least : int
        Proven: no plan completes fewer sets.
    """

    solution: Solution
    least: int

    @property
    def proven(self) -> bool:
        """Whether no plan completes fewer sets than this one."""
        judged = self.solution.judged
        return judged is not None and judged.disclosed == self.least


def countable(problem: Problem) -> bool:
    """Whether :func:`fewest_complete_sets` can count complete sets: no links, additive utility."""
    if problem.links is not None:
        return False
    return CpSat().supports(replace(problem, goal=Goal()))


def fewest_complete_sets(
    problem: Problem, rng: np.random.Generator, limits: Limits, solve: Solve
) -> Fewest:
    """Solve a problem that is :func:`countable` by the safe objective.

    Parameters
    ----------
    problem : Problem
    rng, limits
    solve : callable
        Solves by the paper's objective.

    Returns
    -------
    Fewest
        INFEASIBLE and UNKNOWN are the solver's answers to the problem itself.
    """
    began = limits.clock()

    def left(part: float) -> Limits:
        return limits.part(part).left(began, part, 0.02)

    closed = Solution(Verdict.UNKNOWN)
    past = judge(problem, Plan()).whole  # if there are some, nothing can be sealed
    if not past and _by_load(problem.sets):
        closed = _none_complete(problem, left(_SEALED), solve)
    if closed.verdict is Verdict.SOLVED:
        if closed.stopped in ("time", "work"):  # nothing else counts: all that is left
            again = _none_complete(problem, left(1.0), solve)
            bound = min(closed.bound, again.bound)
            closed = best_of([closed, again]) or closed
            closed = replace(closed, bound=max(bound, closed.value))
        return Fewest(closed, 0)
    surely = closed.verdict is Verdict.INFEASIBLE
    counted = _counted(problem, rng, left(_COUNTED), int(surely))
    if counted is None:
        found = solve(problem, left(1.0))
        return Fewest(found, int(surely and found.verdict is Verdict.SOLVED))
    found, least = counted
    if not problem.goal.worst and problem.goal.objective is Objective.TRADEOFF:
        found = _at_rest(problem, found, left(1.0), solve)
    optimal = Fewest(found, least).proven and found.value == found.bound
    return Fewest(replace(found, stopped="optimal" if optimal else "gap"), least)


def _none_complete(problem: Problem, limits: Limits, solve: Solve) -> Solution:
    """Solve with every set kept incomplete; return an answer to the original problem."""
    sets = _closed(problem.sets, np.ones(problem.sets.n_sets, np.bool_))
    tight = replace(problem, sets=sets)
    shift = Fraction(0)
    if whole(problem):  # no set complete means f = 0: only utility is left
        tight = replace(tight, goal=Goal())
        shift = problem.goal.lambda_ * problem.goal.tau
    found = solve(tight, limits)
    if found.verdict is not Verdict.SOLVED:
        return found
    solution = answer(problem, found.plan, bound=found.bound + shift, tried=found.tried)
    return replace(solution, stopped=found.stopped)


def _by_load(sets: SetSystem) -> bool:
    """Whether every entry weighs something, so that loads show which sets are whole."""
    weighted = ~sets.classes[sets.member_set]
    return bool((sets.amount[weighted] > 0).all())


def _closed(sets: SetSystem, which: Bools) -> SetSystem:
    """Return the sets with the caps of some just below whole; empty sets stay."""
    total = sets.total
    below = np.where(which & (total > 0), total - 1, NO_CAP)
    return replace(sets, cap=np.minimum(sets.cap, below))


def _entry_by_entry(sets: SetSystem) -> SetSystem:
    """Return the sets with a cap on the number of entries: all but one."""
    rows = np.diff(sets.start)
    weighted = ~sets.classes[sets.member_set]
    size = np.where(sets.classes, sets.full, np.maximum(rows, 1))
    return replace(
        sets,
        measures=(Measure.STEP,) * len(sets.properties),
        amount=np.where(weighted, 1, sets.amount),
        full=size,
        cap=np.where(rows > 0, size - 1, NO_CAP),
    )


def _counted(
    problem: Problem, rng: np.random.Generator, limits: Limits, least: int
) -> tuple[Solution, int] | None:
    """Minimise complete sets by CP-SAT; return the proven least, at least ``least``."""
    n_sets = problem.sets.n_sets
    if (problem.sets.cap < problem.sets.total).any():
        return None  # such sets have limits of their own, left to the solver
    sets = _entry_by_entry(problem.sets)
    open_ = replace(problem, sets=sets, goal=Goal(), strict_history=True)
    try:
        built = build(open_, guarded=True, may=able(problem), over=limits.deadline())
    except Late:
        return None
    if built is None or not built.guards:
        return None
    kept = sum(built.guards)
    built.model.maximize(kept)
    plan, _, most, _ = run_model(built, rng, limits)
    if plan is None:
        return None
    first = answer(problem, plan)
    if first.judged is None or first.verdict is not Verdict.SOLVED:
        return None
    if np.isfinite(most):
        least = max(least, n_sets - int(most))
    here = first.judged.disclosed
    built.model.add(kept >= n_sets - here)
    plan, top = maximise(open_, built, plan, rng, limits)
    bound, tried = _ceiling(problem, top, least), ("fewest complete sets",)
    best = answer(problem, plan, bound=bound, tried=tried)
    if best.verdict is not Verdict.SOLVED:  # past a cap on a mean, unknown to CP-SAT
        best = answer(problem, first.plan, bound=bound, tried=tried)
    return best, least


def _ceiling(problem: Problem, top: Fraction, least: int) -> Fraction:
    """Bound the objective of plans with at most this utility and some complete sets."""
    goal = problem.goal
    if goal.objective is not Objective.TRADEOFF:
        return top
    sets, total = problem.sets, problem.sets.total
    each = [
        sets.measures[o].disclosure(load, full)
        for o, load, full in zip(
            sets.owner.tolist(), total.tolist(), sets.full.tolist(), strict=True
        )
    ]
    known = least and goal.aggregate is None  # an aggregate may not count these sets
    floor = min(each, default=Fraction(0)) if known else Fraction(0)
    if goal.average:
        floor /= goal.over or max(1, sets.n_sets)
    return min(free_bound(problem), top + goal.lambda_ * (goal.tau - floor))


def _at_rest(
    problem: Problem, found: Solution, limits: Limits, solve: Solve
) -> Solution:
    """Improve the objective of a plan without completing any further set."""
    assert found.judged is not None
    stays = np.ones(problem.sets.n_sets, np.bool_)
    stays[list(found.judged.whole)] = False
    other = solve(replace(problem, sets=_closed(problem.sets, stays)), limits)
    if other.verdict is not Verdict.SOLVED:
        return found
    better = answer(problem, other.plan, bound=found.bound, tried=other.tried)
    return better if better.value > found.value else found
