"""A better plan in the place of the one in force, where it is worth the moves.

Only showings that the plan still intends can move: what was shown, is in flight or was
answered stays, and so does the account of every pair that the new plan keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dispatcher.stages.planning.backlog import Flags, Ints
from dispatcher.stages.planning.translation import Translation
from dispatcher.stages.planning.workforce import Workforce
from dispatcher.store.planning import LeftRow
from policies.model.problem import Pairs, Plan, Problem
from policies.model.weights import Weights
from policies.planning.improving import improve
from policies.planning.solving import after
from policies.solvers import Limits, Solution
from policies.solvers.interfaces import answer


@dataclass(frozen=True, eq=False)
class Revision:
    """A better plan, and how it differs from the plan in force.

    Attributes
    ----------
    made : Translation
        Of all that may move. Rooms of accounts are without what they keep.
    solution : Solution
        The better plan of it.
    added : Plan
        Its pairs that are new.
    removed : Mapping of int to int64 array
        Entries that accounts lose, by account.
    gain : float
        By what share it is worth more.
    """

    made: Translation
    solution: Solution
    added: Plan
    removed: Mapping[int, Ints]
    gain: float


def revise(
    made: Translation, left: Sequence[LeftRow], seed: int, limits: Limits
) -> Revision | None:
    """Search for a better plan, from the one in force on.

    Parameters
    ----------
    made : Translation
        Of the backlog, as if nothing was planned.
    left : sequence of LeftRow
        What the plan in force still intends.
    seed : int
    limits : Limits

    Returns
    -------
    Revision or None
        None where nothing better was found, or the plan in force keeps not all limits.
    """
    entry, holder, account = _planned(made, left)
    free = _movable(made, entry, holder)
    moving = free[entry]
    start = Plan(entry[moving], holder[moving])
    there = ~moving & (holder >= 0)
    problem = replace(
        after(made.problem, Pairs(entry[there], holder[there])),
        lo=np.where(free, made.problem.lo, 0),
        hi=np.where(free, made.problem.hi, 0),
    )
    made = replace(made, problem=problem, loose=None)
    before = answer(problem, start)
    if before.judged is None or before.value <= 0:
        return None
    weights = _favouring(problem, start)
    better = improve(
        replace(made, problem=replace(problem, weights=weights)), before, seed, limits
    )
    found = improve(made, answer(problem, better.plan), seed, limits, search=False)
    new = ~found.plan.within(start)
    if found.value <= before.value or not new.any():
        return None
    k = problem.n_adversaries
    kept = np.isin(entry * k + holder, found.plan.entry * k + found.plan.adversary)
    kept |= ~moving
    stays = Counter(account[kept].tolist())
    lost = made.backlog.entry[entry[~kept]]
    return Revision(
        replace(made, workforce=_with_rooms(made, stays)),
        found,
        Plan(found.plan.entry[new], found.plan.adversary[new]),
        {a: lost[account[~kept] == a] for a in set(account[~kept].tolist())},
        float((found.value - before.value) / before.value),
    )


MOST_WEIGHTS: Final = 4_000_000
"""Weights, of adversaries and kinds of entries, that are told apart by who has what."""


def _favouring(problem: Problem, plan: Plan) -> Weights:
    """Return weights by which a pair of the plan is worth one step of utility more.

    Else pairs that are worth the same would move for nothing.
    """
    weights, start = problem.weights, plan.start(problem.n_entries)
    holders = np.split(plan.adversary, start[1:-1])
    numbers: dict[tuple[int, bytes], int] = {}
    kind = np.array(
        [
            numbers.setdefault((one, who.tobytes()), len(numbers))
            for one, who in zip(weights.kind.tolist(), holders, strict=True)
        ],
        np.int64,
    )
    if len(numbers) * problem.n_adversaries > MOST_WEIGHTS:
        return weights
    factor = weights.factor[:, [one for one, _ in numbers]].copy()
    for column, (_, who) in enumerate(numbers):
        factor[np.frombuffer(who, np.int64), column] += 1
    return replace(weights, kind=kind, factor=factor)


def _planned(made: Translation, left: Sequence[LeftRow]) -> tuple[Ints, Ints, Ints]:
    """Return what is planned: entry and adversary as indices (-1: not there), account."""
    ids, people = made.backlog.entry, made.workforce.ids
    parts = [np.frombuffer(row.entries, "<i8") for row in left]
    size = [len(part) for part in parts]
    entry_id = np.concatenate([np.empty(0, np.int64), *parts])
    index = {number: i for i, number in enumerate(people)}
    of_row = np.array([index.get(row.adversary_id, -1) for row in left], np.int64)
    holder = np.repeat(of_row, size)
    account = np.repeat(np.array([row.account_id for row in left], np.int64), size)
    entry = np.minimum(np.searchsorted(ids, entry_id), max(len(ids) - 1, 0))
    known = np.isin(entry_id, ids)
    return entry[known], holder[known], account[known]


def _movable(made: Translation, entry: Ints, holder: Ints) -> Flags:
    """Mask of the entries all of whose copies are planned, for who is there."""
    n, problem = len(made.backlog), made.problem
    planned = np.bincount(entry, minlength=n)
    absent = np.bincount(entry[holder < 0], minlength=n) > 0
    mine = Pairs(entry[holder >= 0], holder[holder >= 0])
    void = np.bincount(mine.entry[mine.within(problem.forbidden)], minlength=n) > 0
    return np.asarray((problem.lo > 0) & (planned == problem.lo) & ~absent & ~void)


def _with_rooms(made: Translation, stays: Counter[int]) -> Workforce:
    """Return the workforce with the room that is left beside what stays."""
    people = made.workforce
    rooms = tuple(
        tuple(
            None if room is None else max(0, room - stays[one.id])
            for one, room in zip(accounts, each, strict=True)
        )
        for accounts, each in zip(people.accounts, people.rooms, strict=True)
    )
    return replace(people, rooms=rooms)
