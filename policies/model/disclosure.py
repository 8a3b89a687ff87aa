"""Disclosure f_a(p) of sensitive sets (paper, section 4), by the powers of measures.

Loads, caps and f are computed with integers and fractions only: nothing is rounded. For
searches and bounds over many sets at once, :func:`raise_parts` and :func:`reached_at`
are f and its inverse in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from policies.model.measures import Measure
from policies.model.problem import Pairs
from policies.model.sets import NO_CAP, Bools, Floats, Ints, SetSystem

_ROWS = 400_000  # member rows of one piece; bounds memory


@dataclass(frozen=True, eq=False)
class Loads:
    """Loads of adversaries on sets; rows with no member held are left out.

    Attributes
    ----------
    set, adversary, load : int64 array, shape (rows,)
    count : int64 array, shape (rows,)
        Members held.
    fresh : bool array, shape (rows,)
        Whether one of the newly planned pairs touches this set.
    """

    set: Ints
    adversary: Ints
    load: Ints
    count: Ints
    fresh: Bools


def raise_parts(part: Floats, power: Ints) -> Floats:
    """Replace loads, as parts of ``full``, by f in place, and return them.

    Parameters
    ----------
    part : float64 array, shape (m, h)
        0 to 1.
    power : int64 array, shape (m,)
        Of the measure of each row.
    """
    for each in np.unique(power).tolist():
        rows = power == each
        if each == 0:
            part[rows] = np.floor(part[rows])
        elif each > 1:
            part[rows] **= each
    return part


def reached_at(f: Floats, power: Ints) -> Floats:
    """Return the loads, as parts of ``full``, at which f is reached, shape (m, levels).

    Parameters
    ----------
    f : float64 array, shape (levels,)
        0 to 1.
    power : int64 array, shape (m,)
        Of the measure of each row; a step reaches all at 1.
    """
    part = np.empty((len(power), len(f)))
    for each in np.unique(power).tolist():
        part[power == each] = f ** (1 / each) if each else 1.0
    return part


def cap_below(measure: Measure, full: int, tau: Fraction) -> int:
    """Return the highest load with f < tau, or -1 if no load has f < tau.

    Parameters
    ----------
    measure : Measure
    full : int
        Load from which f is 1, >= 1.
    tau : Fraction
        Above 1 there is no limit: ``NO_CAP``.

    Examples
    --------
    >>> cap_below(Measure.LINEAR, 4, Fraction(3, 5))
    2
    """
    if tau <= 0:
        return -1
    if tau > 1:
        return NO_CAP
    if tau == 1:
        return full - 1
    return highest_load(measure, full, (0, full - 1), lambda f: f < tau)


def cap_at(measure: Measure, full: int, level: Fraction) -> int:
    """Return the highest load with f <= level; ``NO_CAP`` if every load has.

    Examples
    --------
    >>> cap_at(Measure.LINEAR, 4, Fraction(3, 4))
    3
    """
    if level >= 1:
        return NO_CAP
    return highest_load(measure, full, (0, full - 1), lambda f: f <= level)


def highest_load(
    measure: Measure,
    full: int,
    span: tuple[int, int],
    kept: Callable[[Fraction], bool],
) -> int:
    """Return the highest load in a span whose f is kept, by bisection.

    Parameters
    ----------
    measure : Measure
    full : int
        Load from which f is 1.
    span : (int, int)
        The lowest load, which is assumed to be kept, and the highest.
    kept : callable
        Predicate of f, which grows with the load: True up to some load, False above.
    """
    low, high = span
    while low < high:
        middle = (low + high + 1) // 2
        if kept(measure.disclosure(middle, full)):
            low = middle
        else:
            high = middle - 1
    return low


def loads(sets: SetSystem, plan: Pairs, history: Pairs) -> Iterator[Loads]:
    """Compute from scratch the load of every adversary on every set.

    Parameters
    ----------
    sets : SetSystem
    plan, history : Pairs
        What the plan assigns and what was assigned before; a pair in both counts once.

    Yields
    ------
    Loads
        Pieces in order of set; each set lies in one piece. Empty pieces are left out.
    """
    held = plan.union(history) if len(history) else plan
    first = held.start(sets.n_entries)
    fresh = held.within(plan) if len(history) else np.ones(len(held), np.bool_)
    holders = np.diff(first)[sets.entry]
    done = np.concatenate([[0], np.cumsum(holders)])[sets.start]
    one = 0
    while one < sets.n_sets:
        stop = int(np.searchsorted(done, done[one] + _ROWS, side="right")) - 1
        stop = min(max(stop, one + 1), sets.n_sets)
        piece = _piece(sets, held, first, fresh, one, stop)
        if len(piece.set):
            yield piece
        one = stop


def _piece(
    sets: SetSystem, held: Pairs, first: Ints, fresh: Bools, one: int, stop: int
) -> Loads:
    """Return the loads on the sets ``one`` to ``stop - 1``."""
    rows = slice(int(sets.start[one]), int(sets.start[stop]))
    entry, amount = sets.entry[rows], sets.amount[rows]
    owner = np.repeat(np.arange(one, stop), np.diff(sets.start[one : stop + 1]))
    count = first[entry + 1] - first[entry]
    member = np.repeat(np.arange(len(entry)), count)
    offset = np.repeat(first[entry] - np.cumsum(count) + count, count)
    pair = offset + np.arange(len(member))
    width = int(held.adversary.max(initial=0)) + 1
    key = owner[member] * width + held.adversary[pair]
    load, new = amount[member], fresh[pair]
    classed = sets.classes[owner[member]]
    if classed.any():
        load = load.copy()
        load[classed] = _first_of_class(key[classed], load[classed])
    order = np.argsort(key, kind="stable")
    key = key[order]
    if not len(key):
        empty = np.empty(0, np.int64)
        return Loads(empty, empty, empty, empty, np.empty(0, np.bool_))
    edge = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return Loads(
        set=key[edge] // width,
        adversary=key[edge] % width,
        load=np.add.reduceat(load[order], edge),
        count=np.diff(edge, append=len(key)),
        fresh=np.logical_or.reduceat(new[order], edge),
    )


def _first_of_class(key: Ints, number: Ints) -> Ints:
    """Return 1 for the first row of each (key, class), 0 for the others."""
    order = np.lexsort((number, key))
    ranked, classes = key[order], number[order]
    same = (ranked[1:] == ranked[:-1]) & (classes[1:] == classes[:-1])
    first = np.ones(len(key), np.int64)
    first[1:][same] = 0
    out = np.empty(len(key), np.int64)
    out[order] = first
    return out


def alone(sets: SetSystem) -> Bools:
    """Mask of member rows whose entry alone exceeds the set's cap, shape (members,)."""
    one = sets.member_set
    load = np.where(sets.classes[one], 1, sets.amount)
    return np.asarray(load > sets.cap[one])


def reachable(sets: SetSystem) -> Bools:
    """Mask of the sets that can disclose anything, shape (sets,).

    They are those with f > 0 when all their entries are held.
    """
    amount = sets.amount.copy()
    top = np.zeros(sets.n_sets, np.int64)
    np.add.at(top, sets.member_set, amount)
    best = np.zeros(sets.n_sets, np.int64)
    np.maximum.at(best, sets.member_set, amount + 1)
    top = np.where(sets.classes, best, top)
    return np.where(sets.power == 0, top >= sets.full, top > 0)
