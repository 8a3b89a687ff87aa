"""Relation rules, compiled: exact f of one link from what is held of its two people.

A *place vector* is what an adversary holds of one person: place -> visits, summed over
the entries in the rule's fields. An irrational f is compared by squares, and rounded up
only to show or sum it: never to the unsafe side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import isqrt
from typing import Any

from policies.model.links import root_up
from policies.policy import Property, Scope
from policies.rules.kinds import LinkDisclosure, PlaceSimilarity, Vector, family

NOTHING = LinkDisclosure(Fraction(0))

End = Mapping[Any, int]
"""What is held of one person: visits by place (:data:`~policies.rules.kinds.Vector`), or
1 by (record, field) for a tabulated rule (:mod:`policies.rules.tabulated_links`)."""


class LinkRule:
    """One relation rule.

    Attributes
    ----------
    name, relation : str
    scope : Scope
        ``RELATION``.
    kind : str
    similarity : callable or None
        From the place vectors of both people to f; None if f is tabulated.
    monotone, rational : bool
        Whether f never falls as more is held, and whether it is always a fraction.
    fields : frozenset of str
        Fields whose entries count.
    vector : str or None
        Column of the place; None if the rule is tabulated.
    count : str or None
        Column of the visits; None: each entry counts once.
    tau, average : Fraction or None
    window : None
        Relation rules have no window.
    """

    __slots__ = (
        "average",
        "count",
        "fields",
        "kind",
        "monotone",
        "name",
        "rational",
        "relation",
        "scope",
        "similarity",
        "tau",
        "vector",
        "window",
    )

    def __init__(self, prop: Property) -> None:
        shape, row = prop.disclosure, family(prop)
        placed = isinstance(row, PlaceSimilarity)
        if prop.relation is None or placed is (shape.vector is None):
            raise ValueError(
                f"rule {prop.name} has relation {prop.relation!r} and vector "
                f"{shape.vector!r}, expected both, a vector for places only"
            )
        self.name, self.relation, self.scope = prop.name, prop.relation, prop.scope
        self.kind, self.fields = shape.kind, prop.fields
        self.vector, self.count = shape.vector, shape.count
        self.tau, self.average = prop.tau, prop.average
        self.window: int | None = None
        self.similarity = row.similarity if isinstance(row, PlaceSimilarity) else None
        self.monotone = row.monotone if isinstance(row, PlaceSimilarity) else True
        self.rational = row.rational if isinstance(row, PlaceSimilarity) else True

    def reached(self, one: End, other: End) -> LinkDisclosure:
        """Return f of one link."""
        assert self.similarity is not None, "a tabulated rule looks f up"
        return self.similarity(one, other)

    def worst(self, mine: End, others: Iterable[End]) -> LinkDisclosure:
        """Return the largest f of one person's links to others."""
        return max(
            (self.reached(mine, other) for other in others),
            key=lambda found: found.square,
            default=NOTHING,
        )

    def past(self, reached: LinkDisclosure) -> bool:
        """Whether f >= tau, exactly."""
        return reached.past(self.tau)


def value(reached: LinkDisclosure) -> Fraction:
    """Return f of a link: exact if it is rational, else rounded up to 10^-18.

    Examples
    --------
    >>> value(Reached(Fraction(1, 9)))
    Fraction(1, 3)
    """
    square = reached.square
    exact = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    return exact if exact * exact == square else root_up(square)


def vectors(
    held: Iterable[tuple[int, str, Any, int]], fields: frozenset[str]
) -> dict[int, dict[Any, int]]:
    """Add up place vectors by person.

    Parameters
    ----------
    held : iterable of (int, str, place, int)
        Person, field, place (its name, or a number of it), visits.
    fields : frozenset of str
        The rule's fields; others are ignored.
    """
    found: dict[int, dict[Any, int]] = {}
    for person, field, place, visits in held:
        if field in fields:
            vector = found.setdefault(person, {})
            vector[place] = vector.get(place, 0) + visits
    return found


def with_visit(vector: Vector, place: str | None, visits: int) -> Vector:
    """Return the vector with one more entry; unchanged if the entry is at no place."""
    if place is None or visits < 1:
        return vector
    return {**vector, place: vector.get(place, 0) + visits}


def place_columns(rules: Mapping[str, Property]) -> tuple[str, str | None] | None:
    """Return the columns of place and visits that the relation rules use.

    A policy has one pair of columns: an entry is at one place.
    """
    for prop in rules.values():
        if prop.scope is Scope.RELATION and prop.disclosure.vector is not None:
            return prop.disclosure.vector, prop.disclosure.count
    return None
