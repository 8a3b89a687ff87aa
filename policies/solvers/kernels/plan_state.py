"""The plan state of kernels: the arrays of a plan under construction.

The delta evaluation (:mod:`policies.solvers.kernels.moves`) and annealing
(:mod:`policies.solvers.kernels.annealing`) read and change the same arrays.

Axes: n entries, k adversaries, h observers (adversaries, then coalitions), q units
(sensitive sets, then links), c caps on means, m memberships (an entry in a unit). Facts of
one axis that are read together share a table, whose columns are named below.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from policies.model.problem_arrays import Floats
from policies.model.sets import Bools, Ints

# arrays that kernels take: C-contiguous, of 64 bits or truths; the digit counts axes
Bools2 = Bools
Floats2 = Floats
Floats3 = Floats
Ints2 = Ints
Ints3 = Ints

# kinds of units: of a weighted set the power of its measure (0 for a step), which may be
# any; of all others a number below 0, and of links at most that of a cosine
STEP, LINEAR = 0, 1
CLASSES, COSINE, COMMON = -1, -2, -3

# what a pair is valued by: the highest f that it makes; what it adds to its adversary's
# mean; f after the pair, by trying it
BY_WORST, BY_MEAN, BY_TRIAL = range(3)

# what a unit adds to an aggregate of f: nothing (there is none); its weight times f, f to
# the power of ``root``, or 1 above the level ``bar``, for each observer or for any
NO_AGGREGATE, SCALED, POWERED, COUNTING, COUNTING_ONCE = range(5)

# places of ``total``: f; u; (unit, observer) pairs with f = 1; copies missing
F, U, WHOLE, MISSING, _TOTALS = range(5)
TOTALS: Final = _TOTALS

# columns of ``entry``: planned copies; fewest and most; count in links; the first row;
# for which pick it was looked at last
DEGREE, LO, HI, MASS, ROWS, STAMP, _ENTRY = range(7)
ENTRY_COLUMNS: Final = _ENTRY

# columns of ``row``: the unit; what the entry adds to its load; its class or its end of
# the link, in ``part``; the entry at the same place at the other end, or -1
UNIT, AMOUNT, SLOT, MATE = range(4)

# columns of ``unit``: kind; the load of f = 1 (of a cosine: where its ends are in
# ``part``); the highest load allowed; whether it is part of f; the first member; the
# observers who see it above a count's level, where it counts once
KIND, FULL, CAP, COUNTED, MEMBERS, ABOVE, _UNIT = range(7)
UNIT_COLUMNS: Final = _UNIT

# columns of ``member``: the entry, and what it adds to the unit's load
ENTRY, ADDED = range(2)

# columns of ``adversary``: planned pairs, and how many are allowed; the first observer
# in ``seen``; the first adversary in ``near``
GIVEN, ROOM, SEEN, NEAR, _ADVERSARY = range(5)
ADVERSARY_COLUMNS: Final = _ADVERSARY

# columns of ``observer``: f; how many units have it; levels to go back to after a change
# that is undone, and one within it; what a sum of f is divided by for its mean
LEVEL, ATTAIN, KEPT, TRIED, DIVISOR, _OBSERVER = range(6)
OBSERVER_COLUMNS: Final = _OBSERVER

# rows of ``mean``: what caps on means limit, and the limit
SUM, LIMIT = range(2)


class State(NamedTuple):
    """A plan under construction, and the problem.

    Attributes
    ----------
    chosen : bool array, shape (n, k)
        The plan. It changes, and with it ``copies``, ``load``, ``f``, ``part``, ``other``,
        ``total`` and single columns of ``entry``, ``unit``, ``adversary``, ``observer``
        and ``mean``.
    copies : int64 array, shape (n, h)
        How often an observer holds an entry, history included.
    load, f : int64 and float64 array, shape (q, h)
    part : int64 array, shape (slots, h)
        Entries held of a class; the sum of squares at one end of a link.
    other : float64 array, shape (k,)
        The highest level of the observers but the adversary alone.
    total : float64 array, shape (TOTALS,)
    entry, row, unit, member, adversary : int64 arrays
        Tables of n + 1, m, q + 1, m and k + 1 rows; the rows of entry d, by unit, are
        ``entry[d, ROWS]`` to ``entry[d + 1, ROWS]``, and so on.
    observer : float64 array, shape (h, OBSERVER_COLUMNS)
    mean : float64 array, shape (2, c, h)
    weight : float64 array, shape (c + 1, q)
        Weights of units in the caps on means; last, in an aggregate.
    worth : float64 array, shape (n, k)
    able : bool array, shape (n, k)
    judged : bool array, shape (q, h)
        False where all members of the observer are trusted with the unit.
    seen : int64 array, shape (pairs,)
        Observers who see what an adversary is given, itself first.
    mode, aggregate, root : int
        How pairs are valued; how an aggregate is made; the power of a soft maximum.
    average, paper : bool
        Whether f is a mean; whether missing copies are a penalty and nothing else counts
        (the paper's G).
    capped, careful : bool
        Whether limits bar pairs; whether some can only be checked by trying.
    falling, summed : bool
        Whether f can fall when an entry is added (cosine); whether an aggregate adds
        observers up.
    lambda_, tau, bar, ceiling : float
        Weight of f; limit on f of a link; level of a count; highest f allowed.
    """

    chosen: Bools2
    copies: Ints2
    load: Ints2
    f: Floats2
    part: Ints2
    other: Floats
    total: Floats
    entry: Ints2
    row: Ints2
    unit: Ints2
    member: Ints2
    adversary: Ints2
    observer: Floats2
    mean: Floats3
    weight: Floats2
    worth: Floats2
    able: Bools2
    judged: Bools2
    seen: Ints
    mode: int
    aggregate: int
    root: int
    average: bool
    paper: bool
    capped: bool
    careful: bool
    falling: bool
    summed: bool
    lambda_: float
    tau: float
    bar: float
    ceiling: float


class Candidates(NamedTuple):
    """What PickNextBest remembers of all pairs.

    Attributes
    ----------
    open : bool array, shape (n, k)
        Pairs that no limit bars.
    value, whole : float64 array, shape (n, k)
        What each pair would make of f (see the modes), and of ``WHOLE``.
    order : int64 array, shape (2, k, n)
        Entries by weight, heaviest first, for entries that lack no copies and those that
        do: both sweeps of each adversary.
    head : int64 array, shape (2, k)
        Where the sweeps start.
    near : int64 array, shape (pairs,)
        Adversaries who share an observer with each.
    queue : int64 array, shape (n,)
        Room for entries to look at again.
    memo : float64 array, shape (k, width, 4)
        The best pairs (p, q, g, id) of each adversary.
    known : float64 array, shape (k, 3)
        How many of them there are, or -1 where they must be looked for; f, and f of the
        others, when they were found.
    """

    open: Bools2
    value: Floats2
    whole: Floats2
    order: Ints3
    head: Ints2
    near: Ints
    queue: Ints
    memo: Floats3
    known: Floats2
