"""What needs no search: best copies that break no limit, and what counting settles.

Expected crossings below 1 give a plan without a search, and the local lemma proves that
there is one. Neither was needed where the search found a plan.
"""

from __future__ import annotations

from dataclasses import replace

from policies.judging.certificates import certify
from policies.judging.chances import derandomized_plan
from policies.model.objective import Objective
from policies.model.problem import Problem
from policies.solvers.features import free_plan
from policies.solvers.interfaces import Solution, Verdict, answer


def best_copies(problem: Problem) -> Solution:
    """Judge the best copies of every entry: often they are the optimum.

    Below limits alone they are it wherever they keep these: no plan has a higher u.
    """
    free = answer(problem, free_plan(problem), tried=("best copies",))
    if free.verdict is not Verdict.SOLVED:
        return free
    limits = problem.goal.objective is Objective.DISC_BUDGET
    if limits and problem.utilities is None:
        return replace(free, bound=free.value, stopped="optimal")
    return replace(free, stopped="optimal") if free.value == free.bound else free


def settled(problem: Problem, found: Solution) -> Solution:
    """Settle what a search left open: SOLVED or CERTIFIED in place of UNKNOWN.

    UNKNOWN says that this was tried too, however early the search was ended.
    """
    if found.verdict is not Verdict.UNKNOWN:
        return found
    tried = (*found.tried, "expected crossings and the local lemma")
    plan = derandomized_plan(problem)
    if plan is not None:
        made = answer(
            problem, plan, bound=found.bound, tried=tried, stopped=found.stopped
        )
        if made.verdict is Verdict.SOLVED:
            return made
    proven = certify(problem) is not None
    verdict = Verdict.CERTIFIED if proven else Verdict.UNKNOWN
    return replace(found, verdict=verdict, tried=tried)
