"""How f of many sets and observers becomes one number, beyond worst and average.

The paper takes the worst set of the worst adversary, or the mean of the adversary whose
mean is highest (section 3). Here sets have weights, observers may be added up, and what one
observer sees may also be counted above a level or taken as a power mean, which lies between
the mean (q = 1) and the worst (q without end). Sums are fractions; a root is rounded up,
and only where it must be shown or added: limits compare powers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final

from policies.model.fraction_sums import FractionSum, highest, total
from policies.model.links import ROOT
from policies.model.sets import InvalidProblem

LARGEST_Q: Final = 32
"""Highest exponent: the power mean of n sets is the worst but for a factor n^(1/32)."""


class Shape(StrEnum):
    """What one observer's f of all sets is."""

    WORST = "worst"  # max over sets of w f
    AVERAGE = "average"  # sum over sets of w f, divided by the sum of w
    COUNT = "count"  # sum of w over the sets with f > level
    SOFT_MAX = "soft-max"  # (sum over sets of w f^q, divided by that of w)^(1/q)


@dataclass(frozen=True)
class Aggregate:
    """One number of f over all (set, observer), or (link, observer) where there are links.

    Attributes
    ----------
    shape : Shape
    weights : tuple of Fraction
        w >= 0 of each property (or link); empty: 1 each.
    summed : bool
        Whether observers are added up; else the highest counts. A count that is not summed
        counts the sets that somebody sees above the level, each once. A coalition is
        one observer more.
    level : Fraction
        >= 0, of a count.
    q : int
        1 to ``LARGEST_Q``, of a soft-max.
    over : Fraction
        > 0: the sum of w that averages and soft-maxes are divided by.
    """

    shape: Shape
    weights: tuple[Fraction, ...] = ()
    summed: bool = False
    level: Fraction = Fraction(0)
    q: int = 1
    over: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        least = min(self.weights, default=Fraction(0))
        if least < 0:
            raise InvalidProblem(f"a weight of a property is {least}, expected >= 0")
        if self.level < 0:
            raise InvalidProblem(f"level is {self.level}, expected >= 0")
        if not 1 <= self.q <= LARGEST_Q:
            raise InvalidProblem(f"q is {self.q}, expected 1 to {LARGEST_Q}")
        if self.over <= 0:
            raise InvalidProblem(f"over is {self.over}, expected > 0")

    @property
    def by_set(self) -> bool:
        """Whether a limit on it is one limit on each set."""
        return self.shape is Shape.WORST and not self.summed

    @property
    def shared(self) -> bool:
        """Whether a set counts once, whoever and how many see it."""
        return self.shape is Shape.COUNT and not self.summed

    @property
    def divisor(self) -> Fraction:
        """What an observer's sum is divided by."""
        mean = self.shape in (Shape.AVERAGE, Shape.SOFT_MAX)
        return self.over if mean else Fraction(1)

    def normed(self) -> tuple[Aggregate, Fraction]:
        """Return it with 1 for the highest weight, and what its values are then times."""
        top = max(self.weights, default=Fraction(1)) or Fraction(1)
        weights = tuple(weight / top for weight in self.weights)
        mean = self.shape in (Shape.AVERAGE, Shape.SOFT_MAX)
        over = self.over / top if mean else self.over
        return replace(self, weights=weights, over=over), Fraction(1) if mean else top

    def weight(self, number: int) -> Fraction:
        """Return w of a property or link."""
        return self.weights[number] if self.weights else Fraction(1)

    def level_of(self, number: int, limit: Fraction) -> Fraction | None:
        """Return f of a property from which w f reaches the limit; None: no f does."""
        weight = self.weight(number)
        return limit / weight if weight else None


@dataclass
class Parts:
    """What an aggregate is made of, gathered from what observers hold.

    Attributes
    ----------
    aggregate : Aggregate
    highest : dict of int to Fraction
        The highest w f that each observer sees, of a worst.
    sums : dict of int to FractionSum
        The sum of what each observer sees, else; not yet divided, no root taken.
    sets : dict of int to Fraction
        Weights of the sets above the level, where they are shared.
    """

    aggregate: Aggregate
    highest: dict[int, Fraction] = field(default_factory=dict)
    sums: dict[int, FractionSum] = field(
        default_factory=lambda: defaultdict(FractionSum)
    )
    sets: dict[int, Fraction] = field(default_factory=dict)

    def add(
        self,
        one: int,
        number: int,
        observer: int,
        f: Fraction,
        *,
        above: bool | None = None,
    ) -> None:
        """Count f of one set (or link) and observer.

        Parameters
        ----------
        one, number, observer : int
            The set, its property, and who sees it. A link is its own property.
        f : Fraction
            0 to 1.
        above : bool, optional
            Whether f is above the level, where f itself was rounded.
        """
        how, weight = self.aggregate, self.aggregate.weight(number)
        match how.shape:
            case Shape.WORST:
                before = self.highest.get(observer, Fraction(0))
                self.highest[observer] = max(before, weight * f)
            case Shape.AVERAGE:
                self.sums[observer].add(weight * f)
            case Shape.SOFT_MAX:
                self.sums[observer].add(weight * f**how.q)
            case Shape.COUNT:
                if not (f > how.level if above is None else above):
                    return
                if how.shared:
                    self.sets[one] = weight
                else:
                    self.sums[observer].add(weight)

    @property
    def bits(self) -> int:
        """How exactly sums are bounded: far below 10^-18 of any root that is seen."""
        return 64 * self.aggregate.q

    @property
    def value(self) -> Fraction:
        """The aggregate; roots are rounded up to 10^-18."""
        how = self.aggregate
        if how.shared:
            return total(self.sets.values())
        if how.summed:
            return total(map(self.seen, self.sums or self.highest))
        if how.shape is Shape.WORST:
            return max(self.highest.values(), default=Fraction(0))
        return self._mean(highest(self.sums.values(), self.bits))

    def seen(self, observer: int) -> Fraction:
        """Return what one observer sees, where nothing is shared."""
        if self.aggregate.shape is Shape.WORST:
            return self.highest.get(observer, Fraction(0))
        return self._mean(self.sums.get(observer, FractionSum()))

    def _mean(self, whole: FractionSum) -> Fraction:
        """Return what an observer of this sum sees: it is divided, and its root taken."""
        how = self.aggregate
        if how.shape is not Shape.SOFT_MAX:
            return whole.exact / how.divisor
        low, high = (
            root_above(bound / how.over, how.q) for bound in whole.between(self.bits)
        )
        return low if low == high else root_above(whole.exact / how.over, how.q)

    def kept(self, limit: Fraction, *, strict: bool) -> bool:
        """Whether the aggregate is below the limit, or at most there where not strict.

        Exact, but for sums of roots and for cosines: those are rounded up, so that
        nothing past the limit is ever kept.
        """
        if limit < 0 or (strict and not limit):
            return False
        if self.aggregate.shared or self.aggregate.summed:
            return self.value < limit if strict else self.value <= limit
        return not self.past(limit, strict=strict)

    def past(self, limit: Fraction, *, strict: bool) -> list[int]:
        """Return the observers that see more than a limit > 0, where each has its own."""
        how = self.aggregate
        if how.shape is Shape.WORST:
            return sorted(
                observer
                for observer, f in self.highest.items()
                if f > limit or (strict and f == limit)
            )
        power = how.q if how.shape is Shape.SOFT_MAX else 1
        bound = limit**power * how.divisor
        return sorted(
            observer
            for observer, whole in self.sums.items()
            if not whole.within(bound, self.bits, strict=strict)
        )


def root_above(value: Fraction, q: int) -> Fraction:
    """Return the q-th root of a number >= 0, rounded up to a multiple of 10^-18.

    Examples
    --------
    >>> root_above(Fraction(8, 27), 3) - Fraction(2, 3) < Fraction(1, 10**18)
    True
    """
    if q == 1:
        return value
    scaled = value.numerator * ROOT**q
    floor = _floor_root(scaled // value.denominator, q)
    exact = floor**q * value.denominator == scaled
    return Fraction(floor if exact else floor + 1, ROOT)


def _floor_root(value: int, q: int) -> int:
    """Largest integer whose q-th power is at most the value (Newton, from above)."""
    if not value:
        return 0
    root = 1 << -(-value.bit_length() // q)
    while True:
        step = ((q - 1) * root + value // root ** (q - 1)) // q
        if step >= root:
            return root
        root = step
