"""The disclosure functions of the policy language, one row per kind (paper, section 4).

:data:`KINDS` gives for each kind its parameters in the policy file, the scopes it fits,
and how f is computed. Reading, checking, compiling, testing and planning use this
table. To add a kind, add a row here; the powers of sums come from
:data:`policies.model.measures.MEASURES`, so a power is a row there. A new *family* of
functions (:data:`Family`) needs code elsewhere too, and mypy names every ``match`` that
has to handle it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Final, assert_never

from policies.model.measures import MEASURES, Measure
from policies.policy import Disclosure, Property, Scope
from policies.rules.belief import (
    Beliefs,
    highest_posterior,
    information_gain,
    mean_information_gain,
)

MOST_FIELDS: Final = 12
"""Fields of a tabulated rule, at most: f is tabulated for 2^12 sets of them. Half as many
if both ends of a link count."""

Vector = Mapping[str, int]
"""What is held of one person by place: place -> visits."""

_WITHIN_ONE_PERSON: Final = frozenset({Scope.RECORD, Scope.SUBJECT})


@dataclass(frozen=True)
class LinkDisclosure:
    """f of a link as its exact square, in [0, 1]."""

    square: Fraction

    def past(self, tau: Fraction | None) -> bool:
        """Whether f >= tau, by squares."""
        return tau is not None and self.square >= tau * tau

    @property
    def root(self) -> Fraction:
        """The value of f: exact if it is rational, else to nine digits, rounded down."""
        top, bottom = self.square.numerator, self.square.denominator
        exact = Fraction(isqrt(top), isqrt(bottom))
        if exact * exact == self.square:
            return exact
        scale = 10**9
        return Fraction(isqrt(top * scale**2 // bottom), scale)


def common(one: Vector, other: Vector) -> LinkDisclosure:
    """Return 1 if both have been at one place, else 0."""
    return LinkDisclosure(Fraction(int(not one.keys().isdisjoint(other))))


def cosine(one: Vector, other: Vector) -> LinkDisclosure:
    """Return the cosine of two vectors of visits; 0 if one is empty (paper, section 5)."""
    if not one or not other:
        return LinkDisclosure(Fraction(0))
    dot = sum(n * other.get(place, 0) for place, n in one.items())
    norms = sum(n * n for n in one.values()) * sum(n * n for n in other.values())
    return LinkDisclosure(Fraction(dot * dot, norms))


@dataclass(frozen=True)
class RequiredParameter:
    """A required parameter of a kind: an example value in TOML, and what it is."""

    example: str
    what: str


@dataclass(frozen=True)
class Step:
    """f is 1 once a set is complete, or once ``at`` of its entries are held; else 0."""

    keys: ClassVar[tuple[str, ...]] = ("at",)
    needed: ClassVar[Mapping[str, RequiredParameter]] = {}
    scopes: ClassVar[frozenset[Scope]] = _WITHIN_ONE_PERSON


@dataclass(frozen=True)
class PowerOfSum:
    """f = (sum of the weights held) ** power, capped at 1.

    Attributes
    ----------
    measure : Measure
        It has the power; never a step.
    """

    measure: Measure
    keys: ClassVar[tuple[str, ...]] = ("weights", "per", "weight")
    needed: ClassVar[Mapping[str, RequiredParameter]] = {}
    scopes: ClassVar[frozenset[Scope]] = _WITHIN_ONE_PERSON


@dataclass(frozen=True)
class PlaceSimilarity:
    """f compares what is held of two linked people, place by place.

    Attributes
    ----------
    similarity : callable
        From the vectors of both people to f.
    monotone : bool
        Whether f never falls as more is held. If it can fall, it is judged after each
        entry in the order of the ledger, and plans keep the two people apart at every
        common place, which is stricter (:mod:`policies.rules.shared_places`).
    rational : bool
        Whether f is always a fraction; if not, limits compare squares.
    """

    similarity: Callable[[Vector, Vector], LinkDisclosure]
    monotone: bool = True
    rational: bool = True
    keys: ClassVar[tuple[str, ...]] = ("vector", "count")
    needed: ClassVar[Mapping[str, RequiredParameter]] = {
        "vector": RequiredParameter(
            '"<column>"', "the column that holds the place of a record"
        )
    }
    scopes: ClassVar[frozenset[Scope]] = frozenset({Scope.RELATION})


@dataclass(frozen=True)
class Tabulated:
    """f is looked up by which fields are held (:mod:`policies.rules.tabulated`).

    The table is computed once, when a policy is applied, and never falls as fields are
    added: whoever saw the parts remembers the worst of them.

    Attributes
    ----------
    of_beliefs : callable or None
        From a table of worlds and the numbers of the fields held to f; None for a
        user's function, which needs no table.
    """

    of_beliefs: Callable[[Beliefs, Sequence[int]], Fraction] | None
    scopes: ClassVar[frozenset[Scope]] = frozenset(Scope)

    @property
    def keys(self) -> tuple[str, ...]:
        """Parameters in the policy file."""
        return () if self.of_beliefs is None else ("table", "prior")

    @property
    def needed(self) -> Mapping[str, RequiredParameter]:
        """The required ones."""
        if self.of_beliefs is None:
            return {}
        return {"table": RequiredParameter('"<file>"', "the joint table's file")}


Family = Step | PowerOfSum | PlaceSimilarity | Tabulated

PLUGIN: Final = "plugin"
"""The kind of all functions that users bring; a policy writes ``plugin:NAME``."""

KINDS: Final[Mapping[str, Family]] = {
    **{
        name: Step() if measure.is_step else PowerOfSum(measure)
        for name, measure in MEASURES.items()
    },
    "common": PlaceSimilarity(common),
    "cosine": PlaceSimilarity(cosine, monotone=False, rational=False),
    "posterior": Tabulated(highest_posterior),
    "information-gain": Tabulated(information_gain),
    "mean-information-gain": Tabulated(mean_information_gain),
    PLUGIN: Tabulated(None),
}
"""Every kind's row, by its word in policies."""


def family(prop: Property) -> Family:
    """Return the row of a rule's kind."""
    return KINDS[prop.disclosure.kind]


def is_tabulated(prop: Property) -> bool:
    """Whether f of the rule is tabulated when the policy is applied."""
    return isinstance(family(prop), Tabulated)


def reads_table(prop: Property) -> bool:
    """Whether f of the rule comes from a file with a table of worlds."""
    row = family(prop)
    return isinstance(row, Tabulated) and row.of_beliefs is not None


def needs_whole_set(prop: Property) -> bool:
    """Whether the rule is a step of whole sets, without ``at``."""
    return isinstance(family(prop), Step) and prop.disclosure.at is None


def disclosed_alone(prop: Property) -> list[tuple[str, Fraction]]:
    """Return f that one entry of each field discloses by itself, highest first.

    Fields for which it is unknown or always 0 may be left out.
    """
    shape = prop.disclosure
    match family(prop):
        case Step():
            if shape.at is None:
                return [(a[0], Fraction(1)) for a in prop.alternatives if len(a) == 1]
            return [(f, Fraction(int(shape.at == 1))) for f in prop.alternatives[0]]
        case PowerOfSum(measure):
            fields = prop.alternatives[0]
            share = shape.per_entry or Fraction(1, len(fields))
            weights = shape.weights or dict.fromkeys(fields, share)
            found = [
                (f, w**measure.power) for f, w in weights.items() if f in prop.fields
            ]
            return sorted(found, key=lambda pair: -pair[1])
        case PlaceSimilarity() | Tabulated():
            return []
        case other:
            assert_never(other)


def title(shape: Disclosure) -> str:
    """Return a disclosure in a few words: ``step at 2``, ``cosine``, ``plugin:ages``."""
    if shape.kind == PLUGIN and shape.plugin:
        return f"plugin:{shape.plugin}"
    at = "" if shape.at is None else f" at {shape.at}"
    return f"{shape.kind}{at}"
