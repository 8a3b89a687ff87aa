"""Components' answers put together: one plan, one bound, one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from policies.model.problem import Plan, Problem
from policies.model.sets import Ints
from policies.solvers.bounds.certificates import gathered, numbered
from policies.solvers.interfaces import Core, Solution, Verdict, answer

Part = tuple[Ints, Solution]
"""Entries of a component, ascending, and its answer in its own numbers."""


def renumbered(core: Core, entries: Ints, sets: Ints) -> Core:
    """Return a component's core in the numbers of the whole problem."""
    clashes = tuple(
        replace(
            c,
            sets=tuple(sets[list(c.sets)].tolist()),
            entries=tuple(entries[list(c.entries)].tolist()),
        )
        for c in core.clashes
    )
    own = tuple(entries[list(core.entries)].tolist())
    return replace(core, entries=own, clashes=clashes)


def lifted(found: Solution, entries: Ints, sets: Ints) -> Solution:
    """Number a component's cores as the whole problem does."""
    cores = tuple(renumbered(core, entries, sets) for core in found.cores)
    return replace(found, cores=cores)


def joined(problem: Problem, ready: Sequence[Part], why: str) -> Solution:
    """Put the components' plans together and judge the whole.

    Parameters
    ----------
    problem : Problem
    ready : sequence of Part
        Every component once, its cores :func:`lifted`.
    why : str
        Why the search ended, where no optimum was proven.
    """
    verdicts = {found.verdict for _, found in ready}
    plans = [(e, f.plan) for e, f in ready if f.verdict is Verdict.SOLVED]
    plan = Plan(
        np.concatenate([np.empty(0, np.int64), *(e[p.entry] for e, p in plans)]),
        np.concatenate([np.empty(0, np.int64), *(p.adversary for _, p in plans)]),
    )
    bound = sum((f.bound for _, f in ready), Fraction(0))
    tried = tuple(dict.fromkeys(text for _, f in ready for text in f.tried))
    proofs = gathered(p for e, f in ready for p in numbered(f.proofs, e))
    if verdicts <= {Verdict.SOLVED}:
        made = answer(problem, plan, bound=bound, tried=tried)
        proven = all(f.stopped in ("", "optimal") for _, f in ready)
        stopped = "optimal" if proven else why
        return replace(made, stopped=stopped, proofs=proofs)
    away = [e for e, f in ready if f.verdict is not Verdict.SOLVED]
    impossible = Verdict.INFEASIBLE in verdicts
    return Solution(
        _verdict(verdicts),
        plan,
        held=np.sort(np.concatenate(away)),
        bound=bound,
        cores=tuple(core for _, f in ready for core in f.cores),
        tried=tried,
        stopped="optimal" if impossible else why,
        proofs=proofs,
    )


def _verdict(verdicts: set[Verdict]) -> Verdict:
    """Return the verdict on a whole of which a part has no plan."""
    if Verdict.INFEASIBLE in verdicts:
        return Verdict.INFEASIBLE
    open_ = Verdict.UNKNOWN in verdicts
    return Verdict.UNKNOWN if open_ else Verdict.CERTIFIED
