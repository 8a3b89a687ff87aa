"""Weights w_da: the worth of showing an entry to an adversary (paper, section 3).

A weight is an integer product ``base[d] * factor[a, kind[d]]`` in units of ``unit``. So
10^6 entries and 300 adversaries need one number an entry and one small table, and two
plans are compared by two integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt

from policies.model.sets import Ints

_MOST_TOTAL = 2**62  # sums of weights must stay below, so that int64 never wraps


class InvalidWeights(ValueError):
    """Malformed weights; the message gives the value and the expectation."""


def _as_integers(name: str, values: npt.ArrayLike, ndim: int) -> Ints:
    """Return ``values`` as a read-only int64 array of ``ndim`` dimensions, none negative."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidWeights(f"{name} has type {array.dtype}, expected integers")
    if array.ndim != ndim:
        raise InvalidWeights(f"{name} has {array.ndim} dimensions, expected {ndim}")
    array = array.astype(np.int64)
    if array.size and int(array.min()) < 0:
        raise InvalidWeights(f"{name} holds {int(array.min())}, expected >= 0")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Weights:
    """w_da = base[d] * factor[a, kind[d]] * unit.

    Attributes
    ----------
    kind : int64 array, shape (n entries,)
        Column of ``factor`` of each entry; entries of one kind rank adversaries alike.
    base : int64 array, shape (n entries,)
        Worth of the entry itself, >= 0.
    factor : int64 array, shape (k adversaries, kinds)
        Worth of the adversary for that kind of entry, >= 0.
    unit : Fraction
        Value of one integer step, > 0.
    """

    kind: Ints
    base: Ints
    factor: Ints
    unit: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        for name, ndim in (("kind", 1), ("base", 1), ("factor", 2)):
            object.__setattr__(
                self, name, _as_integers(f"weights.{name}", getattr(self, name), ndim)
            )
        if len(self.kind) != len(self.base):
            raise InvalidWeights(
                f"weights.kind has {len(self.kind)} entries, expected {len(self.base)}"
            )
        if len(self.kind) and int(self.kind.max()) >= self.factor.shape[1]:
            raise InvalidWeights(
                f"weights.kind holds {int(self.kind.max())}, "
                f"expected < {self.factor.shape[1]}"
            )
        if self.unit <= 0:
            raise InvalidWeights(f"weights.unit is {self.unit}, expected > 0")
        each = int(self.base.max(initial=0)) * int(self.factor.max(initial=0))
        most = each * len(self.base) * self.n_adversaries
        if most >= _MOST_TOTAL:
            raise InvalidWeights(
                f"weights may add up to {most}, expected < 2^62: take fewer steps"
            )

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.base)

    @property
    def n_adversaries(self) -> int:
        """Number of adversaries."""
        return int(self.factor.shape[0])

    @classmethod
    def flat(cls, n_entries: int, n_adversaries: int) -> Self:
        """Return weights of 1 for every pair."""
        return cls(
            kind=np.zeros(n_entries, np.int64),
            base=np.ones(n_entries, np.int64),
            factor=np.ones((n_adversaries, 1), np.int64),
        )

    @classmethod
    def scaled(
        cls,
        kind: npt.ArrayLike,
        utility: npt.ArrayLike,
        factor: npt.ArrayLike,
        *,
        steps: int = 1_000,
    ) -> Self:
        """Round real utilities and factors to ``1/steps`` each.

        Parameters
        ----------
        kind : integer array, shape (n,)
        utility : real array, shape (n,), finite and >= 0
        factor : real array, shape (k, kinds), finite and >= 0
        steps : int
            Integer steps to one, >= 1.

        Raises
        ------
        InvalidWeights
            For NaN, infinite or negative numbers.
        """
        worth = _rounded("utility", utility, steps)
        rank = _rounded("factor", factor, steps)
        return cls(
            kind=np.asarray(kind),
            base=worth,
            factor=rank,
            unit=Fraction(1, steps * steps),
        )

    @classmethod
    def dense(cls, matrix: npt.ArrayLike, *, steps: int = 10**9) -> Self:
        """Return the weights of any matrix, shape (n, k), rounded to ``1/steps``."""
        grid = _rounded("weights", matrix, steps)
        if grid.ndim != 2:
            raise InvalidWeights(f"weights has {grid.ndim} dimensions, expected 2")
        n = grid.shape[0]
        return cls(
            kind=np.arange(n),
            base=np.ones(n, np.int64),
            factor=grid.T,
            unit=Fraction(1, steps),
        )

    def of(self, entry: Ints, adversary: Ints) -> Ints:
        """Weights of the pairs, in units; both arrays of one shape (or broadcast)."""
        return self.base[entry] * self.factor[adversary, self.kind[entry]]

    def row(self, entry: int) -> Ints:
        """Weights of one entry, shape (k,), in units."""
        return int(self.base[entry]) * self.factor[:, self.kind[entry]]

    def select(self, entries: Ints) -> Weights:
        """Return the weights of these entries alone, in this order."""
        kind, factor = self.kind[entries], self.factor
        if factor.shape[1] > len(entries):  # drop unused columns of a large table
            used, kind = np.unique(kind, return_inverse=True)
            factor = factor[:, used]
        return Weights(kind, self.base[entries], factor, self.unit)

    def best(self, copies: Ints) -> int:
        """Sum of each entry's ``copies[d]`` best weights: the highest u without limits.

        Returns
        -------
        int
            In units; an upper bound on the utility of every plan with these degrees.
        """
        if not self.n_entries or not self.n_adversaries:
            return 0
        ranked = -np.sort(-self.factor, axis=0)
        top = np.vstack([np.zeros_like(ranked[:1]), np.cumsum(ranked, axis=0)])
        taken = np.minimum(copies, self.n_adversaries)
        return int(np.sum(self.base * top[taken, self.kind]))


def _rounded(name: str, values: npt.ArrayLike, steps: int) -> Ints:
    """Round finite reals >= 0 to integers, ``steps`` to one."""
    if steps < 1:
        raise InvalidWeights(f"steps is {steps}, expected >= 1")
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InvalidWeights(f"{name} holds NaN or infinity, expected finite numbers")
    if array.size and float(array.min()) < 0:
        raise InvalidWeights(f"{name} holds {float(array.min())}, expected >= 0")
    return np.rint(array * steps).astype(np.int64)
