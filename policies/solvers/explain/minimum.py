"""Why a component has no plan, and how many adversaries would do.

Counting first (:mod:`policies.solvers.bounds.counting`): it proves most cases at once. Then the
true minimum: the component is solved with more and more fresh adversaries, from the
counting bound up, until a plan exists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from policies.model.disclosure import share
from policies.model.objective import Objective
from policies.model.problem import Goal, Problem
from policies.model.sets import NO_CAP, Ints, Measure
from policies.model.weights import Weights
from policies.solvers.bounds.counting import clash, needs, singles
from policies.solvers.exact.cpsat import CpSat, search
from policies.solvers.interfaces import Cause, Clash, Core, Limits, Solution, Verdict
from policies.solvers.search.greedyl import Greedyl

_TOLD = 6  # clashes that one core tells
_TESTS = 64  # numbers of adversaries that are tried one by one
_WIDEST = 10_000  # adversaries to imagine; beyond, the bounds must do
_FILTERED = 60  # sets up to which a core is made minimal


def feasible(problem: Problem, rng: np.random.Generator, limits: Limits) -> Solution:
    """Find any plan: greedy first, exact search where that fails.

    Returns
    -------
    Solution
        SOLVED, INFEASIBLE (proven), or UNKNOWN.
    """
    plain = _plain(problem)
    quick = Greedyl()(plain, rng, limits)
    if quick.verdict is Verdict.SOLVED or not CpSat().supports(plain):
        return quick
    exact = search(plain, rng, limits, utility=False)
    return replace(exact, tried=quick.tried + exact.tried)


def _plain(problem: Problem) -> Problem:
    """Return the question without utility: just the copies that are owed."""
    n, k = problem.n_entries, problem.n_adversaries
    return replace(
        problem,
        hi=problem.lo,
        weights=Weights.flat(n, k),
        goal=Goal(Objective.DISC_BUDGET, aggregate=problem.goal.aggregate),
    )


def reasons(problem: Problem) -> list[Clash]:
    """Counting proofs that the adversaries are too few, most demanding first."""
    found = list(singles(problem))
    need = needs(problem)
    over = np.flatnonzero(need > problem.n_adversaries)
    seen: set[tuple[object, ...]] = set()
    for one in over[np.argsort(-need[over], kind="stable")].tolist():
        told = clash(problem, one, int(need[one]))
        key = (told.properties, told.cause, told.needed)
        if key not in seen:  # one example of each is enough
            seen.add(key)
            found.append(told)
    found.sort(key=lambda c: -(float("inf") if c.needed is None else c.needed))
    return found


def explain(
    problem: Problem, rng: np.random.Generator, limits: Limits, *, proven: bool
) -> Core | None:
    """Name what clashes in one component and how many adversaries would do.

    Parameters
    ----------
    problem : Problem
        The component alone, without capacities.
    proven : bool
        Whether a search already proved that there is no plan.

    Returns
    -------
    Core or None
        None if the component was not proven infeasible.
    """
    clashes = reasons(problem)
    if not clashes and not proven:
        return None
    if not clashes:
        clashes = [_searched(problem, rng, limits)]
    needed, exact = _needed(problem, clashes, rng, limits)
    return Core(
        entries=tuple(range(problem.n_entries)),
        clashes=tuple(clashes[:_TOLD]),
        needed=needed,
        exact=exact,
        available=problem.n_adversaries,
    )


def _needed(
    problem: Problem, clashes: list[Clash], rng: np.random.Generator, limits: Limits
) -> tuple[int | None, bool]:
    """Adversaries that would do, and whether one fewer is proven not to."""
    if any(c.cause is Cause.ALONE for c in clashes):
        return None, True
    k = problem.n_adversaries
    low = max(
        k + 1, *(c.needed or 0 for c in clashes), int(needs(problem).max(initial=0))
    )
    high = k + int(problem.lo.sum())  # every copy to an adversary of its own
    if low - k > _WIDEST:
        return high, False
    over, exact = limits.deadline(), True
    for number in range(low, min(high, low + _TESTS)):
        if over():
            return high, False
        answer = feasible(widened(problem, number), rng, limits)
        if answer.verdict is Verdict.SOLVED:
            return number, exact
        exact = exact and answer.verdict is Verdict.INFEASIBLE
    return high, exact and high <= low


def widened(problem: Problem, number: int) -> Problem:
    """Return the problem with fresh adversaries added, so that there are ``number``.

    Whether a plan exists does not depend on weights; fine ones, times more adversaries,
    would leave the range of integers. So all weigh one.
    """
    more = number - problem.n_adversaries
    trusted = problem.trusted
    if trusted is not None:
        fresh = np.zeros((trusted.shape[0], more), np.bool_)
        trusted = np.hstack([trusted, fresh])
    capacity: Ints | None = problem.capacity
    if capacity is not None:
        capacity = np.concatenate([capacity, np.full(more, NO_CAP)])
    return replace(
        problem,
        weights=Weights.flat(problem.n_entries, number),
        capacity=capacity,
        trusted=trusted,
    )


def _searched(problem: Problem, rng: np.random.Generator, limits: Limits) -> Clash:
    """Sets that clash together: none can be left out (deletion filter)."""
    kept = np.arange(problem.sets.n_sets)
    over = limits.deadline()
    small = len(kept) <= _FILTERED and CpSat().supports(problem)
    for one in kept.tolist() if small else []:
        if over():
            break
        rest = kept[kept != one]
        part = problem.select(np.arange(problem.n_entries), rest)
        answer = search(_plain(part), rng, limits.part(0.1), utility=False)
        if answer.verdict is Verdict.INFEASIBLE:
            kept = rest
    rows = np.isin(problem.sets.member_set, kept)
    entries = np.unique(problem.sets.entry[rows])
    entries = entries[problem.lo[entries] > 0]
    return Clash(
        Cause.SEARCH,
        sets=tuple(int(s) for s in kept),
        properties=tuple(int(p) for p in np.unique(problem.sets.owner[kept])),
        entries=tuple(int(d) for d in entries),
        answers=int(problem.lo[entries].sum()),
    )


@dataclass(frozen=True)
class Remedy:
    """A change of the policy that fewer adversaries would do for.

    Attributes
    ----------
    kind : str
        ``answers``: one answer fewer for the entries that want most. ``limit``: let one
        adversary see one entry more of the property's sets.
    property : int
    entries : tuple of int
        ``answers``: whose answers.
    answers : int
        ``answers``: how many would be wanted.
    above : Fraction
        ``limit``: tau would have to be above this.
    needed : int
        Adversaries that would do then.
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
    """What else would help but more adversaries.

    Parameters
    ----------
    problem : Problem
        The one that the core is about.
    core : Core
        Its first clash is looked at.

    Returns
    -------
    tuple of Remedy
        Only those that need fewer adversaries than the core does.
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
    """One answer fewer for the clash's entries that want most."""
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
    """Room for one more entry in all sets of the clash's property."""
    sets = alone.sets
    rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
    steps = sets.amount[rows][sets.amount[rows] > 0]
    owner, cap, full = int(sets.owner[one]), int(sets.cap[one]), int(sets.full[one])
    measure = sets.measures[owner]
    if sets.classes[one] or not len(steps) or measure is Measure.STEP:
        return None
    raised = (cap // int(steps.min()) + 1) * int(steps.min())
    if raised >= full:
        return None
    caps = np.where(sets.owner == owner, np.maximum(sets.cap, raised), sets.cap)
    needed = enough(replace(alone, sets=replace(sets, cap=caps)), rng, limits)
    if needed is None:
        return None
    above = share(measure, raised, full)
    return Remedy("limit", 0, (), 0, above, needed)


def enough(problem: Problem, rng: np.random.Generator, limits: Limits) -> int | None:
    """Adversaries that would do for this component, those there are if they do."""
    if feasible(problem, rng, limits).verdict is Verdict.SOLVED:
        return problem.n_adversaries
    core = explain(problem, rng, limits, proven=True)
    return None if core is None else core.needed
