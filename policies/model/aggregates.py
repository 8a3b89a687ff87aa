"""Aggregates: f of many sets and observers as one number, beyond worst and average.

The paper takes the worst set of the worst adversary, or the highest mean of an
adversary (section 3). Here sets have weights, and observers may be summed. An
observer's value may also be the number of sets above a level, or a power mean, which
lies between the mean (q = 1) and the worst (q to infinity). Sums are exact fractions.
Roots are rounded up, and only to show or sum them: limits compare powers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final

from policies.model.fraction_sums import FractionSum, floor_root, highest_sum, total
from policies.model.links import ROOT
from policies.model.sets import InvalidProblem

LARGEST_Q: Final = 32
"""Highest exponent: the power mean of n sets is then within n^(1/32) of the worst."""


class Shape(StrEnum):
    """How one observer's f over all sets becomes one number."""

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
        Whether observers are summed; else the highest counts. A count that is not
        summed counts each set once if any observer sees it above the level. A coalition
        is one more observer.
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
        """Whether a limit on the aggregate is the same as one limit on each set."""
        return self.shape is Shape.WORST and not self.summed

    @property
    def shared(self) -> bool:
        """Whether a set counts once, however many observers see it."""
        return self.shape is Shape.COUNT and not self.summed

    @property
    def divisor(self) -> Fraction:
        """Divisor of an observer's sum."""
        mean = self.shape in (Shape.AVERAGE, Shape.SOFT_MAX)
        return self.over if mean else Fraction(1)

    def normed(self) -> tuple[Aggregate, Fraction]:
        """Return the aggregate scaled to a highest weight of 1, and the scale factor."""
        top = max(self.weights, default=Fraction(1)) or Fraction(1)
        weights = tuple(weight / top for weight in self.weights)
        mean = self.shape in (Shape.AVERAGE, Shape.SOFT_MAX)
        over = self.over / top if mean else self.over
        return replace(self, weights=weights, over=over), Fraction(1) if mean else top

    def weight(self, number: int) -> Fraction:
        """Return w of a property or link."""
        return self.weights[number] if self.weights else Fraction(1)

    def level_of(self, number: int, limit: Fraction) -> Fraction | None:
        """Return the f at which w f reaches the limit; None if no f does."""
        weight = self.weight(number)
        return limit / weight if weight else None


@dataclass
class Parts:
    """Running values of an aggregate, fed with f of single sets and observers.

    Attributes
    ----------
    aggregate : Aggregate
    highest : dict of int to Fraction
        Worst: the highest w f of each observer.
    sums : dict of int to FractionSum
        Other shapes: the sum of each observer, before division and root.
    sets : dict of int to Fraction
        Count that is not summed: the weights of the sets above the level.
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
        """Add f of one set (or link) and observer.

        Parameters
        ----------
        one, number, observer : int
            The set, its property, and who sees it. A link is its own property.
        f : Fraction
            0 to 1.
        above : bool, optional
            Whether f is above the level, if f itself was rounded.
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
        """Precision in bits of bounds on sums: far below 10^-18 of any root shown."""
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
        return self._mean(highest_sum(self.sums.values(), self.bits))

    def seen(self, observer: int) -> Fraction:
        """Return one observer's value, for aggregates that are not shared."""
        if self.aggregate.shape is Shape.WORST:
            return self.highest.get(observer, Fraction(0))
        return self._mean(self.sums.get(observer, FractionSum()))

    def _mean(self, whole: FractionSum) -> Fraction:
        """Divide an observer's sum and take its root."""
        how = self.aggregate
        if how.shape is not Shape.SOFT_MAX:
            return whole.exact / how.divisor
        low, high = (
            root_above(bound / how.over, how.q) for bound in whole.between(self.bits)
        )
        return low if low == high else root_above(whole.exact / how.over, how.q)

    def kept(self, limit: Fraction, *, strict: bool) -> bool:
        """Whether the aggregate is below the limit; at most the limit if not strict.

        Exact, except that sums of roots and cosines are rounded up, so that no value
        past the limit is ever accepted.
        """
        if limit < 0 or (strict and not limit):
            return False
        if self.aggregate.shared or self.aggregate.summed:
            return self.value < limit if strict else self.value <= limit
        return not self.past(limit, strict=strict)

    def past(self, limit: Fraction, *, strict: bool) -> list[int]:
        """Return the observers past a limit > 0, for aggregates with one value each."""
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
    floor = floor_root(scaled // value.denominator, q)
    exact = floor**q * value.denominator == scaled
    return Fraction(floor if exact else floor + 1, ROOT)
