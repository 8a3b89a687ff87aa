"""Sums of many fractions in near-linear time.

Adding n fractions with different denominators one by one costs O(n^2), since each partial
sum carries the common denominator of all before it. Here numerators of one denominator
are added as integers, and bounds with a fixed number of bits decide most comparisons.
The exact sum is built by pairwise addition, only where a bound does not decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import isqrt


class FractionSum:
    """A sum of fractions, kept by their denominators.

    Examples
    --------
    >>> found = FractionSum([Fraction(1, 3), Fraction(1, 6), Fraction(1, 3)])
    >>> found.exact, found.between(4)
    (Fraction(5, 6), (Fraction(3, 4), Fraction(7, 8)))
    """

    def __init__(self, values: Iterable[Fraction] = ()) -> None:
        self._by: dict[int, int] = {}
        for value in values:
            self.add(value)

    def add(self, value: Fraction) -> None:
        """Add a number."""
        scale = value.denominator
        self._by[scale] = self._by.get(scale, 0) + value.numerator

    @property
    def terms(self) -> frozenset[tuple[int, int]]:
        """Pairs (numerator, denominator); equal terms have equal sums."""
        return frozenset(self._by.items())

    @property
    def exact(self) -> Fraction:
        """The sum itself."""
        left = [Fraction(part, scale) for scale, part in self._by.items()]
        while len(left) > 1:
            odd = left[-1:] if len(left) % 2 else []
            pairs = zip(left[::2], left[1::2], strict=False)
            left = [one + other for one, other in pairs] + odd
        return left[0] if left else Fraction(0)

    def between(self, bits: int) -> tuple[Fraction, Fraction]:
        """Return lower and upper bounds, multiples of 2^-bits; equal if exact."""
        low = high = 0
        for scale, part in self._by.items():
            whole, rest = divmod(part << bits, scale)
            low += whole
            high += whole + (rest > 0)
        return Fraction(low, 1 << bits), Fraction(high, 1 << bits)

    def within(self, limit: Fraction, bits: int, *, strict: bool) -> bool:
        """Whether the sum is below the limit; at most the limit if not strict."""
        low, high = self.between(bits)
        if high < limit or low > limit:
            return high < limit
        return self.exact < limit if strict else self.exact <= limit


def total(values: Iterable[Fraction]) -> Fraction:
    """Return the exact sum; 0 of none."""
    return FractionSum(values).exact


def highest_sum(sums: Iterable[FractionSum], bits: int) -> FractionSum:
    """Return the largest sum; an empty sum if there is none."""
    bounds = [(one, *one.between(bits)) for one in sums]
    top = max((low for _, low, _ in bounds), default=Fraction(0))
    near = {one.terms: one for one, _, high in bounds if high >= top}
    if len(near) > 1:
        return max(near.values(), key=lambda one: one.exact)
    return next(iter(near.values()), FractionSum())


def floor_root(value: int, q: int) -> int:
    """Return the largest integer whose q-th power is at most a value >= 0.

    Newton's iteration from above: every step falls until the root is reached.

    Examples
    --------
    >>> floor_root(26, 3), floor_root(27, 3)
    (2, 3)
    """
    if q == 1 or not value:
        return value
    if q == 2:
        return isqrt(value)
    root = 1 << -(-value.bit_length() // q)
    while True:
        step = ((q - 1) * root + value // root ** (q - 1)) // q
        if step >= root:
            return root
        root = step
