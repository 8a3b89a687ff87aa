"""What a problem is, as far as the choice of solvers goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from policies.model.aggregates import Shape
from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.model.sets import Measure
from policies.solvers.coloring import small_sets, stuck, tight
from policies.solvers.exact.conflict_graph import pairs_only
from policies.solvers.exact.cpsat import CpSat
from policies.solvers.exact.enumeration import listable
from policies.solvers.exact.epsilon_constraint import stepped, whole
from policies.solvers.exact.highs import Milp, linear
from policies.solvers.interfaces import Limits
from policies.solvers.kernels.compiling import FROM
from policies.solvers.load_tables import plain
from policies.solvers.rounding.socp_rounding import priced
from policies.solvers.search.annealing import annealable, crossable

HEURISTICS: Final = {
    "mean": ("exchange", "socp-rounding", "annealing"),
    "worst": ("annealing",),
    "sealed": (),
    "links": (),
}
"""Solvers that give a start and improve it, by what f is; the first that fits."""

GREEDY: Final = {
    "mean": ("graspl",),
    "worst": ("graspl",),
    "links": ("greedyl", "graspl", "rand-plus", "greedy", "grasp"),
}
"""Solvers that give a start where none of those fits."""

LARGE: Final = 12_000
"""Members x observers from which HiGHS proves no tradeoff over loads."""

PROVEN: Final = 600
"""Pairs up to which HiGHS often proves the best plan within a second."""

MEASURES: Final = (Measure.LINEAR, Measure.QUADRATIC)
"""Of the sets whose tradeoffs have heuristics with bounds of their own."""

_BUILT: Final = 1e-5  # seconds for a member and observer
_PICKING: Final = 0.2  # of the time, for GREEDY at most
_PICKED: Final = 8e-7  # seconds of GREEDY for each pair that it looks at
_LOADED: Final = 0.7  # seconds in which compiled kernels are loaded
_TIMES: Final = 50  # so many times faster they are


@dataclass(frozen=True)
class Features:
    """What the rows of ``auto``'s table ask of a problem and its limits.

    Attributes
    ----------
    pairs : int
        Entries x adversaries.
    size : int
        Members of sets x observers: what kernels and models work on.
    kind : str
        ``mean`` or ``worst`` (f of a tradeoff, or a limited mean), ``sealed`` (limits on
        step sets alone) or ``links`` (relations that count).
    backlog : bool
        Whether there is nothing but what plans of policies have.
    valued : bool
        Whether the utility is no sum over pairs.
    separable : bool
        Whether components of the sets have nothing to do with each other.
    counted : bool
        Whether all limits are on single sets: CP-SAT counts them in whole numbers.
    modelled : bool
        Whether HiGHS's linear model says everything.
    wholes : bool
        Whether a tradeoff is over sets that are disclosed whole or not at all.
    stepped : bool
        Whether a mean of such sets counts, which CP-SAT takes number by number.
    listable : bool
        Whether all plans can be looked at.
    pairs_only : bool
        Whether all sets are pairs that nobody may hold both of.
    cpsat, highs : bool
        Whether the engine takes the problem; HiGHS only where its model is built in time.
    loads : bool
        Whether this is a tradeoff of the worst linear or quadratic load alone.
    heavy : bool
        Whether this is a tradeoff over loads that is too large for HiGHS to prove.
    large : bool
        Whether f counts, and HiGHS proves nothing soon.
    tight : bool
        Whether an entry has few places to go.
    loose : bool
        Whether plans are easy to find.
    crossed : bool
        Whether plans come from crossing limits.
    annealable : bool
        Whether annealing of what observers see takes the problem.
    alone : bool
        Whether no other heuristic fits it.
    quick : bool
        Whether GREEDY takes little of the time.
    seconds : float
        The time limit.
    exact_size : float
        See :class:`policies.solvers.interfaces.Limits`.
    """

    pairs: int
    size: int
    kind: str
    backlog: bool
    valued: bool
    separable: bool
    counted: bool
    modelled: bool
    wholes: bool
    stepped: bool
    listable: bool
    pairs_only: bool
    cpsat: bool
    highs: bool
    loads: bool
    heavy: bool
    large: bool
    tight: bool
    loose: bool
    crossed: bool
    annealable: bool
    alone: bool
    quick: bool
    seconds: float
    exact_size: float

    @classmethod
    def of(cls, problem: Problem, limits: Limits) -> Features:
        """Look at a problem once."""
        observers = problem.n_adversaries + len(problem.groups)
        return cls(
            pairs=problem.n_entries * problem.n_adversaries,
            size=len(problem.sets.entry) * observers,
            kind=shape(problem),
            backlog=not special(problem),
            valued=problem.utilities is not None,
            separable=separable(problem),
            counted=budgeted(problem),
            modelled=modelled(problem),
            wholes=whole(problem),
            stepped=stepped(problem),
            listable=listable(problem),
            pairs_only=pairs_only(problem),
            cpsat=CpSat().supports(problem),
            highs=Milp().supports(problem) and building(problem) < limits.seconds,
            loads=plain(problem, MEASURES, average=False),
            heavy=heavy(problem),
            large=large(problem),
            tight=tight(problem),
            loose=loose(problem),
            crossed=crossed(problem),
            annealable=annealable(problem),
            alone=only_annealing_fits(problem),
            quick=picking(problem) < _PICKING * limits.seconds,
            seconds=limits.seconds,
            exact_size=limits.exact_size,
        )


def special(problem: Problem) -> bool:
    """Whether a problem has what no plan of a policy has: it is taken as a whole."""
    tradeoff = problem.goal.objective is Objective.TRADEOFF
    pooled = bool(problem.coalitions or problem.links or problem.utilities)
    known = problem.goal.worst if tradeoff else problem.aggregate is None
    return pooled or problem.strict_history or not known


def shape(problem: Problem) -> str:
    """What f is: the key of ``HEURISTICS``."""
    if not linear(problem):
        return "links"
    budget = problem.goal.objective is Objective.DISC_BUDGET
    steps = all(m is Measure.STEP for m in problem.sets.measures)
    if budget and steps and not problem.averages:
        return "sealed"
    mean = problem.goal.average if not budget else bool(problem.averages)
    return "mean" if mean else "worst"


def modelled(problem: Problem) -> bool:
    """Whether HiGHS's model says everything: no roots; wholes are worth a closer look."""
    how = problem.aggregate
    if how is None or how.shape is not Shape.SOFT_MAX:
        return not whole(problem)
    return problem.goal.objective is Objective.DISC_BUDGET and not how.summed


def heavy(problem: Problem) -> bool:
    """Whether this is a tradeoff over loads that is too large for HiGHS to prove."""
    size = len(problem.sets.entry) * problem.n_adversaries
    return size >= LARGE and plain(problem, MEASURES, average=problem.goal.average)


def large(problem: Problem) -> bool:
    """Whether f counts, and HiGHS proves nothing soon."""
    pairs = problem.n_entries * problem.n_adversaries
    return pairs >= PROVEN and shape(problem) in ("mean", "worst")


def budgeted(problem: Problem) -> bool:
    """Whether all limits are on single sets, which CP-SAT counts in whole numbers."""
    return not problem.averages and CpSat().supports(problem)


def loose(problem: Problem) -> bool:
    """Whether plans are easy to find: small whole sets, and many places to go."""
    return shape(problem) == "sealed" and small_sets(problem) and not tight(problem)


def only_annealing_fits(problem: Problem) -> bool:
    """Whether annealing of what observers see is all that fits, beside exact models."""
    average = problem.goal.average
    fits = priced(problem) is not None or plain(problem, MEASURES, average=average)
    return annealable(problem) and not fits


def crossed(problem: Problem) -> bool:
    """Whether plans come from crossing limits: of small or easy colourings CP-SAT's."""
    return crossable(problem) and (not tight(problem) or stuck(problem))


def building(problem: Problem) -> float:
    """Seconds, about, in which HiGHS's model of the problem is built."""
    observers = problem.n_adversaries + len(problem.groups)
    return _BUILT * (len(problem.sets.entry) + problem.n_entries) * observers


def picking(problem: Problem) -> float:
    """Seconds, about, that GREEDY takes: after each pair it looks again at all around it."""
    n, sets = problem.n_entries, problem.sets
    observers = problem.n_adversaries + len(problem.groups)
    rows = 1 + len(sets.entry) / max(1, n)
    size = np.diff(sets.start).astype(np.float64)
    near = min(float(size @ size) / max(1, n), n)
    copies = int(np.minimum(problem.hi, problem.n_adversaries).sum())
    seen = observers / max(1, problem.n_adversaries)
    looks = rows * seen * (n * problem.n_adversaries + near * copies)
    if (len(sets.entry) + n) * observers >= FROM:
        return _LOADED + _PICKED * looks / _TIMES
    return _PICKED * looks


def separable(problem: Problem) -> bool:
    """Whether components of the sets have nothing to do with each other."""
    budget = problem.goal.objective is Objective.DISC_BUDGET
    return budget and problem.capacity is None and not problem.averages


def free_plan(problem: Problem) -> Plan:
    """Return the best copies of every entry that are possible one by one."""
    may = able(problem)
    n, k = may.shape
    if not n:
        return Plan()
    weights = problem.weights
    worth = weights.base[:, None] * weights.factor.T[weights.kind]
    order = np.argsort(np.where(may, -worth, 1), axis=1, kind="stable")
    taken = np.arange(k) < np.minimum(problem.hi, may.sum(axis=1))[:, None]
    entry, column = np.nonzero(taken)
    return Plan(entry.astype(np.int64), order[entry, column].astype(np.int64))
