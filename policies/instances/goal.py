"""What an instance file asks for: the objective, and how f becomes one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from policies.instances.exact_numbers import fraction
from policies.instances.fields import (
    InvalidInstance,
    choice,
    integer,
    keyed,
    listed,
    mapped,
    needed,
    number,
)
from policies.model.aggregates import LARGEST_Q, Aggregate, Shape
from policies.model.disclosure import cap_below
from policies.model.fraction_sums import total
from policies.model.links import Relation
from policies.model.objective import Objective
from policies.model.problem import Average, Goal
from policies.model.sets import NO_CAP, Measure

MEASURES: Final = {
    "step": Measure.STEP,
    "linear": Measure.LINEAR,
    "quadratic": Measure.QUADRATIC,
}
RELATIONS: Final = {"cosine": Relation.COSINE, "common": Relation.COMMON}
ASKED: Final = ("tradeoff", "discbudget", "zero_step", "zero_cosine")
KEYS: Final = ("kind", "aggregation", "adversaries", "property_weights", "level", "q")
MOST: Final = 1e9
"""Largest weight of a property; its inverse is the least above 0."""

PRICED: Final = 10**300
"""Largest lambda (|tau| + f): answers are floats, and some 10^7 hands may be added up."""

ONLY: Final = {"level": Shape.COUNT, "q": Shape.SOFT_MAX}
"""Keys that say something of one aggregation alone."""


@dataclass(frozen=True)
class Ask:
    """What is maximised, and below which limit.

    Attributes
    ----------
    kind, asked : str
        Disclosure function, and one of ``ASKED``.
    average : bool
        Whether f is the plain mean of the paper.
    aggregate : Aggregate or None
        What f is where it is neither that nor the worst set.
    lambda_, tau : Fraction
    over : int
        Properties, at least 1.
    """

    kind: str
    asked: str
    average: bool
    aggregate: Aggregate | None
    lambda_: Fraction
    tau: Fraction
    over: int

    @property
    def goal(self) -> Goal:
        """The same as a goal."""
        tradeoff = self.asked == "tradeoff"
        return Goal(
            Objective.TRADEOFF if tradeoff else Objective.DISC_BUDGET,
            self.lambda_,
            self.tau,
            self.average,
            self.over,
            self.aggregate,
        )

    @property
    def limit(self) -> Fraction | None:
        """What f must stay below."""
        return self.tau if self.asked == "discbudget" else None

    def averages(self, n_properties: int) -> tuple[Average, ...]:
        """Return the cap f < tau where it is not on single sets, or can never be kept."""
        if self.limit is None:
            return ()
        if self.tau <= 0:
            return (Average((), self.tau, strict=True, over=1),)
        if not n_properties:  # nothing to be seen of any set; links are limited apart
            return ()
        if self.average:
            every = tuple(range(n_properties))
            return (Average(every, self.tau, strict=True, over=self.over),)
        how = self.aggregate
        if how is None or how.by_set:
            return ()
        return (Average((), self.tau, strict=True, aggregate=how),)

    def cap(self, measure: Measure, full: int, property_: int) -> int:
        """Return the highest load of one set."""
        if self.asked == "zero_step":
            return full - 1
        how = self.aggregate
        single = not self.average and (how is None or how.by_set)
        if self.limit is None or not single or self.tau <= 0:
            return NO_CAP
        tau = self.tau if how is None else how.level_of(property_, self.tau)
        return NO_CAP if tau is None else cap_below(measure, full, tau)


def read_ask(root: Mapping[str, Any]) -> tuple[Ask, list[str]]:
    """Read what is asked; return it, and the keys of ``disclosure`` that nothing reads.

    Raises
    ------
    InvalidInstance
        With what is wrong, where it is, and how to mend it.
    """
    how = mapped(root.get("disclosure"), "disclosure")
    unread = keyed(how, "disclosure", KEYS)
    needed(how, "disclosure", ("kind", "aggregation"))
    kind = choice(how.get("kind"), "disclosure.kind", (*MEASURES, *RELATIONS))
    shape = choice(how.get("aggregation"), "disclosure.aggregation", tuple(Shape))
    asked = choice(root.get("problem"), "problem", ASKED)
    _check_asked(kind, asked)
    many = len(listed(root.get("properties"), "properties"))
    aggregate = _aggregate(how, Shape(shape), many)
    plain = _plain(aggregate)
    ask = Ask(
        kind,
        asked,
        plain and aggregate.shape is Shape.AVERAGE,
        None if plain else aggregate,
        fraction(number(root.get("lambda", 1.0), "lambda")),
        fraction(number(root.get("tau", 0.0), "tau", -1e18)),
        max(1, many),
    )
    _check_priced(ask, max(total(aggregate.weights), Fraction(max(1, many))))
    return ask, unread


def _check_priced(ask: Ask, most: Fraction) -> None:
    """Raise where what disclosure costs is no number that could be written."""
    if ask.asked != "tradeoff" or ask.lambda_ * (abs(ask.tau) + most) <= PRICED:
        return
    raise InvalidInstance(
        f"lambda (tau - f) with lambda = {float(ask.lambda_):g} and tau = "
        f"{float(ask.tau):g} can be larger than numbers can be written",
        "lambda",
        "Write a smaller lambda, or a smaller tau.",
    )


def _check_asked(kind: str, asked: str) -> None:
    """Raise where the function and the question do not go together."""
    fit = {
        "zero_step": kind == "step",
        "zero_cosine": kind in RELATIONS,
    }
    if not fit.get(asked, True):
        raise InvalidInstance(
            f"{asked} is asked of the disclosure function {kind}",
            "problem",
            "zero_step goes with kind step, zero_cosine with kind cosine; for others "
            "ask discbudget with a tau.",
        )


def _aggregate(how: Mapping[str, Any], shape: Shape, many: int) -> Aggregate:
    """Read how f of all properties and adversaries becomes one number."""
    _owned(how, shape)
    across = "max" if how.get("adversaries") is None else how["adversaries"]
    summed = choice(across, "disclosure.adversaries", ("max", "sum")) == "sum"
    weights = _weights(how, many)
    if shape in (Shape.AVERAGE, Shape.SOFT_MAX) and len(set(weights)) == 1:
        weights = ()  # they are divided by their sum
    over = total(weights) if weights else Fraction(max(1, many))
    level, q = Fraction(0), 1
    if shape is Shape.COUNT:
        level = _level(how)
    if shape is Shape.SOFT_MAX:
        mend = f"Write a whole number from 1 to {LARGEST_Q}: 1 is the average."
        q = integer(how.get("q"), "disclosure.q", 1, LARGEST_Q, mend=mend)
        shape = Shape.AVERAGE if q == 1 else shape
    return Aggregate(shape, weights, summed, level, q, over)


def _owned(how: Mapping[str, Any], shape: Shape) -> None:
    """Refuse a key of another aggregation, and the lack of one's own."""
    for key, owner in ONLY.items():
        given = how.get(key) is not None
        if given and shape is not owner:
            raise InvalidInstance(
                f"{key} is given for the aggregation {shape}",
                f"disclosure.{key}",
                f"Leave it out, or ask for the aggregation {owner}.",
            )
        if shape is owner and not given:
            raise InvalidInstance(
                f"{key} is missing, which the aggregation {shape} needs",
                "disclosure",
                f"Write {key}: docs/reference/instances.md says what it means.",
            )


def _level(how: Mapping[str, Any]) -> Fraction:
    """Read the level that f of what is counted is above."""
    level = number(how.get("level"), "disclosure.level", 0.0)
    if level >= 1:
        raise InvalidInstance(
            f"{level!r} is out of range, expected 0 to below 1: no f is above 1",
            "disclosure.level",
            "Write a level below 1; step counts complete sets from 0.",
        )
    return fraction(level)


def _plain(how: Aggregate) -> bool:
    """Whether this is the paper's worst or average."""
    known = how.shape in (Shape.WORST, Shape.AVERAGE)
    return known and not how.summed and not how.weights


def _weights(how: Mapping[str, Any], many: int) -> tuple[Fraction, ...]:
    """Read the weights of properties; empty where they are all 1."""
    where = "disclosure.property_weights"
    if how.get("property_weights") is None:
        return ()
    given = listed(how["property_weights"], where, many)
    read = [number(item, f"{where}[{i}]", 0.0, MOST) for i, item in enumerate(given)]
    weights = tuple(fraction(weight) for weight in read)
    low = next((i for i, weight in enumerate(read) if 0 < weight < 1 / MOST), None)
    if low is not None:
        raise InvalidInstance(
            f"{read[low]!r} is out of range, expected 0, or {1 / MOST:g} to {MOST:g}",
            f"{where}[{low}]",
            "Write 0 for a property that does not count, or multiply all weights.",
        )
    if given and not any(weights):
        raise InvalidInstance(
            "all weights are 0, expected at least one above",
            where,
            "Give a weight to a property that counts, or leave the weights out.",
        )
    return () if all(weight == 1 for weight in weights) else weights
