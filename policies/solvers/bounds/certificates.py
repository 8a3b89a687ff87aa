"""Certificates before a search: which components have a plan, and why.

The count of :func:`policies.judging.certificates.always_servable` costs less than
reading the problem. A uniform draw's chances are exact fractions, so they get only as
many steps as are negligible beside the search. A certificate never claims that there is
no plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from policies.judging.certificates import always_servable, certify
from policies.model.problem import Problem
from policies.model.sets import Bools, Ints
from policies.solvers.interfaces import (
    Ground,
    Limits,
    Proof,
    Solution,
    Verdict,
)

if TYPE_CHECKING:
    from policies.solvers.components import Components

STEPS: Final = 40_000
"""Sums of fractions that one call of AUTO spends on certificates, at most."""

EACH: Final = 4_000  # the same per second (or unit of work) of the limits


class Prover:
    """Tries certificates, the cheapest first, while steps are left.

    Parameters
    ----------
    limits : Limits
        Limits of the whole search.

    Attributes
    ----------
    steps : int
        Steps left.
    tried : str
        What failed for the last problem.
    """

    def __init__(self, limits: Limits) -> None:
        self.steps = int(min(EACH * min(limits.seconds, limits.work), STEPS))
        self.tried = ""

    def __call__(self, problem: Problem) -> Proof | None:
        """Prove that the problem has a plan; None proves nothing."""
        self.tried = "counting for any order"
        entries = tuple(np.flatnonzero(problem.lo).tolist())
        if not problem.sets.n_sets or not entries:
            return None  # nothing can be crossed, so there is nothing to prove
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
        """Add the proof, with CERTIFIED for UNKNOWN; or report what failed."""
        unknown = found.verdict is Verdict.UNKNOWN
        if proof is None:
            tried = (*found.tried, self.tried)
            return replace(found, tried=tried) if unknown else found
        verdict = Verdict.CERTIFIED if unknown else found.verdict
        return replace(found, verdict=verdict, proofs=(proof,))


def steps(problem: Problem) -> int:
    """Return about how many sums of fractions the chances of all sets take."""
    sets = problem.sets
    size = np.diff(sets.start).astype(np.float64)
    loads = np.minimum(sets.cap + 1.0, 2.0 ** np.minimum(size, 30))
    apart = len(problem.history) + len(problem.forbidden)
    observers = 1 + min(apart, problem.n_adversaries + len(problem.groups))
    looked = sets.n_sets * (problem.n_adversaries + len(problem.groups)) / 10
    return int((size * loads).sum() * observers + looked)


def orderly(problem: Problem, parts: Components) -> Bools:
    """Components whose entries can be served in any order, shape (components,)."""
    stuck = np.bincount(parts.label[~always_servable(problem)], minlength=parts.count)
    return np.asarray(stuck == 0)


def in_order(problem: Problem, parts: Components, sure: Bools) -> list[Proof]:
    """Return the proof of these components; none if nothing can be crossed."""
    limited = np.zeros(parts.count, np.bool_)
    limited[parts.label[problem.sets.entry]] = True
    entries = np.flatnonzero((sure & limited)[parts.label] & (problem.lo > 0))
    count = len(np.unique(parts.label[entries]))
    return [Proof(Ground.ORDER, tuple(entries.tolist()), count)] if count else []


def numbered(proofs: Iterable[Proof], entries: Ints) -> tuple[Proof, ...]:
    """Return the proofs of a part in the numbering of the whole problem."""
    return tuple(
        replace(proof, entries=tuple(entries[list(proof.entries)].tolist()))
        for proof in proofs
    )


def gathered(proofs: Iterable[Proof]) -> tuple[Proof, ...]:
    """Merge proofs with the same ground."""
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
