"""Small sets and few adversaries as colourings, and how constrained they are.

One measure serves three decisions: whether a relaxation pays for CP-SAT, whether
penalty annealing fits, and which of the two ``auto`` starts with and which proves.

The thresholds lie between the families of sparse limits (``python -m
benchmarks.families sparse``; docs/targets.md) that end in a proof and those that do
not. Strain, strain times entries, and the result within 10 s (entries, sets, k; t = 1):

- 100, 200, 2: .61, 61, proven in .2 s; 100, 260, 2: .77, 77, proven in .2 s by
  propagation; 200, 400, 2: .83, 166, proven in 1.2 s by propagation; 100, 300, 3: .72,
  72, proven in 1.2 s;
- 500, 1000, 2: .61, 304, a gap of 3 %; 200, 400, 3, pairs alone: .74, 148, a gap of 4.1 %.
"""

from __future__ import annotations

from math import comb, log
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Problem

# How the numbers below were measured: auto, one core, CPU seconds, half and twice of each; sparse
# problems of benchmarks/families.py (entries, sets, k, t), seed 0 where none is named.
# - RULED: half changes nothing. With twice 100, 260, 2, 1 takes more than 1 s instead of .23 and
#   200, 400, 2, 1 more than 3 s instead of 2.0; 100, 200, 2, 1 and 100, 300, 3, 1 do not differ.
# - GRAPH, 3 to 4 s, seeds 0 to 2, pairs alone: 175, 350; 200, 400; 250, 500 and 280, 560 of k = 3
#   (strain .74) have bounds of .97 to .995 with propagation alone and .77 to .84 with a relaxation,
#   one is proven; values differ by -1.7 to 5 %. 150, 300 is proven in 1.92, .82 and 1.32 s, and in
#   1.31, .81 and not in 2.9; 200, 440 (strain .81) in 1.2 s, and in 1.2 to 1.7.
# - MANY: 200, 400, 2, 1 in 1 s does not differ; 200, 400, 3, 1 has .7597 of .994, with half .7692
#   of .773 (it is not RULED then).
# - STRAINED, 1.5 s: 500, 1000, 2, 1 has .8711 to .9019 of .9363 (three runs), with half .9008,
#   twice .8711; 400, 1100, 3, 1 has .7784 of .852, with half .7784, with twice .7595.
# - OPEN, 1.5 s: 500, 1000, 2, 1 with half .9130, with twice .8711; 320, 640, 3, 1 does not differ.
# - PAIRED, 1.5 s: 500, 900, 3, 1 and 400, 800, 3, 1 do not differ.
# - FEW, SMALL and _LARGE: 100, 300, 3, 1, 200, 500, 5, 1, 200, 400, 2, 1, 500, 1000, 2, 1 and
#   step 500, 50, 2, 1 and 2, 2 end in the same plans in the same time.
FEW: Final = 3
"""Adversaries, at most; with more, plans within limits are near each other."""

SMALL: Final = 12
"""Mean entries of a set up to which few entries decide about it."""

MANY: Final = 300
"""Entries up to which a complete search may finish, however constrained."""

STRAINED: Final = 0.55
"""Strain up to which it may finish for more entries, guided by a relaxation."""

PAIRED: Final = 0.68
"""The same where most sets are pairs: a relaxation helps more in graphs."""

OPEN: Final = 230.0
"""Strain times entries up to which it may finish: the size of what is left to search."""

RULED: Final = 0.74
"""Strain from which propagation is enough: a relaxation adds little."""

GRAPH: Final = 0.78
"""The same where most sets are pairs: without a relaxation their bounds stay at the top."""

_LARGE: Final = 60  # members above which a set is ignored


def small_sets(problem: Problem) -> bool:
    """Whether sets are small: hitting sets of many adversaries then conflict."""
    return len(problem.sets.entry) <= SMALL * problem.sets.n_sets


def tight(problem: Problem) -> bool:
    """Whether entries have few adversaries to go to: hardly any plan keeps all limits."""
    return problem.n_adversaries <= FEW and int(problem.hi.max(initial=0)) <= 1


def packed(problem: Problem) -> bool:
    """Whether it is nothing but small limited sets, few adversaries and utility."""
    return bool(
        _plain(problem)
        and problem.capacity is None
        and not len(problem.history)
        and 0 < problem.n_adversaries <= FEW
        and problem.n_entries
        and small_sets(problem)
    )


def _plain(problem: Problem) -> bool:
    """Whether all limits are on sets without classes, and only utility counts besides."""
    sets, goal = problem.sets, problem.goal
    return bool(
        goal.objective is Objective.DISC_BUDGET
        and goal.aggregate is None
        and problem.utilities is None
        and problem.links is None
        and not problem.coalitions
        and not problem.averages
        and sets.n_sets
        and not sets.classes.any()
        and (sets.amount == 1).all()
    )


def strain(problem: Problem) -> float:
    """Return how constrained a colouring is: 0 is free, about 1 the edge of feasibility.

    Each entry goes to one random adversary: the bits that all limits take, divided by
    the bits of the choices, as if limits were independent.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    float
        At least 0; 0 for what is no colouring: not :func:`packed`, or an entry may be
        left out, have two copies, or go to somebody who is trusted.

    References
    ----------
    Gent, MacIntyre, Prosser, Walsh: The constrainedness of search (AAAI 1996).
    """
    k, sets = problem.n_adversaries, problem.sets
    exactly = bool((problem.lo == problem.hi).all()) and problem.trusted is None
    if not (packed(problem) and tight(problem) and exactly and k > 1):
        return 0.0
    given = problem.hi > 0
    inside = sets.member_set[given[sets.entry]]
    size = np.bincount(inside, minlength=sets.n_sets)
    kinds = np.stack([size, np.minimum(sets.cap, size)], axis=1)
    found, times = np.unique(kinds, axis=0, return_counts=True)
    bits = sum(
        n * _bits(k, members, cap)
        for (members, cap), n in zip(found.tolist(), times.tolist(), strict=True)
    )
    return float(bits / max(int(given.sum()) * log(k), 1e-9))


def _bits(k: int, members: int, cap: int) -> float:
    """Return -log of the probability that k adversaries keep a set's cap."""
    if members > _LARGE:
        return 0.0
    past = sum(
        comb(members, j) * (k - 1) ** (members - j) for j in range(cap + 1, members + 1)
    )
    kept = 1 - k * past / k**members  # ignores that two can be past it at once
    return -log(max(kept, 1e-3))


def stuck(problem: Problem) -> bool:
    """Whether this is a colouring too large for a complete search."""
    n, least = problem.n_entries, PAIRED if _graph(problem) else STRAINED
    return n > MANY and strain(problem) >= max(least, OPEN / n)


def _graph(problem: Problem) -> bool:
    """Whether most sets are pairs."""
    return 2 * len(problem.sets.entry) < 5 * problem.sets.n_sets


def coloured(problem: Problem) -> bool:
    """Whether propagation alone searches the colouring best: few entries, constrained."""
    least = GRAPH if _graph(problem) else RULED
    return problem.n_entries <= MANY and strain(problem) >= least


def level(problem: Problem) -> bool:
    """Whether in a colouring by identical adversaries all plans have the same value.

    Each entry has as many copies as it may have, and nobody may hold a whole set: the
    only question is whether a plan exists, for which a relaxation says little.
    """
    sets = problem.sets
    return bool(
        _plain(problem)
        and 0 < problem.n_entries <= MANY
        and (sets.cap == np.diff(sets.start) - 1).all()
        and (problem.lo == problem.hi).all()
    )
