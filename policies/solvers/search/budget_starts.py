"""Starts where all limits are on single sets: plans of proofs, of CP-SAT, of annealing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from policies.model.problem import Problem
from policies.solvers.bounds.certificates import made
from policies.solvers.coloring import tight
from policies.solvers.exact.cpsat import exactly
from policies.solvers.features import crossed, loose
from policies.solvers.interfaces import Limits, Proof, Solution, Solver, Verdict
from policies.solvers.parallel_portfolio import few
from policies.solvers.search.annealing import anneal_hands, annealable
from policies.solvers.search.penalty_annealing import anneal_across

_SHARE: Final = 0.6  # of the time, for CP-SAT where annealing is good too
_LEAST: Final = 0.02  # seconds below which no further start is looked for


def budget_starts(
    solvers: dict[str, Solver],
    problem: Problem,
    proof: Proof | None,
    rng: np.random.Generator,
    limits: Limits,
) -> Iterator[Solution]:
    """Find plans one way after another; CP-SAT may prove more.

    Where adversaries pool, CP-SAT's rows are many, and annealing comes first. It comes
    last elsewhere, and never for small colourings: there CP-SAT excels.

    Parameters
    ----------
    solvers : dict of str to Solver
    problem : Problem
        One that :func:`policies.solvers.features.budgeted` holds for.
    proof : Proof or None
        That a plan exists.
    rng, limits
    """
    began, start = limits.clock(), None
    if proof is not None or loose(problem):
        ground = None if proof is None else proof.ground
        for known in made(solvers, problem, ground, rng, limits):
            yield known
            start = known.plan
    across = crossed(problem)
    able = across or (annealable(problem) and not tight(problem))
    left = limits.left(began, least=_LEAST)
    if start is not None and left.seconds <= _LEAST:
        return
    if not (problem.coalitions and able):
        share = _SHARE if able else 1.0
        found = exactly(
            problem, rng, replace(left, seconds=left.seconds * share), start
        )
        yield found
        if found.verdict is Verdict.INFEASIBLE or found.stopped == "optimal":
            return
        left = limits.left(began, least=_LEAST)
    if across:
        yield anneal_across(problem, None, rng, replace(left, work=few(left.work)))
    elif able:
        yield anneal_hands(problem, rng, replace(left, work=few(left.work)))
