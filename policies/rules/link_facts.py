"""Relation rules over the facts of a policy test: common places and the cosine.

Exact throughout: a cosine is compared with a limit by squares of integers. Each held
entry adds its record's count to its place, an entry without a place adds nothing, and an
empty side gives 0 (paper, section 5: the friendship links of check-ins).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from policies.policy import Kind, PolicyTest, Property

Vector = Mapping[str, int]


@dataclass(frozen=True)
class Reached:
    """F of a link as its exact square, in [0, 1]."""

    square: Fraction

    def past(self, tau: Fraction | None) -> bool:
        """Whether f >= tau, by squares."""
        return tau is not None and self.square >= tau * tau

    @property
    def root(self) -> Fraction:
        """F itself: exact if it is rational, else to nine digits, rounded down."""
        top, bottom = self.square.numerator, self.square.denominator
        exact = Fraction(isqrt(top), isqrt(bottom))
        if exact * exact == self.square:
            return exact
        scale = 10**9
        return Fraction(isqrt(top * scale**2 // bottom), scale)


def common(one: Vector, other: Vector) -> Reached:
    """1 if both have been at one place, else 0."""
    return Reached(Fraction(int(not one.keys().isdisjoint(other))))


def cosine(one: Vector, other: Vector) -> Reached:
    """Square of the cosine of two vectors of visits; 0 if one is empty."""
    if not one or not other:
        return Reached(Fraction(0))
    dot = sum(n * other.get(place, 0) for place, n in one.items())
    norms = sum(n * n for n in one.values()) * sum(n * n for n in other.values())
    return Reached(Fraction(dot * dot, norms))


def judge_links(
    prop: Property, test: PolicyTest, order: Iterable[tuple[str, str]]
) -> Reached:
    """The largest f of a link that ends in the asked entry's subject.

    Parameters
    ----------
    prop : Property
        A relation rule whose ``of`` has the asked field.
    test : PolicyTest
    order : iterable of (str, str)
        Entries that the adversary holds, in ledger order, the asked one last. The cosine
        is not monotone, so it is judged after each of them; common never falls.
    """
    relation = prop.relation or ""
    measure = common if prop.disclosure.kind is Kind.COMMON else cosine
    subjects = subjects_of(test)
    mine = subjects(test.ask[0])
    friends = {
        b if a == mine else a
        for a, b in test.facts.relations.get(relation, ())
        if mine in (a, b)
    }
    visits: dict[str, dict[str, int]] = {}
    worst, held = Reached(Fraction(0)), set()
    for record, field in order:
        if field not in prop.fields or (record, field) in held:
            continue
        held.add((record, field))
        count = test.facts.count.get(record, 1) if prop.disclosure.count else 1
        place = test.facts.vector.get(record, "")
        if place and count:
            vector = visits.setdefault(subjects(record), {})
            vector[place] = vector.get(place, 0) + count
        for friend in friends:
            reached = measure(visits.get(mine, {}), visits.get(friend, {}))
            worst = max(worst, reached, key=lambda r: r.square)
    return worst


def subjects_of(test: PolicyTest) -> Callable[[str], str]:
    """The subject of a record as a test tells it; a record on its own is its own.

    Records in one ``same_subject`` list share a subject, named as the first of them.
    """
    same = {r: group[0] for group in test.same_subject for r in group}
    told = test.facts.subject
    return lambda record: told.get(record) or same.get(record, record)
