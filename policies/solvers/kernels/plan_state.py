"""The plan state of kernels: the arrays of a plan under construction.

The delta evaluation (:mod:`policies.solvers.kernels.moves`) and annealing
(:mod:`policies.solvers.kernels.annealing`) read and change the same arrays. Backlogs
are planned on a sparse state (:mod:`policies.solvers.search.plan_state`), which says what
each is for.

Axes: n entries, k adversaries, h observers (adversaries, then coalitions), q units
(sensitive sets, then links), c caps on means, m memberships (an entry in a unit).
Values of one axis that are read together share a table, whose columns are named below.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from policies.model.problem_arrays import Floats
from policies.model.sets import Bools, Ints

# arrays for kernels: C-contiguous, of 64-bit numbers or booleans; the digit counts axes
Bools2 = Bools
Floats2 = Floats
Floats3 = Floats
Ints2 = Ints
Ints3 = Ints

# kinds of units: for a weighted set the power of its measure (0 for a step), for all
# others a number below 0, and for links at most that of a cosine
STEP, LINEAR = 0, 1
CLASSES, COSINE, COMMON = -1, -2, -3

# the value of a pair: the highest f that it causes; what it adds to its adversary's mean;
# f after the pair, by trying it
BY_WORST, BY_MEAN, BY_TRIAL = range(3)

# what a unit adds to an aggregate of f: nothing (there is none); its weight times f, times
# f to the power of ``root``, or times 1 above the level ``bar``, for each observer or once
NO_AGGREGATE, SCALED, POWERED, COUNTING, COUNTING_ONCE = range(5)

# indices of ``total``: f; u; (unit, observer) pairs with f = 1; copies missing
F, U, WHOLE, MISSING, _TOTALS = range(5)
TOTALS: Final = _TOTALS

# columns of ``entry``: planned copies; fewest and most; count in links; the first row;
# the pick for which it was last examined
DEGREE, LO, HI, MASS, ROWS, STAMP, _ENTRY = range(7)
ENTRY_COLUMNS: Final = _ENTRY

# columns of ``row``: the unit; what the entry adds to its load; its class or its end of
# the link, in ``part``; the entry at the same place at the other end, or -1
UNIT, AMOUNT, SLOT, MATE = range(4)

# columns of ``unit``: kind; the load of f = 1 (of a cosine: the place of its ends in
# ``part``); the highest load allowed; whether it counts for f; the first member; the
# number of observers who see it above a count's level, where it counts once
KIND, FULL, CAP, COUNTED, MEMBERS, ABOVE, _UNIT = range(7)
UNIT_COLUMNS: Final = _UNIT

# columns of ``member``: the entry, and its contribution to the unit's load
ENTRY, ADDED = range(2)

# columns of ``adversary``: planned pairs, and the capacity; the first observer in
# ``seen``; the first adversary in ``near``
GIVEN, ROOM, SEEN, NEAR, _ADVERSARY = range(5)
ADVERSARY_COLUMNS: Final = _ADVERSARY

# columns of ``observer``: f; how many units have it; levels to restore after undoing a
# change, and one within it; the divisor of a sum of f for its mean
LEVEL, ATTAIN, KEPT, TRIED, DIVISOR, _OBSERVER = range(6)
OBSERVER_COLUMNS: Final = _OBSERVER

# rows of ``mean``: the limited sum, and the limit
SUM, LIMIT = range(2)


class State(NamedTuple):
    """A plan under construction, and the problem.

    Attributes
    ----------
    chosen : bool array, shape (n, k)
        The plan. It changes, and with it ``copies``, ``load``, ``f``, ``part``,
        ``other``, ``total`` and some columns of ``entry``, ``unit``, ``adversary``,
        ``observer`` and ``mean``.
    copies : int64 array, shape (n, h)
        How often an observer holds an entry, history included.
    load, f : int64 and float64 array, shape (q, h)
    part : int64 array, shape (slots, h)
        Entries held of a class; the sum of squares at one end of a link.
    other : float64 array, shape (k,)
        The highest level of all observers but those of the adversary.
    total : float64 array, shape (TOTALS,)
    entry, row, unit, member, adversary : int64 arrays
        Tables of n + 1, m, q + 1, m and k + 1 rows; the rows of entry d, by unit, are
        ``entry[d, ROWS]`` to ``entry[d + 1, ROWS]``, and so on.
    observer : float64 array, shape (h, OBSERVER_COLUMNS)
    mean : float64 array, shape (2, c, h)
    weight : float64 array, shape (c + 1, q)
        Weights of units in the caps on means; in the last row, in an aggregate.
    worth : float64 array, shape (n, k)
    able : bool array, shape (n, k)
    judged : bool array, shape (q, h)
        False where all members of the observer are trusted with the unit.
    seen : int64 array, shape (pairs,)
        Observers who see what an adversary is given, itself first.
    mode, aggregate, root : int
        How pairs are valued; the kind of aggregate; the power of a soft maximum.
    average, paper : bool
        Whether f is a mean; whether missing copies are a penalty and nothing else is
        enforced (the paper's G).
    capped, careful : bool
        Whether limits bar pairs; whether some can only be checked by trying.
    falling, summed : bool
        Whether adding an entry can lower f (cosine); whether an aggregate sums over
        observers.
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
    """PickNextBest's memory of all pairs.

    Attributes
    ----------
    open : bool array, shape (n, k)
        Pairs that no limit bars.
    value, whole : float64 array, shape (n, k)
        f that each pair would give (see the modes), and ``WHOLE``.
    order : int64 array, shape (2, k, n)
        Entries by weight, heaviest first, for entries that lack no copies and those that
        do: both sweeps of each adversary.
    head : int64 array, shape (2, k)
        Where the sweeps start.
    near : int64 array, shape (pairs,)
        Adversaries who share an observer with each.
    queue : int64 array, shape (n,)
        Scratch for entries to examine again.
    memo : float64 array, shape (k, width, 4)
        The best pairs (p, q, g, id) of each adversary.
    known : float64 array, shape (k, 3)
        Number of those, or -1 if they must be searched for; f, and f of the others,
        when they were found.
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
