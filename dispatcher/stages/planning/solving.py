"""Solving what was translated: by its sets, and by what only its rules can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher.stages.planning.choosing import solved
from dispatcher.stages.planning.leniency import TOO_MUCH, Lenient, lenient
from dispatcher.stages.planning.means import Means
from dispatcher.stages.planning.translation import Translation
from policies.judge import judge
from policies.problem import Pairs, Plan, Problem
from policies.solvers import Limits, Solution, Verdict
from policies.solvers.assembly import renumbered

Ints = npt.NDArray[np.int64]

ROUNDS: Final = 8
"""Plans that are asked for, each without what was too much in those before."""

FIRST: Final = 0.6
"""Of the time that is left, what is spent on a problem that asks beyond the policy."""


def solve(made: Translation, algorithm: str, seed: int, limits: Limits) -> Solution:
    """Solve; where more is asked than the policy does, that there is no plan proves nothing.

    Then a plan is looked for with less asked, and what is told as INFEASIBLE has no plan
    of a problem that asks for nothing beyond the policy.
    """
    rng, began = np.random.default_rng(seed), limits.clock()
    means = Means(made)
    looser = lenient(made, means)
    share = 1.0 if looser is None else FIRST

    def ask(problem: Problem, by: str = "auto", share: float = FIRST) -> Solution:
        return solved(by, problem, rng, limits.left(began, share))

    asked = replace(made.problem, averages=means.caps())
    found = _within(means, asked, lambda one: ask(one, algorithm, share))
    if found.verdict is Verdict.SOLVED or looser is None:
        return found
    loose = made.loose and replace(made.loose, averages=means.caps())
    for problem in (loose, looser.means):
        if problem is not None:
            below = _within(means, problem, ask)
            if below.verdict is Verdict.SOLVED:
                return below
    if found.verdict is Verdict.CERTIFIED:
        return found
    return _as_proven(found, ask(looser.problem, share=1.0), looser)


def _as_proven(found: Solution, proof: Solution, looser: Lenient) -> Solution:
    """Tell as INFEASIBLE what has no plan with nothing asked beyond the policy, and only that."""
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


def _within(
    means: Means, problem: Problem, ask: Callable[[Problem], Solution]
) -> Solution:
    """Let no plan pass a cap on a mean by what its rules themselves tell.

    A plan that would is asked for again without the pairs that are too much; what is
    too much after all rounds is held back.
    """
    if not means:
        return ask(problem)
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
    """For what is held back: the place of its core in a proof, or -1."""
    known = dict(zip(proof.held.tolist(), proof.reason.tolist(), strict=True))
    return np.array([known.get(d, -1) for d in found.held.tolist()], np.int64)
