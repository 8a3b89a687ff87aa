"""A Problem as flat arrays that numba can read.

The floats here guide searches; a plan counts only once the judge has recomputed it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.model.coalitions import sights
from policies.model.disclosure import alone
from policies.model.objective import Objective
from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import Bools, Ints

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tables:
    """Arrays of one problem; n entries, k adversaries, h observers, m sets.

    Attributes
    ----------
    worth : float64 array, shape (n, k)
        Contribution of each pair to u (norm included).
    able : bool array, shape (n, k)
        Pairs that could be planned: wanted, not forbidden, not past a cap alone.
    held : bool array, shape (n, k)
        History: counts for disclosure, not for u or room.
    lo, hi : int64 array, shape (n,)
    room : int64 array, shape (k,)
    start : int64 array, shape (m + 1,)
        Members of set s: rows ``start[s]:start[s + 1]`` of ``entry``, ``amount``.
    entry : int64 array, shape (members,)
    amount : int64 array, shape (members,)
        Weight, or number of the class where ``classes[s]``.
    cap, full : int64 array, shape (m,)
        Hard limit load <= cap, and the load of f = 1.
    power : int64 array, shape (m,)
        Of the :class:`~policies.model.measures.Measure` of each set: 0 for a step.
    classes : bool array, shape (m,)
    set_of : int64 array, shape (members,)
    entry_start, entry_row : int64 array
        Member rows of entry d: ``entry_row[entry_start[d]:entry_start[d + 1]]``.
    seen_start, seen : int64 array
        Observers that see what adversary a is given, a itself first:
        ``seen[seen_start[a]:seen_start[a + 1]]``. Observers >= k are coalitions.
    judged : bool array, shape (m, h)
        False where all members of the observer are trusted with the set's property.
    tradeoff, average : bool
    lambda_, tau : float
    over : int
        Divisor of an observer's sum of f over sets, for the mean.
    """

    worth: Floats
    able: Bools
    held: Bools
    lo: Ints
    hi: Ints
    room: Ints
    start: Ints
    entry: Ints
    amount: Ints
    cap: Ints
    full: Ints
    power: Ints
    classes: Bools
    set_of: Ints
    entry_start: Ints
    entry_row: Ints
    seen_start: Ints
    seen: Ints
    judged: Bools
    tradeoff: bool
    average: bool
    lambda_: float
    tau: float
    over: int

    @property
    def n_observers(self) -> int:
        """Adversaries and coalitions."""
        return int(self.judged.shape[1])


def tables(problem: Problem) -> Tables:
    """Return the arrays of a problem, in O(n k + m h + members) memory."""
    sets, k, goal = problem.sets, problem.n_adversaries, problem.goal
    entry_start, entry_row = sets.by_entry()
    adversary, observer = sights(problem.groups, k)
    judged = problem.judged()
    if judged is None:
        observers = k + len(problem.groups)
        judged = np.ones((len(sets.properties), observers), np.bool_)
    return Tables(
        worth=_worth(problem),
        able=able(problem),
        held=grid_of(problem, problem.history),
        lo=problem.lo,
        hi=problem.hi,
        room=problem.room(),
        start=sets.start,
        entry=sets.entry,
        amount=sets.amount,
        cap=sets.cap,
        full=sets.full,
        power=sets.power,
        classes=sets.classes,
        set_of=sets.member_set,
        entry_start=entry_start,
        entry_row=entry_row,
        seen_start=np.searchsorted(adversary, np.arange(k + 1)).astype(np.int64),
        seen=observer.astype(np.int64),
        judged=judged[sets.owner],
        tradeoff=goal.objective is Objective.TRADEOFF,
        average=goal.average,
        lambda_=float(goal.lambda_),
        tau=float(goal.tau),
        over=goal.over or max(1, sets.n_sets),
    )


def _worth(problem: Problem) -> Floats:
    weights = problem.weights
    table = weights.base[:, None] * weights.factor.T[weights.kind]
    return np.asarray(table * float(weights.unit))


def able(problem: Problem) -> Bools:
    """Which pairs could be planned, shape (n, k): see :class:`Tables`."""
    sets, k = problem.sets, problem.n_adversaries
    may = np.repeat((problem.hi > 0)[:, None], k, axis=1)
    may[problem.forbidden.entry, problem.forbidden.adversary] = False
    rows = np.flatnonzero(alone(sets))
    if problem.trusted is None:
        may[sets.entry[rows]] = False
        return may
    barred = ~problem.trusted[sets.owner[sets.member_set[rows]]]
    for d, line in zip(sets.entry[rows].tolist(), barred, strict=True):
        may[d] &= ~line
    return may


def grid_of(problem: Problem, pairs: Pairs) -> Bools:
    """Return pairs as a table, shape (n, k)."""
    table = np.zeros((problem.n_entries, problem.n_adversaries), np.bool_)
    table[pairs.entry, pairs.adversary] = True
    return table


def plan_of(table: Bools) -> Plan:
    """Return the plan of a table of chosen pairs, shape (n, k)."""
    entry, adversary = np.nonzero(table)
    return Plan(entry.astype(np.int64), adversary.astype(np.int64))
