"""GRASP and GRASPL: the paper's randomised greedy, r repetitions of the n best.

See :mod:`policies.solvers.search.greedy` for both modes.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.solvers.search.greedy import Greedy


@dataclass(frozen=True)
class Grasp(Greedy):
    """n = 5, r = 10, over all pairs (section 6)."""

    repeats: int = 10
    width: int = 5


@dataclass(frozen=True)
class Graspl(Greedy):
    """n = min(k, 3), r = 10, entry by entry (section 6)."""

    repeats: int = 10
    width: int = 3
    myopic: bool = True
