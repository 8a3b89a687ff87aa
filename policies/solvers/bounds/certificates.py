"""What is certain before a search: which components have a plan, and on what ground.

The count of :func:`policies.judging.certificates.always_servable` costs less than reading the problem. A
uniform draw's chances are exact fractions, so that only so many steps go into them as
are little beside the search. A certificate never says that a component has no plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from policies.judging.certificates import always_servable, certify
from policies.judging.chances import derandomized_plan
from policies.model.problem import Plan, Problem
from policies.model.sets import Bools, Ints
from policies.solvers.interfaces import (
    Ground,
    Limits,
    Proof,
    Solution,
    Solver,
    Verdict,
    answer,
)
from policies.solvers.parallel_portfolio import few

if TYPE_CHECKING:
    from policies.solvers.components import Components

STEPS: Final = 40_000
"""Sums of fractions that one call of AUTO spends on certificates at most."""

EACH: Final = 4_000  # of them, for each second (or unit of work) of the limits


class Prover:
    """Tries certificates, the cheapest first, as long as steps are left.

    Parameters
    ----------
    limits : Limits
        Of the whole search.

    Attributes
    ----------
    steps : int
        Steps that are left.
    tried : str
        What was tried for the last problem, in vain.
    """

    def __init__(self, limits: Limits) -> None:
        self.steps = int(min(EACH * min(limits.seconds, limits.work), STEPS))
        self.tried = ""

    def __call__(self, problem: Problem) -> Proof | None:
        """Prove that the problem has a plan; None proves nothing."""
        self.tried = "counting for any order"
        entries = tuple(np.flatnonzero(problem.lo).tolist())
        if not problem.sets.n_sets or not entries:
            return None  # nothing can be crossed: that is no news
        if always_servable(problem).all():
            return Proof(Ground.ORDER, entries)
        cost = steps(problem)
        if cost > self.steps:
            return None
        self.steps -= cost
        self.tried = "expected crossings and the local lemma"
        found = certify(problem)
        if found is None:
            return None
        few = sum(found.chance, Fraction(0)) < 1
        return Proof(Ground.EXPECTATION if few else Ground.LEMMA, entries)

    def certain(self, found: Solution, proof: Proof | None) -> Solution:
        """Name the proof, CERTIFIED in place of UNKNOWN; or that there was none."""
        unknown = found.verdict is Verdict.UNKNOWN
        if proof is None:
            tried = (*found.tried, self.tried)
            return replace(found, tried=tried) if unknown else found
        verdict = Verdict.CERTIFIED if unknown else found.verdict
        return replace(found, verdict=verdict, proofs=(proof,))


def made(
    solvers: Mapping[str, Solver],
    problem: Problem,
    ground: Ground | None,
    rng: np.random.Generator,
    limits: Limits,
) -> list[Solution]:
    """Return the plan that a certificate promises, if it came out in time.

    Parameters
    ----------
    solvers : mapping of str to Solver
    problem : Problem
        A disc-budget problem without caps on means.
    ground : Ground or None
        What is known about it; None: nothing, so that greedy may fail.
    rng, limits
    """
    asked = [problem]
    if ground is Ground.ORDER:  # more copies of one than must be may bar another
        asked.append(replace(problem, hi=problem.lo))
    for one in asked:
        plan = _plan(solvers, one, ground, rng, limits)
        told = "greedy" if ground is None else f"made by its proof: {ground}"
        solution = answer(problem, plan, tried=(told,))
        if solution.verdict is Verdict.SOLVED:
            return [solution]
    return []


def _plan(
    solvers: Mapping[str, Solver],
    problem: Problem,
    ground: Ground | None,
    rng: np.random.Generator,
    limits: Limits,
) -> Plan:
    """Return what comes out; an empty plan where no solver is there for the problem."""
    if ground is Ground.EXPECTATION:
        return derandomized_plan(problem, limits.deadline()) or Plan()
    name = "moser-tardos" if ground is Ground.LEMMA else "greedyl"
    solver = solvers.get(name)
    if solver is None or not solver.supports(problem):
        return Plan()
    return solver(problem, rng, replace(limits, work=few(limits.work))).plan


def steps(problem: Problem) -> int:
    """Sums of fractions that the chances of all sets take, about."""
    sets = problem.sets
    size = np.diff(sets.start).astype(np.float64)
    loads = np.minimum(sets.cap + 1.0, 2.0 ** np.minimum(size, 30))
    apart = len(problem.history) + len(problem.forbidden)
    observers = 1 + min(apart, problem.n_adversaries + len(problem.groups))
    looked = sets.n_sets * (problem.n_adversaries + len(problem.groups)) / 10
    return int((size * loads).sum() * observers + looked)


def orderly(problem: Problem, parts: Components) -> Bools:
    """Components whose entries can all be served in any order, shape (components,)."""
    stuck = np.bincount(parts.label[~always_servable(problem)], minlength=parts.count)
    return np.asarray(stuck == 0)


def in_order(problem: Problem, parts: Components, sure: Bools) -> list[Proof]:
    """Return the proof of these components; none where nothing can be crossed."""
    limited = np.zeros(parts.count, np.bool_)
    limited[parts.label[problem.sets.entry]] = True
    entries = np.flatnonzero((sure & limited)[parts.label] & (problem.lo > 0))
    count = len(np.unique(parts.label[entries]))
    return [Proof(Ground.ORDER, tuple(entries.tolist()), count)] if count else []


def numbered(proofs: Iterable[Proof], entries: Ints) -> tuple[Proof, ...]:
    """Return the proofs of a part in the numbers of the whole problem."""
    return tuple(
        replace(proof, entries=tuple(entries[list(proof.entries)].tolist()))
        for proof in proofs
    )


def gathered(proofs: Iterable[Proof]) -> tuple[Proof, ...]:
    """Put proofs of one ground together."""
    by_ground: dict[Ground, list[Proof]] = {}
    for proof in proofs:
        by_ground.setdefault(proof.ground, []).append(proof)
    return tuple(
        Proof(
            ground,
            tuple(sorted(d for one in group for d in one.entries)),
            sum(one.components for one in group),
        )
        for ground, group in sorted(by_ground.items())
    )
