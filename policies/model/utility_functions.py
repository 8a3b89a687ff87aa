"""Utilities u_a of an adversary's entries, and their weighted sum (paper, section 2.3).

Each maps a set of entries to a number >= 0, and is nondecreasing and submodular: the
more is held, the less one more entry adds. :mod:`policies.rules.functions` samples
functions that others wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import log1p, sqrt
from typing import Final

import numpy as np

from policies.model.sets import Bools, Floats, Ints
from policies.model.weights import InvalidWeights

EntrySet = frozenset[int]
Utility = Callable[[EntrySet], float]

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

    def __call__(self, held: EntrySet) -> float:
        """Return u."""
        return sum(self.weights[d] for d in held)

    def gains(self, held: Bools) -> Floats:
        """Return what each entry adds to those held, shape (n,)."""
        return np.where(held, 0.0, self._row)

    @cached_property
    def _row(self) -> Floats:
        return np.asarray(self.weights, np.float64)


@dataclass(frozen=True)
class ConcaveOverModular:
    """A concave curve of the sum of weights: further entries add less and less.

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

    def __call__(self, held: EntrySet) -> float:
        """Return u."""
        total = sum(self.weights[d] for d in held)
        if self.curve == "cap":
            return min(total, self.cap)
        return CURVES[self.curve](total)

    @cached_property
    def _row(self) -> Floats:
        return np.asarray(self.weights, np.float64)

    def gains(self, held: Bools) -> Floats:
        """Return what each entry adds to those held, shape (n,)."""
        weights = self._row
        total = weights[held].sum()
        more = np.where(held, total, total + weights)
        if self.curve == "cap":
            return np.asarray(np.minimum(more, self.cap) - min(total, self.cap))
        rise = np.sqrt if self.curve == "root" else np.log1p
        return np.asarray(rise(more) - rise(total))


@dataclass(frozen=True)
class Coverage:
    """Total weight of the topics that at least one held entry touches.

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

    def __call__(self, held: EntrySet) -> float:
        """Return u."""
        seen = frozenset().union(*(self.touches[d] for d in held))
        return sum(self.topics[topic] for topic in seen)

    def gains(self, held: Bools) -> Floats:
        """Return what each entry adds to those held, shape (n,)."""
        entry, topic = self._pairs
        left = np.array(self.topics, np.float64)
        left[topic[held[entry]]] = 0.0
        return np.bincount(entry, left[topic], len(held)).astype(np.float64)

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        """Columns (entry, topic): the topics that each entry touches."""
        pairs = [(d, j) for d, found in enumerate(self.touches) for j in sorted(found)]
        grid = np.array(pairs, np.int64).reshape(-1, 2)
        return grid[:, 0], grid[:, 1]


@dataclass(frozen=True)
class FacilityLocation:
    """Facility location: each client is served by its best held entry.

    Attributes
    ----------
    serves : tuple of tuple of float
        ``serves[client][entry]``, >= 0.
    """

    serves: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "serves", tuple(_weights(row) for row in self.serves))

    def __call__(self, held: EntrySet) -> float:
        """Return u."""
        return sum(max((row[d] for d in held), default=0.0) for row in self.serves)

    def gains(self, held: Bools) -> Floats:
        """Return what each entry adds to those held, shape (n,)."""
        serves = self._grid.reshape(len(self.serves), len(held))
        best = serves[:, held].max(axis=1, initial=0.0)
        return np.asarray(np.maximum(serves - best[:, None], 0.0).sum(axis=0))

    @cached_property
    def _grid(self) -> Floats:
        return np.asarray(self.serves, np.float64)


@dataclass(frozen=True, eq=False)
class ByRecord:
    """Value of the held fields of each record, summed over the records.

    Attributes
    ----------
    record : int64 array, shape (n,)
        Number of each entry's record, from 0.
    bit : int64 array, shape (n,)
        Place of each entry's field; a record has one entry of it.
    worth : float64 array, shape (2^fields,)
        Value of every set of fields, as a mask; nondecreasing.
    diminishing : bool
        Whether it is submodular, checked for all sets.
    """

    record: Ints
    bit: Ints
    worth: Floats
    diminishing: bool = True

    def __call__(self, held: EntrySet) -> float:
        """Return u."""
        mine = np.zeros(len(self.record), np.bool_)
        mine[list(held)] = True
        return float(self.worth[self._masks(mine)].sum() - self._nothing)

    def gains(self, held: Bools) -> Floats:
        """Return what each entry adds to those held, shape (n,)."""
        now = self._masks(held)[self.record]
        more = now | (np.int64(1) << self.bit)
        return np.asarray(self.worth[more] - self.worth[now])

    def _masks(self, held: Bools) -> Ints:
        """Mask of the held fields of each record, shape (records,)."""
        masks = np.zeros(self._records, np.int64)
        np.bitwise_or.at(masks, self.record[held], np.int64(1) << self.bit[held])
        return masks

    @cached_property
    def _records(self) -> int:
        return int(self.record.max(initial=-1)) + 1

    @cached_property
    def _nothing(self) -> float:
        """Value of records of which nothing is held; subtracted, so that u = 0 then."""
        return float(self.worth[0]) * self._records


KNOWN: Final = (Additive, ConcaveOverModular, Coverage, FacilityLocation, ByRecord)
"""Functions that return all gains at once and are monotone by construction."""


@dataclass(frozen=True)
class Subset:
    """A function of some entries, renumbered: entry d here is ``entries[d]`` there."""

    function: Utility
    entries: tuple[int, ...]

    def __call__(self, held: EntrySet) -> float:
        """Return u."""
        return self.function(frozenset(self.entries[d] for d in held))


@dataclass(frozen=True, eq=False)
class Utilities:
    """u = sum over adversaries of w_a u_a(S_a), in place of a sum over pairs.

    Attributes
    ----------
    functions : tuple of callable
        u_a of each adversary, from a set of entries to a number >= 0; nondecreasing.
    scale : tuple of Fraction
        w_a >= 0, the paper's normalisation included.
    """

    functions: tuple[Utility, ...]
    scale: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if len(self.functions) != len(self.scale):
            raise InvalidWeights(
                f"{len(self.functions)} utilities and {len(self.scale)} weights, "
                "expected as many of each"
            )
        for a, weight in enumerate(self.scale):
            if weight < 0:
                raise InvalidWeights(f"the weight of adversary {a} is {weight} < 0")

    @property
    def known(self) -> bool:
        """Whether all are monotone and submodular by construction, not just by samples."""
        return all(
            isinstance(f, KNOWN) and getattr(f, "diminishing", True)
            for f in self.functions
        )

    def total(self, held: Sequence[EntrySet]) -> Fraction:
        """Return u of the entries that each adversary holds: the sum of floats, exactly.

        Raises
        ------
        InvalidWeights
            If a function returns something other than a finite number.
        """
        out = Fraction(0)
        for a, (f, w, s) in enumerate(
            zip(self.functions, self.scale, held, strict=True)
        ):
            value = float(f(s))
            if not np.isfinite(value):
                raise InvalidWeights(f"the utility of adversary {a} is {value!r}")
            out += w * Fraction(value)
        return out

    def gains(self, adversary: int, held: Bools) -> Floats:
        """Return what each entry adds to u for this adversary, shape (n,)."""
        f, weight = self.functions[adversary], float(self.scale[adversary])
        if isinstance(f, KNOWN):
            return weight * f.gains(held)
        now = frozenset(np.flatnonzero(held).tolist())
        base = f(now)
        out = [0.0 if d in now else f(now | {d}) - base for d in range(len(held))]
        return weight * np.array(out, np.float64)

    def select(self, entries: Sequence[int]) -> Utilities:
        """Return the same functions over these entries alone, renumbered."""
        chosen = tuple(entries)
        return Utilities(tuple(Subset(f, chosen) for f in self.functions), self.scale)
