"""The rules of a policy, compiled to integers: exact f of one unit.

:mod:`policies.rules.expand` turns the same rules into sets for plans. A *unit* is the
scope of a rule's sets: one record or one subject. What an adversary holds of a unit is
a mapping ``(field, time) -> number of distinct entries held``. Rules without a window
ignore the time, so it may be any number there.

Every rule has an integer *score* of the held entries and a *cap*, the largest score
whose f is below tau. The cap is computed exactly when the rule is compiled:

====================  ==============================  ===================================
rule                  score                           f
====================  ==============================  ===================================
step                  1 if a set is complete, else 0  score
step, ``at = k``      entries held                    1 if score >= k, else 0
by field weights      sum of the weights / unit       min(1, score * unit) ** power
``per = "entry"``     entries held                    min(1, score * unit) ** power
====================  ==============================  ===================================

A *unit* of a sum is what one point of the score adds to it: the weight of an entry, or a
common divisor of the weights by field, which add up to 1. So ``f < tau`` is ``score <= cap``, and judging an asked entry needs no fraction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from math import lcm
from typing import Final, assert_never

from policies.model.fraction_sums import floor_root
from policies.model.measures import Measure
from policies.policy import Property, Scope
from policies.rules.kinds import (
    PlaceSimilarity,
    PowerOfSum,
    Step,
    Tabulated,
    family,
    needs_whole_set,
)

ZERO: Final = Fraction(0)
ONE: Final = Fraction(1)

Held = Mapping[tuple[str, int], int]
"""What is held of one unit: (field, time) -> number of distinct entries, >= 0."""


def largest_score(unit: Fraction, power: int, tau: Fraction) -> int:
    """Return the largest integer n >= 0 with ``(n * unit) ** power < tau``, exactly.

    Parameters
    ----------
    unit : Fraction
        Contribution of one point of score to the sum, > 0.
    power : int
        >= 1, of the measure.
    tau : Fraction
        > 0.
    """
    bound = tau / unit**power  # n ** power < p / q  <=>  n ** power <= (p - 1) // q
    below = (bound.numerator - 1) // bound.denominator
    return floor_root(below, power)


class Rule:
    """One record or subject rule, compiled; see the module's table.

    Attributes
    ----------
    name : str
    scope : Scope
        ``RECORD`` or ``SUBJECT``.
    tau, average : Fraction or None
    window : int or None
        Microseconds, closed at both ends.
    fields, sent : frozenset of str
        Those that the rule names, and those of them that anybody can be shown.
    alternatives : tuple of tuple of str
        The sets of a unit, by their fields.
    complete : bool
        Step without ``at``: the score is whether an alternative is complete.
    weights : Mapping[str, int]
        Contribution of each field to the score (1 each, except weights by field).
    by_entry : bool
        Each entry held adds one to the score, also several of one field.
    unit, measure : Fraction, Measure
        f = min(1, score * unit) ** power, so that one point adds ``unit`` to the sum; for
        a step see ``need``.
    need : int or None
        Step: the score from which f is 1.
    cap : int or None
        Largest score with f below tau; None is no limit.
    """

    __slots__ = (
        "_fractions",
        "_masks",
        "alternatives",
        "average",
        "bits",
        "by_entry",
        "cap",
        "complete",
        "fields",
        "measure",
        "name",
        "need",
        "scope",
        "sent",
        "tau",
        "unit",
        "weights",
        "window",
    )

    def __init__(self, prop: Property, unsent: Collection[str] = ()) -> None:
        shape = prop.disclosure
        self.name = prop.name
        self.scope = prop.scope
        self.tau = prop.tau
        self.average = prop.average
        self.window = prop.window
        self.fields = prop.fields
        self.sent = prop.fields.difference(unsent)
        self.alternatives = prop.alternatives
        self.complete = needs_whole_set(prop)
        self.measure = Measure.STEP
        self.need = None
        self.weights, self.unit = dict.fromkeys(sorted(self.fields), 1), ONE
        self.by_entry = not self.complete
        match family(prop):
            case Step():
                self.need = 1 if self.complete else shape.at
            case PowerOfSum(measure):
                self.measure = measure
                if shape.per_entry is not None:
                    self.unit = shape.per_entry
                else:
                    self.by_entry = False
                    self._weigh(shape.weights)
            case PlaceSimilarity() | Tabulated():
                raise ValueError(
                    f"rule {prop.name} is {shape.kind}, expected step or a sum"
                )
            case other:
                assert_never(other)
        self.cap = self._largest()
        self.bits = {field: 1 << i for i, field in enumerate(self.weights)}
        self._masks = tuple(
            sum(map(self.bits.__getitem__, a)) for a in prop.alternatives
        )
        self._fractions: dict[int, Fraction] = {}

    def _weigh(self, declared: Mapping[str, Fraction] | None) -> None:
        """Convert the weights by field to one denominator."""
        share = Fraction(1, len(self.fields))
        weights = declared or dict.fromkeys(sorted(self.fields), share)
        scale = lcm(*(w.denominator for w in weights.values()))
        self.weights = {field: int(w * scale) for field, w in weights.items()}
        self.unit = Fraction(1, scale)

    def _largest(self) -> int | None:
        if self.tau is None:
            return None
        if self.need is not None:  # f is 0 or 1, and 0 < tau <= 1
            return self.need - 1
        return largest_score(self.unit, self.measure.power, self.tau)

    def fraction(self, score: int) -> Fraction:
        """Return f of a score, exactly, in [0, 1]."""
        known = self._fractions.get(score)
        if known is None:
            if self.need is not None:
                known = ONE if score >= self.need else ZERO
            else:
                known = min(ONE, score * self.unit) ** self.measure.power
            self._fractions[score] = known
        return known

    def score(self, counts: Mapping[str, int], through: str | None = None) -> int:
        """Return the score of one set of held entries, by field.

        Parameters
        ----------
        counts : Mapping[str, int]
            Distinct entries held, by field; fields of other rules are ignored.
        through : str, optional
            Score only the alternatives that have this field.
        """
        if self.complete:
            return self._completes(counts, through)
        if self.by_entry:
            return sum(n for field, n in counts.items() if field in self.fields)
        weights = self.weights
        return sum(weights[f] for f, n in counts.items() if n > 0 and f in weights)

    def _completes(self, counts: Mapping[str, int], through: str | None) -> int:
        bits, mask = self.bits, 0
        for field, n in counts.items():
            if n > 0 and field in bits:
                mask |= bits[field]
        asked = 0 if through is None else bits[through]
        for alternative in self._masks:
            if alternative & mask == alternative and alternative & asked == asked:
                return 1
        return 0

    def highest(self, held: Held, through: tuple[str, int] | None = None) -> int:
        """Return the highest score over the sets of one unit.

        Parameters
        ----------
        held : Mapping[tuple[str, int], int]
        through : tuple of (str, int), optional
            Field and time of an entry: only the sets that contain it count.
        """
        field = None if through is None else through[0]
        if self.window is None:
            return self.score(by_field(held), field)
        time = None if through is None else through[1]
        best = 0
        for _, counts in self.slide(held, self._times(held), time):
            best = max(best, self.score(counts, field))
        return best

    def _times(self, held: Held) -> list[int]:
        """Return the different times of the entries in the rule's fields, ascending."""
        return sorted({t for (f, t), n in held.items() if n > 0 and f in self.fields})

    def slide(
        self, held: Held, starts: list[int], through: int | None = None
    ) -> Iterator[tuple[int, Mapping[str, int]]]:
        """Slide over the closed windows that begin at ``starts`` (ascending).

        Windows that start at held entries suffice for the largest f: let W = [x, x + w]
        be any window and y the earliest held time in it. Every held time of W is at
        most x + w <= y + w and at least y, so [y, y + w] contains all that W contains,
        and f never falls when entries are added. If W contains a given held time, so
        does [y, y + w], by the same two inequalities.

        Yields
        ------
        tuple of (int, Mapping[str, int])
            Start, and entries held in the window by field (one dict, reused).
        """
        assert self.window is not None
        events = sorted(
            (t, f, n) for (f, t), n in held.items() if n > 0 and f in self.fields
        )
        counts: dict[str, int] = {}
        first = last = 0
        for start in starts:
            while last < len(events) and events[last][0] <= start + self.window:
                counts[events[last][1]] = (
                    counts.get(events[last][1], 0) + events[last][2]
                )
                last += 1
            while first < last and events[first][0] < start:
                counts[events[first][1]] -= events[first][2]
                first += 1
            if through is None or start <= through <= start + self.window:
                yield start, counts

    def value(self, held: Held) -> Fraction:
        """Return f of one unit exactly: the largest over its sets, in [0, 1]."""
        return self.fraction(self.highest(held))

    def past(self, held: Held) -> bool:
        """Whether the unit is at or past the limit, f >= tau."""
        return self.cap is not None and self.highest(held) > self.cap

    def left(self, held: Held) -> int | None:
        """Fields that may be shown of one unit until the last of them is refused.

        The least that reach the limit, wherever they lie: 1 if one more could, 0 if the
        unit is at or past it. None: no number of the fields that are sent does, or there
        is no limit.
        """
        if self.window is None:
            return self.left_of(by_field(held))
        windows = self.slide(held, self._times(held))
        found = [self.left_of(counts) for _, counts in windows]
        found = found or [self.left_of({})]  # nothing of its fields is held
        return min((left for left in found if left is not None), default=None)

    def left_of(self, counts: Mapping[str, int]) -> int | None:
        """Do the same for one set of held entries, by field."""
        if self.cap is None:
            return None
        score = self.score(counts)
        if score > self.cap:
            return 0
        missing = [field for field in self.fields if not counts.get(field)]
        if self.complete:
            open_ = ({*a}.intersection(missing) for a in self.alternatives)
            return min((len(a) for a in open_ if self.sent.issuperset(a)), default=None)
        if self.by_entry and self.scope is Scope.SUBJECT:
            return self.cap + 1 - score if self.sent else None
        missing = [field for field in missing if field in self.sent]
        for number, field in enumerate(
            sorted(missing, key=self.weights.__getitem__, reverse=True), start=1
        ):  # a record has one entry of each field
            score += self.weights[field]
            if score > self.cap:
                return number
        return None

    def total(self, held: Held, known: Held) -> tuple[Fraction, int]:
        """Return the sum of f over the sets of one unit, and the number of sets counted.

        Caps on averages use it: a caller keeps both sums for each adversary and adds
        the difference of ``total`` before and after an exposure. A set counts if it can
        disclose something: f > 0 with all its entries held. Each alternative is a set;
        with a window, one set begins at each different time of an entry in the rule's
        fields.

        Parameters
        ----------
        held : Mapping[tuple[str, int], int]
            What the adversary holds of the unit, a part of ``known``.
        known : Mapping[tuple[str, int], int]
            All entries of the unit that are loaded.
        """
        sums, sets = ZERO, 0
        groups = self.alternatives if self.complete else (tuple(self.fields),)
        for some, every in self._pairs(held, known):
            for fields in groups:
                if self.fraction(self._score_set(every, fields)) > 0:
                    sums += self.fraction(self._score_set(some, fields))
                    sets += 1
        return sums, sets

    def _pairs(
        self, held: Held, known: Held
    ) -> Iterator[tuple[Mapping[str, int], Mapping[str, int]]]:
        if self.window is None:
            yield by_field(held), by_field(known)
            return
        starts = self._times(known)
        pairs = zip(self.slide(held, starts), self.slide(known, starts), strict=True)
        for (_, some), (_, every) in pairs:
            yield some, every

    def _score_set(self, counts: Mapping[str, int], fields: Collection[str]) -> int:
        if self.complete:
            return int(all(counts.get(field, 0) > 0 for field in fields))
        return self.score(counts)


def by_field(held: Held) -> dict[str, int]:
    """Count the distinct entries held by field, over all times."""
    counts: dict[str, int] = {}
    for (field, _), n in held.items():
        counts[field] = counts.get(field, 0) + n
    return counts
