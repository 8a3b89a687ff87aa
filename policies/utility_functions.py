"""Utilities u_a of what one adversary holds, and their weighted sum (paper, section 2.3).

Each is nondecreasing and submodular: the more is held, the less one entry more adds.
All take a set of entries and give a number >= 0; :mod:`policies.functions` samples them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log1p, sqrt
from typing import Final

import numpy as np

from policies.utility import InvalidWeights, Weights

Held = frozenset[int]
Utility = Callable[[Held], float]

CURVES: Final[Mapping[str, Callable[[float], float]]] = {
    "root": sqrt,
    "log": log1p,
}
"""Concave, nondecreasing, 0 at 0."""


def _weights(values: Sequence[float]) -> tuple[float, ...]:
    """Return the weights; raise unless all are finite and >= 0."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any():
        raise InvalidWeights("weights hold NaN, infinity or a negative number")
    return tuple(float(v) for v in array)


@dataclass(frozen=True)
class Additive:
    """Sum of the entries' weights."""

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights))

    def __call__(self, held: Held) -> float:
        """Return u."""
        return sum(self.weights[d] for d in held)


@dataclass(frozen=True)
class ConcaveOverModular:
    """A concave curve of the sum of weights: full hands gain little from more.

    Attributes
    ----------
    weights : tuple of float
    curve : str
        ``root``, ``log``, or ``cap``: min(sum, cap).
    cap : float
        > 0; for ``cap`` alone.
    """

    weights: tuple[float, ...]
    curve: str = "root"
    cap: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights))
        if self.curve not in (*CURVES, "cap"):
            raise InvalidWeights(f"curve is {self.curve!r}, expected root, log or cap")
        if not self.cap > 0:
            raise InvalidWeights(f"cap is {self.cap}, expected > 0")

    def __call__(self, held: Held) -> float:
        """Return u."""
        total = sum(self.weights[d] for d in held)
        if self.curve == "cap":
            return min(total, self.cap)
        return CURVES[self.curve](total)


@dataclass(frozen=True)
class Coverage:
    """Weight of the topics that at least one held entry touches.

    Attributes
    ----------
    touches : tuple of frozenset of int
        Topics of each entry.
    topics : tuple of float
        Weight of each topic, >= 0.
    """

    touches: tuple[frozenset[int], ...]
    topics: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", _weights(self.topics))
        for d, found in enumerate(self.touches):
            if any(not 0 <= topic < len(self.topics) for topic in found):
                raise InvalidWeights(
                    f"entry {d} touches a topic outside 0 to {len(self.topics) - 1}"
                )

    def __call__(self, held: Held) -> float:
        """Return u."""
        seen = frozenset().union(*(self.touches[d] for d in held))
        return sum(self.topics[topic] for topic in seen)


@dataclass(frozen=True)
class FacilityLocation:
    """Each client is served by the best held entry.

    Attributes
    ----------
    serves : tuple of tuple of float
        ``serves[client][entry]``, >= 0.
    """

    serves: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "serves", tuple(_weights(row) for row in self.serves))

    def __call__(self, held: Held) -> float:
        """Return u."""
        return sum(max((row[d] for d in held), default=0.0) for row in self.serves)


def overall(
    utilities: Sequence[Utility], weights: Sequence[float], held: Sequence[Held]
) -> float:
    """Return the weighted sum over adversaries: u = sum of w_a u_a(S_a).

    Raises
    ------
    InvalidWeights
        If the three do not go together.
    """
    if not len(utilities) == len(weights) == len(held):
        raise InvalidWeights(
            f"{len(utilities)} utilities, {len(weights)} weights and {len(held)} hands, "
            "expected as many of each"
        )
    return sum(
        w * u(s) for u, w, s in zip(utilities, _weights(weights), held, strict=True)
    )


def top_t(weights: Weights, copies: int) -> Fraction:
    """Return the paper's normaliser: each entry's t best weights; 1 where that is 0."""
    hi = np.full(weights.n_entries, copies, np.int64)
    best = weights.best(hi) * weights.unit
    return best if best > 0 else Fraction(1)
