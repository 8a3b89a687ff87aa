"""Counting bounds: the least number of adversaries, before any search.

Each is a proof by pigeonhole: answers of one entry go to different adversaries, and an
adversary may hold only so much of a set. With c_s the cap of set s, w_d the weight of
entry d and n_d its answers, s needs at least max(n_d, ceil(sum of n_d / m_s), ceil(sum
of n_d w_d / c_s)) adversaries, m_s being how many of its lightest members fit. Trusted
adversaries are counted apart: each may hold a whole set, so they are subtracted from
the answers first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.model.disclosure import alone
from policies.model.problem import Problem
from policies.model.sets import Bools, Ints
from policies.solvers.interfaces import Cause, Clash


def trust_count(problem: Problem) -> Ints:
    """Count the adversaries trusted with each property, shape (properties,)."""
    if problem.trusted is None:
        return np.zeros(len(problem.sets.properties), np.int64)
    counts: Ints = np.sum(problem.trusted, axis=1, dtype=np.int64)
    return counts


def needs(problem: Problem) -> Ints:
    """Return the least number of adversaries that each set needs, shape (sets,).

    The sum of answers divided by what one adversary may be given, rounded up; for
    classes, the entry with most answers represents its class. Members that cross the
    cap alone are left to :func:`policies.model.disclosure.alone`.
    """
    sets = problem.sets
    one = sets.member_set
    trusted = trust_count(problem)[sets.owner] if sets.n_sets else sets.owner
    lo = np.maximum(problem.lo[sets.entry] - trusted[one], 0)
    lo = np.where(alone(problem.sets), 0, lo)
    classed = sets.classes[one]
    lo = np.where(classed, _peaks(one, sets.amount, lo, classed), lo)
    weight = np.where(classed, 1, sets.amount)
    lo = np.where(weight > 0, lo, 0)
    per = _most(one, weight, lo, sets.cap, sets.n_sets)
    count = np.zeros(sets.n_sets, np.int64)
    np.add.at(count, one, lo)
    mass = np.zeros(sets.n_sets, np.int64)
    np.add.at(mass, one, lo * weight)
    cap = np.maximum(sets.cap, 1)
    least = np.maximum(-(-count // np.maximum(per, 1)), -(-mass // cap))
    single = np.zeros(sets.n_sets, np.int64)
    np.maximum.at(single, one, lo)
    return np.where(count > 0, np.maximum(least, single) + trusted, 0)


def _peaks(one: Ints, number: Ints, lo: Ints, classed: Bools) -> Ints:
    """Return the most answers of an entry in each (set, class), at one row; else 0."""
    out = np.zeros(len(one), np.int64)
    rows = np.flatnonzero(classed)
    if not len(rows):
        return out
    order = rows[np.lexsort((-lo[rows], number[rows], one[rows]))]
    same = (one[order][1:] == one[order][:-1]) & (
        number[order][1:] == number[order][:-1]
    )
    first = order[np.concatenate([[True], ~same])]
    out[first] = lo[first]
    return out


def _most(one: Ints, weight: Ints, lo: Ints, cap: Ints, m: int) -> Ints:
    """Return how many members of each set that need copies fit under the cap together."""
    rows = np.flatnonzero((lo > 0) & (weight > 0))
    order = rows[np.lexsort((weight[rows], one[rows]))]
    owner = one[order]
    total = np.cumsum(weight[order])
    before = np.concatenate([[0], total])[np.searchsorted(owner, owner)]
    fits = total - before <= cap[owner]
    return np.bincount(owner[fits], minlength=m).astype(np.int64)


def clash(problem: Problem, one: int, needed: int) -> Clash:
    """Return the clash that ``needs`` found for one set."""
    sets = problem.sets
    rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
    entry = sets.entry[rows]
    wanted = problem.lo[entry] > 0
    classed = bool(sets.classes[one])
    if classed:
        number = sets.amount[rows]
        answers = sum(
            int(problem.lo[entry[number == c]].max(initial=0))
            for c in np.unique(number)
        )
        per = int(sets.cap[one])
    else:
        answers = int(problem.lo[entry].sum())
        weight = np.sort(sets.amount[rows][wanted])
        per = int(np.sum(np.cumsum(weight) <= int(sets.cap[one])))
    return Clash(
        cause=Cause.CLASSES if classed else Cause.SET,
        sets=(one,),
        properties=(int(sets.owner[one]),),
        entries=tuple(int(d) for d in entry[wanted]),
        answers=answers,
        per_adversary=per,
        needed=needed,
    )


def singles(problem: Problem) -> Iterator[Clash]:
    """Yield entries that no further adversary would help, or that too few may see.

    Yields
    ------
    Clash
        ALONE: the entry crosses a set by itself for all but trusted adversaries, and
        those are too few. COPIES: more answers than adversaries.
    """
    sets, k = problem.sets, problem.n_adversaries
    trusted = trust_count(problem)
    rows = np.flatnonzero(alone(problem.sets))
    owner = sets.owner[sets.member_set[rows]]
    wanted = problem.lo[sets.entry[rows]]
    for row in rows[wanted > trusted[owner]].tolist():
        one = int(np.searchsorted(sets.start, row, side="right")) - 1
        d = int(sets.entry[row])
        yield Clash(
            Cause.ALONE,
            sets=(one,),
            properties=(int(sets.owner[one]),),
            entries=(d,),
            answers=int(problem.lo[d]),
        )
    barred = np.bincount(problem.forbidden.entry, minlength=problem.n_entries)
    for d in np.flatnonzero(problem.lo > k - barred).tolist():
        yield Clash(
            Cause.COPIES,
            entries=(d,),
            answers=int(problem.lo[d]),
            per_adversary=1,
            needed=int(problem.lo[d] + barred[d]),
        )


def capacity(problem: Problem) -> Clash | None:
    """Return the clash if all capacities together are below the answers needed."""
    if problem.capacity is None:
        return None
    wanted, room = int(problem.lo.sum()), int(problem.room().sum())
    if wanted <= room:
        return None
    return Clash(Cause.CAPACITY, answers=wanted, per_adversary=room)
