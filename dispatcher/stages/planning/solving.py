"""Solving what was translated: by its sets, and by what only its rules can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher.stages.planning.choosing import answer_of
from dispatcher.stages.planning.leniency import TOO_MUCH, Lenient, lenient
from dispatcher.stages.planning.means import Means
from dispatcher.stages.planning.translation import Translation
from policies.judging.judge import judge
from policies.model.problem import Pairs, Plan, Problem
from policies.model.weights import Weights
from policies.solvers import Limits, Solution, Verdict
from policies.solvers.component_answers import renumbered
from policies.solvers.interfaces import free_bound

Ints = npt.NDArray[np.int64]
Ask = Callable[[Problem], Solution]

ROUNDS: Final = 8
"""Plans that are asked for, each without what was too much in those before."""

FIRST: Final = 0.6
"""Of the time that is left, what an ask may take where others may follow."""


def solve(made: Translation, algorithm: str, seed: int, limits: Limits) -> Solution:
    """Solve; where more is asked than the policy does, that there is no plan proves nothing.

    More is asked of cosines (to be 0), of weights of many digits (rounded up), and of
    means of what sets do not tell. Then a plan is looked for with less asked, and what is
    told as INFEASIBLE has no plan of a problem that asks for nothing beyond the policy.
    All asks together keep the limits' time.
    """
    rng, began, over = np.random.default_rng(seed), limits.clock(), limits.deadline()
    means = Means(made)
    looser = lenient(made, means)
    share = FIRST if looser is not None or means else 1.0

    def ask(problem: Problem, by: str = "auto", share: float = FIRST) -> Solution:
        return answer_of(by, problem, rng, limits.left(began, share))

    asked = replace(made.problem, averages=means.caps())
    found = _kept(means, asked, lambda one: ask(one, algorithm, share), over)
    if found.verdict is Verdict.SOLVED or looser is None:
        return found
    loose = made.loose and replace(made.loose, averages=means.caps())
    for problem in (loose, looser.means):
        if problem is not None:
            below = _kept(means, problem, ask, over)
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


# -- rounds for what only rules tell of means ----------------------------------------


@dataclass(frozen=True)
class _Tried:
    """A plan, and its pairs (entry, adversary) that are too much."""

    found: Solution
    excess: list[tuple[int, int]]

    @property
    def whole(self) -> bool:
        """Whether all is planned, and nothing is too much."""
        return self.found.verdict is Verdict.SOLVED and not self.excess

    @property
    def kept(self) -> Plan:
        """The plan without entries of which a pair is too much."""
        plan = self.found.plan
        mine = ~np.isin(plan.entry, [d for d, _ in self.excess])
        return Plan(plan.entry[mine], plan.adversary[mine])


def _kept(
    means: Means, problem: Problem, ask: Ask, over: Callable[[], bool]
) -> Solution:
    """Return a plan that keeps the caps on means, as its rules themselves tell them.

    A plan that is too much is asked for again. Those who are worth most come first in a
    plan, and may be left with little: where no round gives a whole plan, one is looked for
    that takes all for alike. Of the fullest plan, what is too much is held back.
    """
    first = ask(problem)
    if not means:
        return first
    tried = [_Tried(first, means.excess(first.plan))]
    if not tried[0].excess:
        return first
    _rounds(means, problem, tried, ask, over)
    if not tried[-1].whole and _favours(problem) and not over():
        n, k = problem.n_entries, problem.n_adversaries
        alike = replace(problem, weights=Weights.flat(n, k), utilities=None)
        found = ask(alike)
        tried.append(_Tried(found, means.excess(found.plan)))
        _rounds(means, alike, tried, ask, over)
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
    means: Means,
    problem: Problem,
    tried: list[_Tried],
    ask: Ask,
    over: Callable[[], bool],
) -> None:
    """Ask again, as long as something is too much and there is time.

    Each time without the pairs that were, and for no more from anybody than they could
    keep: else they are planned others that are too much as well.
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
        tried.append(_Tried(found, means.excess(found.plan)))


def _without_excess(problem: Problem, tried: _Tried, bound: Fraction) -> Solution:
    """Hold back the entries of which a pair is too much; judge what is left."""
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
