"""Solving what was translated: by its sets, and by what only its rules can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from dispatcher.stages.planning.choosing import solved
from dispatcher.stages.planning.means import Means
from dispatcher.stages.planning.translation import Translation
from policies.judge import judge
from policies.problem import Pairs, Plan, Problem
from policies.solvers import Limits, Solution, Verdict

ROUNDS: Final = 8
"""Plans that are asked for, each without what was too much in those before."""

TOO_MUCH: Final = "no plan was found that keeps the caps on means"


def solve(made: Translation, algorithm: str, seed: int, limits: Limits) -> Solution:
    """Solve; where keeping a cosine at 0 has no plan, look for one below its limit."""
    rng = np.random.default_rng(seed)
    means = Means(made)
    found = _within(
        means, made.problem, lambda one: solved(algorithm, one, rng, limits)
    )
    if found.verdict is Verdict.SOLVED or not made.stricter:
        return found
    if made.loose is not None:
        below = _within(means, made.loose, lambda one: solved("auto", one, rng, limits))
        if below.verdict is Verdict.SOLVED:
            return below
    named = {
        p for core in found.cores for clash in core.clashes for p in clash.properties
    }
    if named.isdisjoint(made.stricter):
        return found
    told = "no plan keeps all cosines at 0, and none below the limit was found"
    return replace(found, verdict=Verdict.UNKNOWN, tried=(*found.tried, told))


def _within(
    means: Means, problem: Problem, ask: Callable[[Problem], Solution]
) -> Solution:
    """Let no plan pass a cap on a mean by what its rules themselves tell.

    A plan that would is asked for again without the pairs that are too much; what is
    too much after all rounds is held back.
    """
    if not means:
        return ask(problem)
    caps = tuple(map(means.counted, problem.averages))
    problem = replace(problem, averages=caps)
    first = found = ask(problem)
    for _ in range(ROUNDS):
        excess = means.excess(found.plan)
        if not excess:
            break
        problem = replace(problem, forbidden=problem.forbidden.union(Pairs.of(excess)))
        found = ask(problem)
    if found is first:
        return found
    found = _without(problem, found, [d for d, _ in means.excess(found.plan)])
    return found if found.verdict is Verdict.SOLVED else _unproven(first, found)


def _without(problem: Problem, found: Solution, entries: list[int]) -> Solution:
    """Hold entries back."""
    if not entries:
        return found
    kept = ~np.isin(found.plan.entry, entries)
    plan = Plan(found.plan.entry[kept], found.plan.adversary[kept])
    held = np.union1d(found.held, entries).astype(np.int64)
    lo = problem.lo.copy()
    lo[held] = 0
    judged = judge(replace(problem, lo=lo), plan)
    return replace(
        found,
        verdict=Verdict.UNKNOWN,
        plan=plan,
        held=held,
        reason=np.full(len(held), -1),
        value=judged.objective,
        judged=judged,
    )


def _unproven(first: Solution, found: Solution) -> Solution:
    """What was refuted without the pairs that are too much is no proof: only the first."""
    reasons = dict(zip(first.held.tolist(), first.reason.tolist(), strict=True))
    sure = first.verdict is Verdict.INFEASIBLE
    return replace(
        found,
        verdict=first.verdict if sure else Verdict.UNKNOWN,
        reason=np.array([reasons.get(d, -1) for d in found.held.tolist()], np.int64),
        cores=first.cores,
        tried=(*found.tried, TOO_MUCH),
        proofs=(),
    )
