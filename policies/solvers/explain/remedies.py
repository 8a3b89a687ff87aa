"""Remedies other than more adversaries: fewer answers, or a higher limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from policies.model.problem import Problem
from policies.model.sets import Ints
from policies.solvers.explain.cores import feasible, proven_core
from policies.solvers.interfaces import Cause, Clash, Core, Limits, Verdict


@dataclass(frozen=True)
class Remedy:
    """A change of the policy for which fewer adversaries would suffice.

    Attributes
    ----------
    kind : str
        ``answers``: one answer fewer for the entries that need most. ``limit``: one
        adversary may see one more entry of the property's sets.
    property : int
    entries : tuple of int
        ``answers``: the entries.
    answers : int
        ``answers``: the new number.
    above : Fraction
        ``limit``: tau would have to be above this.
    needed : int
        Number of adversaries that would suffice then.
    """

    kind: str
    property: int
    entries: tuple[int, ...]
    answers: int
    above: Fraction
    needed: int


def remedies(
    problem: Problem, core: Core, rng: np.random.Generator, limits: Limits
) -> tuple[Remedy, ...]:
    """Return the remedies for a core.

    Parameters
    ----------
    problem : Problem
        The problem of the core.
    core : Core
        Its first clash is considered.

    Returns
    -------
    tuple of Remedy
        Only those that need fewer adversaries than the core.
    """
    first = core.clashes[0]
    if core.needed is None or first.cause is not Cause.SET:
        return ()
    entries = np.array(core.entries, np.int64)
    inside = np.zeros(problem.n_entries, np.bool_)
    inside[entries] = True
    touched = inside[problem.sets.entry]
    sets = np.unique(problem.sets.member_set[touched])
    alone = replace(problem.select(entries, sets), capacity=None)
    owner = first.properties[0]
    found = [
        _fewer_answers(alone, entries, first, rng, limits),
        _higher_limit(alone, int(np.searchsorted(sets, first.sets[0])), rng, limits),
    ]
    return tuple(
        replace(r, property=owner) for r in found if r and r.needed < core.needed
    )


def _fewer_answers(
    alone: Problem,
    entries: Ints,
    first: Clash,
    rng: np.random.Generator,
    limits: Limits,
) -> Remedy | None:
    """Return the remedy of one answer fewer for the clash's entries that need most."""
    local = np.searchsorted(entries, np.array(first.entries, np.int64))
    most = int(alone.lo[local].max())
    if most < 2:
        return None
    lo = alone.lo.copy()
    dear = local[lo[local] == most]
    lo[dear] = most - 1
    needed = enough(replace(alone, lo=lo, hi=np.maximum(alone.hi, lo)), rng, limits)
    if needed is None:
        return None
    named = tuple(int(d) for d in entries[dear])
    return Remedy("answers", 0, named, most - 1, Fraction(0), needed)


def _higher_limit(
    alone: Problem, one: int, rng: np.random.Generator, limits: Limits
) -> Remedy | None:
    """Return the remedy of a limit one entry higher in all sets of the property."""
    sets = alone.sets
    rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
    steps = sets.amount[rows][sets.amount[rows] > 0]
    owner, cap, full = int(sets.owner[one]), int(sets.cap[one]), int(sets.full[one])
    measure = sets.measures[owner]
    if sets.classes[one] or not len(steps) or measure.is_step:
        return None
    raised = (cap // int(steps.min()) + 1) * int(steps.min())
    if raised >= full:
        return None
    caps = np.where(sets.owner == owner, np.maximum(sets.cap, raised), sets.cap)
    needed = enough(replace(alone, sets=replace(sets, cap=caps)), rng, limits)
    if needed is None:
        return None
    above = measure.disclosure(raised, full)
    return Remedy("limit", 0, (), 0, above, needed)


def enough(problem: Problem, rng: np.random.Generator, limits: Limits) -> int | None:
    """Return how many adversaries suffice for this component; all present if they do."""
    if feasible(problem, rng, limits).verdict is Verdict.SOLVED:
        return problem.n_adversaries
    core = proven_core(problem, rng, limits)
    return None if core is None else core.needed
